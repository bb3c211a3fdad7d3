package server

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/forsd/forsd/api"
)

// serve runs a server until the test ends or stop is called, which returns what
// Serve returned.
func serve(t *testing.T, c Config, l Listeners) (s *Server, stop func() error) {
	t.Helper()
	s, err := Listen(c, l)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = func() error { cancel(); err := <-done; done <- err; return err }
	t.Cleanup(func() { _ = stop() })
	return s, stop
}

func TestSocketFile(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "forsd.sock")
	_, stop := serve(t, newSite(t).Config, Listeners{Socket: path, Mode: 0o660})
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fs.ModeSocket | 0o660; info.Mode() != want {
		t.Errorf("mode %v, want %v", info.Mode(), want)
	}
	_, err = Listen(newSite(t).Config, Listeners{Socket: path, Mode: 0o660})
	if err == nil || !strings.Contains(err.Error(), "is this program running already?") {
		t.Errorf("a second server: error %v", err)
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forsd.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	serve(t, newSite(t).Config, Listeners{Socket: path, Mode: 0o600})
	client, err := api.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSocketOfASuccessor takes the path away from a server before it ends: it
// leaves the other's socket alone.
func TestSocketOfASuccessor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forsd.sock")
	_, stop := serve(t, newSite(t).Config, Listeners{Socket: path, Mode: 0o600})
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	serve(t, newSite(t).Config, Listeners{Socket: path, Mode: 0o600})
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the successor's socket: %v", err)
	}
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		l    Listeners
		want string
	}{
		{Listeners{Socket: file, Mode: 0o600}, "there is a file that is not a socket"},
		{Listeners{Socket: filepath.Join(dir, "none", "forsd.sock"), Mode: 0o600}, "create its directory first"},
		{Listeners{Socket: filepath.Join(dir, strings.Repeat("x", 120)), Mode: 0o600}, "listen on"},
	} {
		if _, err := Listen(newSite(t).Config, c.l); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.l, err, c.want)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file in the way now holds %q, error %v", data, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "forsd.sock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// TestBothListeners asks the same things on the socket and over TCP.
func TestBothListeners(t *testing.T) {
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "forsd.sock")
	server, _ := serve(t, s.Config, Listeners{Socket: path, Mode: 0o600, TCP: "127.0.0.1:0"})
	local, err := api.Dial("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	remote, err := api.Dial("http://" + server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	for where, c := range map[string]*api.Client{"on the socket": local, "over TCP": remote} {
		if st, err := c.Status(t.Context()); err != nil || st.Epoch != 42 {
			t.Errorf("%s: status %+v, error %v", where, st, err)
		}
	}
	if _, err := local.Reroute(t.Context()); err != nil {
		t.Errorf("reroute on the socket: %v", err)
	}
	_, err = remote.Reroute(t.Context())
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Code != api.CodeForbidden || len(s.calls) != 1 {
		t.Errorf("reroute over TCP: error %v, done %q", err, s.calls)
	}
}

// TestServeEndsStreams stops a server while a client watches it.
func TestServeEndsStreams(t *testing.T) {
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "forsd.sock")
	_, stop := serve(t, s.Config, Listeners{Socket: path, Mode: 0o600})
	client, err := api.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s.note(t, "first")
	watched, begun := make(chan error, 1), make(chan struct{})
	go func() {
		for _, err := range client.Watch(t.Context(), s.Events.ID(0)) {
			if err != nil {
				watched <- err
				return
			}
			close(begun)
		}
	}()
	<-begun
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := <-watched; !strings.Contains(err.Error(), "ended: EOF") {
		t.Errorf("watch: %v", err)
	}
}
