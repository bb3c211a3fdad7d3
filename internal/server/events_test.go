package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
)

// reconnectFirst and reconnectMost are how long a watcher waits before it comes back.
const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 5 * time.Second
)

// subscribe serves s and collects what a client that watches it is told, until
// stop is called.
func subscribe(t *testing.T, s *site, last string) (got func() []string, stop func()) {
	t.Helper()
	l := newPipes()
	base, end := context.WithCancel(context.Background())
	server := httpServer(base, Handler(s.Config, false), nil)
	go func() { _ = server.Serve(l) }()
	client := l.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	var said []string
	go func() {
		for e, err := range client.Watch(ctx, last) {
			if err != nil {
				said = append(said, "error: "+err.Error())
			} else {
				said = append(said, e.Kind+" "+string(e.Data))
			}
		}
	}()
	return func() []string { synctest.Wait(); return said }, func() { cancel(); end(); client.Close(); server.Close() }
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.note(t, "before")
		got, stop := subscribe(t, s, "")
		defer stop()
		if said := got(); len(said) > 0 {
			t.Errorf("told of %q", said)
		}
		s.note(t, "one", "two")
		if diff := cmp.Diff([]string{`link "one"`, `link "two"`}, got()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour) // of the bubble: the stream outlives every deadline
		s.note(t, "three")
		if diff := cmp.Diff([]string{`link "one"`, `link "two"`, `link "three"`}, got()); diff != "" {
			t.Errorf("after an hour (-want +got):\n%s", diff)
		}
	})
}

// note publishes one event for each text.
func (s *site) note(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := s.Events.Publish(api.KindLink, text); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchFromID(t *testing.T) {
	for _, c := range []struct {
		name string
		last func(s *published.Events) string
		want []string
	}{
		{"replay", func(s *published.Events) string { return s.ID(11) }, []string{`link 11`, `link 12`}},
		{"before the first", func(s *published.Events) string { return s.ID(0) }, []string{`missed {}`, `link 5`, `link 6`, `link 7`, `link 8`, `link 9`, `link 10`, `link 11`, `link 12`}},
		{"another run", func(*published.Events) string { return "z-3" }, []string{`missed {}`}},
		{"latest", func(s *published.Events) string { return s.ID(12 + 1) }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t) // a ring of 8
			for i := range 13 {
				if err := s.Events.Publish(api.KindLink, i); err != nil {
					t.Fatal(err)
				}
			}
			got, stop := subscribe(t, s, c.last(s.Events))
			defer stop()
			if diff := cmp.Diff(c.want, got()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		})
	}
}

// TestWatchReconnects breaks every connection that a watcher has.
func TestWatchReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newSite(t), newPipes()
		client := l.client(t)
		defer client.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var said []string
		go func() {
			for e, err := range client.Watch(ctx, "") {
				if err == nil {
					said = append(said, string(e.Data))
				}
			}
		}()
		for i := range 3 {
			base, end := context.WithCancel(context.Background())
			server := httpServer(base, Handler(s.Config, false), nil)
			go func() { _ = server.Serve(l) }()
			time.Sleep(2 * reconnectMost) // it comes back within this time
			s.note(t, fmt.Sprint(i))
			synctest.Wait()
			end()
			server.Close()
			s.note(t, fmt.Sprint(i, " while away"))
			l.reopen()
		}
		synctest.Wait()
		want := `"0" "0 while away" "1" "1 while away" "2"`
		if got := strings.Join(said, " "); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}

// TestWatchSilence has a server that stops talking, after a comment or after an
// event that the watcher thinks about for long.
func TestWatchSilence(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n"
	for _, c := range []struct {
		said string
		took time.Duration
	}{
		{": still here\n\n", 20*time.Second + 3*api.KeepAlive},
		{"id: x-1\nevent: link\ndata: 1\n\n", 20*time.Second + time.Hour + 3*api.KeepAlive},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newPipes()
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				buf := make([]byte, 4096)
				_, _ = conn.Read(buf)
				_, _ = conn.Write([]byte(head))
				time.Sleep(20 * time.Second)
				_, _ = conn.Write([]byte(c.said))
				_, _ = conn.Read(buf) // until the client gives up
			}()
			client := l.client(t)
			defer client.Close()
			start := time.Now()
			for _, err := range client.Watch(t.Context(), "") {
				if err == nil {
					time.Sleep(time.Hour)
					continue
				}
				if !strings.Contains(err.Error(), "was silent for 45s") || time.Since(start) != c.took {
					t.Errorf("after %q: error %v after %v, want %v", c.said, err, time.Since(start), c.took)
				}
				break
			}
		})
	}
}

// TestWatchComesBackQuickly lets a watcher slow down while the server is away. Once it has had
// an event again, it reconnects at once after its stream breaks.
func TestWatchComesBackQuickly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newSite(t), newPipes()
		s.note(t, "before")
		l.Close()
		client := l.client(t)
		defer client.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events := 0
		go func() {
			for _, err := range client.Watch(ctx, s.Events.ID(0)) {
				if err == nil {
					events++
				}
			}
		}()
		time.Sleep(time.Minute)
		for wait := range 2 {
			l.reopen()
			server := httpServer(context.Background(), Handler(s.Config, false), nil)
			go func() { _ = server.Serve(l) }()
			time.Sleep([]time.Duration{reconnectMost, reconnectFirst}[wait])
			synctest.Wait()
			if events != wait+1 {
				t.Fatalf("round %d: %d events", wait, events)
			}
			s.note(t, "next")
			synctest.Wait()
			server.Close()
			events = wait + 1
			s.note(t, "while away")
		}
	})
}

func TestWatchStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		l.Close()
		client := l.client(t)
		start, errs := time.Now(), 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range client.Watch(ctx, "") {
			if err == nil {
				t.Fatal("an event out of nothing")
			}
			errs++
		}
		// 0.1, 0.2, … 3.2 s, then every 5 s.
		if took := time.Since(start); took != time.Minute || errs != 7+10 {
			t.Errorf("%d errors in %v", errs, took)
		}
	})
}

// TestStreamForm reads the bytes of a stream.
func TestStreamForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.note(t, "a\nb")
		ctx, cancel := context.WithTimeout(t.Context(), api.KeepAlive+time.Second)
		defer cancel()
		w := askStream(ctx, s, s.Events.ID(0))
		run := s.Events.Run()
		want := "retry: 1000\nid: " + run + "-0\n\nid: " + run + "-1\nevent: link\ndata: \"a\\nb\"\n\n: still here\n\n"
		if diff := cmp.Diff(want, w); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
