package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
)

func TestNotModified(t *testing.T) {
	h := Handler(newSite(t).Config, false)
	for _, c := range []struct {
		match  string
		status int
	}{
		{`"42"`, 304}, {`W/"42"`, 304}, {`"41", "42"`, 304}, {`*`, 304},
		{`"41"`, 200}, {`42`, 200}, {``, 200}, {`"142"`, 200},
	} {
		for _, path := range []string{"/v1/plan", "/v1/plan/phases", "/v1/plan/servers/100"} {
			w := request(h, "GET", path, "", "If-None-Match", c.match)
			if w.Code != c.status || w.Header().Get("ETag") != `"42"` || (w.Body.Len() == 0) != (w.Code == 304) {
				t.Errorf("%s If-None-Match %s: %d, ETag %s, %d bytes; want %d", path, c.match, w.Code, w.Header().Get("ETag"), w.Body.Len(), c.status)
			}
		}
	}
}

// poll asks for the plan with a preference to wait, and says when the answer
// came.
func poll(h http.Handler, match, prefer string) (w *httptest.ResponseRecorder, took time.Duration) {
	start := time.Now()
	header := []string{"Prefer", prefer}
	if match != "" {
		header = append(header, "If-None-Match", match)
	}
	w = request(h, "GET", "/v1/plan", "", header...)
	return w, time.Since(start)
}

func TestLongPoll(t *testing.T) {
	for _, c := range []struct {
		name, match, prefer string
		publishAfter        time.Duration // of epoch 43; 0 never
		status              int
		took                time.Duration
		applied             string
	}{
		{"times out", `"42"`, "wait=30", 0, 304, 30 * time.Second, "wait=30"},
		{"new plan", `"42"`, "wait=30", 7 * time.Second, 200, 7 * time.Second, "wait=30"},
		{"bounded", `"42"`, "wait=99999", 0, 304, api.MaxWait, "wait=300"},
		{"among others", `"42"`, `respond-async, WAIT = "3" ; x=1`, 0, 304, 3 * time.Second, "wait=3"},
		{"any epoch", `*`, "wait=5", 2 * time.Second, 304, 5 * time.Second, "wait=5"},
		{"new already", `"41"`, "wait=30", 0, 200, 0, ""},
		{"nothing known", ``, "wait=30", 0, 200, 0, ""},
		{"nonsense", `"42"`, "wait=soon", 0, 304, 0, ""},
		{"negative", `"42"`, "wait=-1", 0, 304, 0, ""},
		{"zero", `"42"`, "wait=0", 0, 304, 0, "wait=0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			if c.publishAfter > 0 {
				time.AfterFunc(c.publishAfter, func() { s.Plans.Publish(publish(t, 43)) })
			}
			w, took := poll(Handler(s.Config, false), c.match, c.prefer)
			if w.Code != c.status || took != c.took || w.Header().Get("Preference-Applied") != c.applied {
				t.Errorf("%s: %d after %v, applied %q; want %d after %v, %q", c.name, w.Code, took, w.Header().Get("Preference-Applied"), c.status, c.took, c.applied)
			}
		})
	}
}

// TestLongPollSameEpoch publishes the epoch again that the client has: it goes
// on waiting.
func TestLongPollSameEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		time.AfterFunc(time.Second, func() { s.Plans.Publish(publish(t, 42)) })
		time.AfterFunc(2*time.Second, func() { s.Plans.Publish(publish(t, 43)) })
		w, took := poll(Handler(s.Config, false), `"42"`, "wait=30")
		if w.Code != 200 || took != 2*time.Second || w.Header().Get("ETag") != `"43"` {
			t.Errorf("%d after %v, ETag %s", w.Code, took, w.Header().Get("ETag"))
		}
	})
}

func TestLongPollFirstPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.Plans = &published.Plans{}
		h := Handler(s.Config, false)
		if w, took := poll(h, "", "wait=5"); w.Code != 503 || took != 5*time.Second {
			t.Errorf("without a plan: %d after %v", w.Code, took)
		}
		time.AfterFunc(time.Second, func() { s.Plans.Publish(publish(t, 1)) })
		if w, took := poll(h, "", "wait=5"); w.Code != 200 || took != time.Second {
			t.Errorf("first plan: %d after %v", w.Code, took)
		}
	})
}

// TestLongPollOutlivesDeadlines polls for longer than the connection's own
// deadlines, through a real server.
func TestLongPollOutlivesDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		l := newPipes()
		server := httpServer(context.Background(), Handler(s.Config, false), nil)
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		client := l.client(t)
		defer client.Close()
		time.AfterFunc(4*time.Minute, func() { s.Plans.Publish(publish(t, 43)) })
		start := time.Now()
		plan, err := client.WaitEpoch(t.Context(), 42)
		if err != nil || plan.Epoch != 43 || time.Since(start) != 4*time.Minute {
			t.Fatalf("plan %+v after %v, error %v", plan, time.Since(start), err)
		}
	})
}

// TestStopEndsLongPolls ends the server's context under a long poll.
func TestStopEndsLongPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/plan", nil)
		r.Header.Set("If-None-Match", `"42"`)
		r.Header.Set("Prefer", "wait=60")
		time.AfterFunc(time.Second, stop)
		start, w := time.Now(), httptest.NewRecorder()
		Handler(newSite(t).Config, false).ServeHTTP(w, r)
		if w.Code != 503 || time.Since(start) != time.Second || !strings.Contains(w.Body.String(), api.CodeStopping) {
			t.Errorf("%d %s after %v", w.Code, w.Body, time.Since(start))
		}
	})
}

// TestSlowClients holds connections open in the three known ways: a header that
// never ends, a body that never comes, an answer that is not read.
func TestSlowClients(t *testing.T) {
	for _, c := range []struct {
		name, request string
		within        time.Duration
	}{
		{"header", "GET /v1/status HTTP/1.1\r\nHost: [::1]\r\nX-Slow: ", 6 * time.Second},
		{"body", "POST /v1/rollback HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", 31 * time.Second},
		{"body of a mounted handler", "POST /v1/slow HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 10\r\n\r\n{", 31 * time.Second},
		{"idle", "GET /healthz HTTP/1.1\r\nHost: [::1]\r\n\r\n", 61 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, l := newSite(t), newPipes()
			s.Mount[api.Viewer]["POST /v1/slow"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(w, r.Body); err == nil {
					t.Error("a whole body came")
				}
			})
			server := httpServer(context.Background(), Handler(s.Config, false), nil)
			go func() { _ = server.Serve(l) }()
			defer server.Close()
			conn, err := l.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			start := time.Now()
			if _, err := conn.Write([]byte(c.request)); err != nil {
				t.Fatal(err)
			}
			var answer bytes.Buffer
			if _, err := answer.ReadFrom(conn); err != nil || time.Since(start) > c.within {
				t.Errorf("%s: closed after %v (error %v), want within %v", c.name, time.Since(start), err, c.within)
			}
			if len(s.calls) > 0 {
				t.Errorf("%s: did %q", c.name, s.calls)
			}
		})
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("text/csv;q=0.5, */*", `W/"42", *`, "wait=10, x")
	f.Add("application/*;q=2", `"`, `wait="`)
	f.Fuzz(func(t *testing.T, accept, match, prefer string) {
		if q := acceptance([]string{accept}, "text/csv"); q < 0 || q > 1 {
			t.Errorf("quality %v of %q", q, accept)
		}
		known := parseETags([]string{match})
		if !known.any && known.has(42) && !strings.Contains(match, `"42"`) {
			t.Errorf("%q has epoch 42", match)
		}
		if wait, ok := preferredWait([]string{prefer}); wait < 0 || wait > api.MaxWait || !ok && wait != 0 {
			t.Errorf("wait %v of %q", wait, prefer)
		}
	})
}
