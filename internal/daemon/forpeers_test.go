package daemon

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/standby/replica"
)

// TestPeerAlone checks that GET /v1/replica is answered only for the other forsd,
// identified by its certificate, and for administrators. The claims of others do not
// reach the machine that decides which forsd leads.
func TestPeerAlone(t *testing.T) {
	g := guard(t, func(c *config.Config) { c.Peer.Address = "https://other.example.org:1" })
	issue := func(name string) tls.Certificate {
		pair, _, _ := g.ca.Issue(t, name, time.Now().Add(time.Hour))
		return pair
	}
	viewer := g.token(t, api.Viewer)
	const claim = "/v1/replica?claim=18446744073709551000"
	for _, c := range []struct {
		name string
		way  *way
		want int
	}{
		{"TCP", &way{url: "http://" + g.plain, http: http.DefaultClient}, http.StatusForbidden},
		{"TLS", g.overTLS(api.Nobody, ""), http.StatusUnauthorized},
		{"a viewer's certificate", g.overTLS(api.Viewer, "", issue("viewer")), http.StatusForbidden},
		{"a viewer's token", g.overTLS(api.Viewer, viewer), http.StatusForbidden},
		{"a viewer's token from the other host", g.overTLS(api.Viewer, viewer, issue("other")), http.StatusForbidden},
	} {
		if status, text := c.way.ask(t, "GET", claim); status != c.want {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
	peer := g.overTLS(api.Nobody, "", issue("other"))
	status, text := peer.ask(t, "GET", "/v1/replica")
	if status != http.StatusOK || !strings.Contains(text, `"tag"`) {
		t.Errorf("the other forsd: %d %s", status, text)
	}
	if status, text := peer.ask(t, "GET", "/v1/status"); status != http.StatusForbidden {
		t.Errorf("the other forsd at another endpoint: %d %s", status, text)
	}
	if status, text := g.bySocket(os.Getuid(), api.Administrator).ask(t, "GET", "/v1/replica"); status != http.StatusOK {
		t.Errorf("an administrator: %d %s", status, text)
	}
	ok(t, g.inbox.call(t.Context(), func(ctx context.Context, l *loop) { l.mastership(ctx, true) }))
	if status, text := peer.ask(t, "GET", "/v1/replica"); status != http.StatusOK || strings.Contains(text, `"claim":18446744073709551`) {
		t.Errorf("a stranger's claim was heard: %s", text)
	}
}

// TestReplicaBesideLoop checks that the other forsd is answered while the loop is busy.
// Only the answer to a takeover waits for the loop.
func TestReplicaBesideLoop(t *testing.T) {
	g := guard(t, func(c *config.Config) { c.Peer.Address = "https://other.example.org:1" })
	w := g.bySocket(os.Getuid(), api.Administrator)
	if status, text := w.ask(t, "GET", "/v1/replica"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	busy, end := make(chan struct{}), make(chan struct{})
	go func() { _ = g.inbox.call(context.Background(), func(context.Context, *loop) { close(busy); <-end }) }()
	<-busy
	for range 100 {
		if status, text := w.ask(t, "GET", "/v1/replica?have=x&wait=60"); status != http.StatusOK {
			t.Fatalf("while the loop is at work: %d %s", status, text)
		}
	}
	claimed := make(chan int)
	go func() {
		status, _ := w.ask(t, "GET", "/v1/replica?claim=1")
		claimed <- status
	}()
	select {
	case status := <-claimed:
		t.Errorf("a claim was not heard by the loop, and is answered with %d", status)
	case <-time.After(50 * time.Millisecond):
	}
	close(end)
	if status := <-claimed; status != http.StatusOK {
		t.Errorf("a claim is answered with %d", status)
	}
}

// TestIdlePolls has many questions of the other forsd wait for news. The loop is not
// involved, and all of them are answered when there is news.
func TestIdlePolls(t *testing.T) {
	polls := 200
	if os.Getenv("FORS_LONG") != "" {
		polls = 2000
	}
	w := newTwins(t, fabric(4, 4))
	d := w.leader
	r := w.sync(t, "")
	answers := func() (median, worst time.Duration) {
		var took []time.Duration
		for range 200 {
			began := time.Now()
			ok(t, d.inbox.call(t.Context(), func(context.Context, *loop) {}))
			took = append(took, time.Since(began))
			time.Sleep(5 * time.Millisecond)
		}
		slices.Sort(took)
		return took[len(took)/2], took[len(took)-1]
	}
	median, worst := answers()
	t.Logf("quiet: the loop answers within %v, %v at worst", median, worst)
	var asked sync.WaitGroup
	for range polls {
		asked.Go(func() {
			out, err := d.peer.Desk.Answer(httptest.NewRequest(http.MethodGet, "/?wait=60&have="+r.Tag, nil))
			if err != nil || out.(*replica.Replica).Tag == r.Tag {
				t.Errorf("%v, %v", out, err)
			}
		})
	}
	median, worst = answers()
	t.Logf("%d polls: the loop answers within %v, %v at worst", polls, median, worst)
	_, err := backend.Jobs{Parts: &d.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Hosts: names(0, 2)})
	ok(t, err)
	asked.Wait()
}
