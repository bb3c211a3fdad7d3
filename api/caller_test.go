package api

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCaller asks over the socket and over TCP who it is that asks.
func TestCaller(t *testing.T) {
	c := newSite(t).Config
	c.ReadOverTCP = true
	c.Mount = map[string]http.Handler{"GET /v1/who": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", CallerOf(r.Context())) })}
	path := filepath.Join(t.TempDir(), "s")
	s, err := Listen(c, Listeners{Socket: path, Mode: 0o600, TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	for addr, want := range map[string]string{
		path:                          fmt.Sprintf("(uid %d) by api.test (process %d)", os.Getuid(), os.Getpid()),
		"http://" + s.Addr().String(): "unknown",
	} {
		client, err := Dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		var who string
		if err := client.Call(ctx, http.MethodGet, "/v1/who", nil, &who); err != nil || !strings.HasSuffix(who, want) {
			t.Errorf("over %s: %q, %v; want %q", addr, who, err, want)
		}
		client.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
