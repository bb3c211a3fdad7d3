package server

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
)

// TestCaller asks over the socket and over TCP who it is that asks.
func TestCaller(t *testing.T) {
	c := newSite(t).Config
	c.ReadOverTCP = true
	c.Mount = map[api.Role]map[string]http.Handler{api.Reader: {"GET /v1/who": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", access.CallerOf(r.Context())) })}}
	path := filepath.Join(t.TempDir(), "s")
	s, err := Listen(c, Listeners{Socket: path, Mode: 0o600, TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	for addr, want := range map[string]string{
		path:                          fmt.Sprintf("(uid %d) by server.test (process %d)", os.Getuid(), os.Getpid()),
		"http://" + s.Addr().String(): "unknown",
	} {
		client, err := api.Dial(addr)
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

// TestUserNames checks that a user's name is looked up once a minute.
func TestUserNames(t *testing.T) {
	own, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	uid := uint32(os.Getuid())
	now := time.Unix(1000, 0)
	var n userNames
	if have := n.name(uid, now); have != own.Username {
		t.Fatalf("the name of user %d is %q, want %q", uid, have, own.Username)
	}
	n.names[uid] = "before"
	if have := n.name(uid, now.Add(time.Minute)); have != "before" {
		t.Errorf("the name is looked up again within a minute: %q", have)
	}
	if have := n.name(uid, now.Add(time.Minute+1)); have != own.Username {
		t.Errorf("after a minute the name is %q", have)
	}
	if have := n.name(1<<32-2, now); have != "" {
		t.Errorf("a user who is not there has the name %q", have)
	}
}
