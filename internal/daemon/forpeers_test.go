package daemon

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/config"
)

// TestPeerAlone answers GET /v1/replica to the other forsd, which its certificate names, and to
// administrators. Others are refused, and what they claim does not reach the machine that
// decides who leads.
func TestPeerAlone(t *testing.T) {
	g := guard(t, func(c *config.Config) { c.Peer.Address = "https://other.example.org:1" })
	issue := func(name string) tls.Certificate {
		pair, _, _ := g.ca.Issue(t, name, time.Now().Add(time.Hour))
		return pair
	}
	viewer := g.token(t, access.Viewer)
	const claim = "/v1/replica?claim=18446744073709551000"
	for _, c := range []struct {
		name string
		way  *way
		want int
	}{
		{"TCP", &way{url: "http://" + g.plain, http: http.DefaultClient}, http.StatusForbidden},
		{"TLS", g.overTLS(access.Nobody, ""), http.StatusUnauthorized},
		{"a viewer's certificate", g.overTLS(access.Viewer, "", issue("viewer")), http.StatusForbidden},
		{"a viewer's token", g.overTLS(access.Viewer, viewer), http.StatusForbidden},
		{"a viewer's token from the other host", g.overTLS(access.Viewer, viewer, issue("other")), http.StatusForbidden},
	} {
		if status, text := c.way.ask(t, "GET", claim); status != c.want {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
	peer := g.overTLS(access.Nobody, "", issue("other"))
	status, text := peer.ask(t, "GET", "/v1/replica")
	if status != http.StatusOK || !strings.Contains(text, `"tag"`) {
		t.Errorf("the other forsd: %d %s", status, text)
	}
	if status, text := peer.ask(t, "GET", "/v1/status"); status != http.StatusForbidden {
		t.Errorf("the other forsd at another endpoint: %d %s", status, text)
	}
	if status, text := g.bySocket(os.Getuid(), access.Administrator).ask(t, "GET", "/v1/replica"); status != http.StatusOK {
		t.Errorf("an administrator: %d %s", status, text)
	}
	ok(t, g.call(t.Context(), func(ctx context.Context, l *loop) { l.mastership(ctx, true) }))
	if status, text := peer.ask(t, "GET", "/v1/replica"); status != http.StatusOK || strings.Contains(text, `"claim":18446744073709551`) {
		t.Errorf("a stranger's claim was heard: %s", text)
	}
}

// TestReplicaBesideLoop answers the other forsd while the loop is at work: only where that one
// takes over does it wait for the loop's turn.
func TestReplicaBesideLoop(t *testing.T) {
	g := guard(t, func(c *config.Config) { c.Peer.Address = "https://other.example.org:1" })
	w := g.bySocket(os.Getuid(), access.Administrator)
	if status, text := w.ask(t, "GET", "/v1/replica"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	busy, end := make(chan struct{}), make(chan struct{})
	go func() { _ = g.call(context.Background(), func(context.Context, *loop) { close(busy); <-end }) }()
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
