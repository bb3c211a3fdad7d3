package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestEventsRing drives readers of different pace against a ring: each gets
// every event once and in order, or is told that some are missing, and never
// misses one that the ring still had.
func TestEventsRing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(rt, "size")
		s := NewEvents(size, started)
		var published []string
		type reader struct {
			at   uint64
			seen int // how many of published it has had or been told are lost
		}
		var readers [3]reader
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "publish") {
				data := fmt.Sprint(len(published))
				if err := s.Publish("link", json.RawMessage(data)); err != nil {
					rt.Fatal(err)
				}
				published = append(published, data)
				continue
			}
			r := &readers[rapid.IntRange(0, 2).Draw(rt, "reader")]
			if r.seen == len(published) {
				continue
			}
			events, at := s.wait(context.Background(), r.at)
			r.at = at
			if lost := len(published) - r.seen - size; lost > 0 {
				if events[0].Kind != KindMissed {
					rt.Fatalf("%d events are lost, yet the first is %+v", lost, events[0])
				}
				if n, ok := s.after(events[0].ID); !ok || n != uint64(r.seen+lost) {
					rt.Fatalf("the ID of what was lost leads to %d, want %d", n, r.seen+lost)
				}
				events, r.seen = events[1:], r.seen+lost
			}
			for _, e := range events {
				if string(e.Data) != published[r.seen] {
					rt.Fatalf("event %s, want %s", e.Data, published[r.seen])
				}
				r.seen++
				if n, ok := s.after(e.ID); !ok || n != uint64(r.seen) {
					rt.Fatalf("ID %s leads to %d, want %d", e.ID, n, r.seen)
				}
			}
			if r.seen != len(published) {
				rt.Fatalf("%d of %d events", r.seen, len(published))
			}
		}
	})
}

// TestEventsNameTheFabric looks for the fabric's name in the data of an event.
func TestEventsNameTheFabric(t *testing.T) {
	s := NewEvents(4, started)
	s.Name("plane-3")
	if err := s.Publish(KindStart, Start{Version: "1"}); err != nil {
		t.Fatal(err)
	}
	if e := s.since(0); len(e) != 1 || string(e[0].Data) != `{"fabric":"plane-3","release":"1"}` {
		t.Errorf("%s", e)
	}
}

func TestEventsRefuseWhatIsNoJSON(t *testing.T) {
	s := NewEvents(4, started)
	if err := s.Publish("link", make(chan int)); err == nil {
		t.Error("a channel was published")
	}
	if n, ok := s.after(""); n != 0 || !ok {
		t.Errorf("the latest event is %d", n)
	}
}

func TestEventIDsOfOthers(t *testing.T) {
	s, other := NewEvents(4, started), NewEvents(4, started.Add(time.Second))
	for range 3 {
		for _, e := range []*Events{s, other} {
			if err := e.Publish("link", 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range []string{other.id(2), s.id(4), "2", "-2", "x-y", s.run, s.run + "-", s.run + "--1"} {
		if n, ok := s.after(id); ok || n != 3 {
			t.Errorf("ID %q leads to %d (%t), want 3 (false)", id, n, ok)
		}
	}
}

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
		if err := s.Events.Publish(KindLink, text); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchFromID(t *testing.T) {
	for _, c := range []struct {
		name string
		last func(s *Events) string
		want []string
	}{
		{"replay", func(s *Events) string { return s.id(11) }, []string{`link 11`, `link 12`}},
		{"before the first", func(s *Events) string { return s.id(0) }, []string{`missed {}`, `link 5`, `link 6`, `link 7`, `link 8`, `link 9`, `link 10`, `link 11`, `link 12`}},
		{"another run", func(*Events) string { return "z-3" }, []string{`missed {}`}},
		{"latest", func(s *Events) string { return s.id(12 + 1) }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t) // a ring of 8
			for i := range 13 {
				if err := s.Events.Publish(KindLink, i); err != nil {
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
		{": still here\n\n", 20*time.Second + silence},
		{"id: x-1\nevent: link\ndata: 1\n\n", 20*time.Second + time.Hour + silence},
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
			for _, err := range client.Watch(ctx, s.Events.id(0)) {
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

// TestEventsWithoutEnd reads lines and events that are too long to be forsd's.
func TestEventsWithoutEnd(t *testing.T) {
	for what, text := range map[string]string{
		"a line":     strings.Repeat("x", 2*maxEventLine),
		"many lines": "id: a-1\n" + strings.Repeat("data: 0123456789\n", maxEventLine/10),
	} {
		err := readEvents(strings.NewReader(text+"\n\n"), func() {}, func(e Event) bool {
			t.Errorf("%s: event %s with %d bytes", what, e.ID, len(e.Data))
			return true
		})
		if !errors.Is(err, bufio.ErrTooLong) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("retry: 1000\nid: a-1\n\n: still here\n\nid: a-2\nevent: link\ndata: {}\n\n")
	f.Add("event: x\n\ndata:\n\nid\n\ndata: a\ndata: b\nevent: y\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := 0
		err := readEvents(strings.NewReader(text), func() { lines++ }, func(e Event) bool {
			if e.ID == "" && e.Kind == "" || e.Kind != "" && e.Data == nil {
				t.Errorf("an event of nothing: %+v", e)
			}
			if strings.ContainsAny(e.ID+e.Kind, "\n") {
				t.Errorf("a line break in %+v", e)
			}
			return true
		})
		if err == nil {
			t.Error("the end is no error")
		}
		if most := strings.Count(text, "\n") + 1; lines > most {
			t.Errorf("%d lines of %d", lines, most)
		}
	})
}

// TestStreamForm reads the bytes of a stream.
func TestStreamForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.note(t, "a\nb")
		ctx, cancel := context.WithTimeout(t.Context(), keepAlive+time.Second)
		defer cancel()
		w := askStream(ctx, s, s.Events.id(0))
		run := s.Events.run
		want := "retry: 1000\nid: " + run + "-0\n\nid: " + run + "-1\nevent: link\ndata: \"a\\nb\"\n\n: still here\n\n"
		if diff := cmp.Diff(want, w); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestCrowd makes many streams wait for events. The first are woken at once and the others
// within a time that grows with their number. None is forgotten when events come during the
// waking, and streams that have ended leave nothing behind.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 3000
		s := NewEvents(64, time.Now())
		ctx, leave := context.WithCancel(t.Context())
		var streams sync.WaitGroup
		var mu sync.Mutex
		seen := map[uint64][]time.Duration{} // by event: when the streams knew it
		begin := time.Now()
		for range all {
			streams.Go(func() {
				for at := uint64(0); ctx.Err() == nil; {
					wait, cancel := context.WithTimeout(ctx, keepAlive)
					_, next := s.wait(wait, at)
					cancel()
					mu.Lock()
					for ; at < next; at++ {
						seen[at+1] = append(seen[at+1], time.Since(begin))
					}
					mu.Unlock()
				}
			})
		}
		time.Sleep(100*keepAlive + keepAlive/2) // they have come back many times
		begin = time.Now()
		say := func() {
			if err := s.Publish(KindLink, nil); err != nil {
				t.Error(err)
			}
		}
		say()
		synctest.Wait()
		mu.Lock()
		if n := len(seen[1]); n != mostNear {
			t.Errorf("%d are woken at once", n)
		}
		mu.Unlock()
		time.Sleep(lateAfter / 2)
		say() // it is told with the first
		time.Sleep(50 * time.Millisecond)
		say() // during the waking
		time.Sleep(2 * time.Second)
		leave()
		streams.Wait()
		for n, most := range map[uint64]time.Duration{1: 450 * time.Millisecond, 2: 450 * time.Millisecond, 3: 900 * time.Millisecond} {
			if len(seen[n]) != all || slices.Max(seen[n]) > most {
				t.Errorf("event %d was told to %d, the last after %v", n, len(seen[n]), slices.Max(seen[n]))
			}
		}
		if len(s.late) != 0 || len(s.waiting) != 0 || s.waking {
			t.Errorf("%d are late still, %d wait, waking %v", len(s.late), len(s.waiting), s.waking)
		}
	})
}

// TestHold has many wait for a plan and for events: while forsd works on a change the first
// know at once, and the others when OpenSM has its tables, or after some seconds.
func TestHold(t *testing.T) {
	for held, most := range map[time.Duration]time.Duration{0: 450 * time.Millisecond, 500 * time.Millisecond: 950 * time.Millisecond, time.Hour: mostHeld + 450*time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const all = 3000
			s := NewEvents(64, time.Now())
			var streams sync.WaitGroup
			var mu sync.Mutex
			var seen []time.Duration
			begin := time.Now()
			for range all {
				streams.Go(func() {
					_, _ = s.wait(t.Context(), 0)
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, time.Since(begin))
				})
			}
			synctest.Wait()
			s.Hold(held > 0)
			if err := s.Publish(KindLink, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(min(held, mostHeld-time.Millisecond))
			synctest.Wait()
			mu.Lock()
			n := len(seen)
			mu.Unlock()
			s.Hold(held > mostHeld)
			streams.Wait()
			if last := slices.Max(seen); n != mostNear || last > most || last < held && last < mostHeld {
				t.Errorf("held for %v: %d knew it at once, the last after %v", held, n, last)
			}
			time.Sleep(time.Second)
			if len(s.late) != 0 || len(s.waiting) != 0 || s.waking {
				t.Errorf("%d are late still, %d wait, waking %v", len(s.late), len(s.waiting), s.waking)
			}
		})
	}
}
