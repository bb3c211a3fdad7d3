package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/phasetable"

	"github.com/google/go-cmp/cmp"
)

// dialSite serves s on a real Unix socket.
func dialSite(t *testing.T, s *site) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "forsd.sock")
	serve(t, s.Config, Listeners{Socket: path, Mode: 0o600})
	c, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestClient(t *testing.T) {
	s := newSite(t)
	c, ctx := dialSite(t, s), t.Context()
	check := func(what string, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	status := s.Status()
	st, err := c.Status(ctx)
	check("status", &status, st, err)
	top, err := c.Topology(ctx)
	check("topology", s.Topology(), top, err)
	wantEpochs, _ := s.Epochs()
	epochs, err := c.Epochs(ctx)
	check("epochs", wantEpochs, epochs, err)
	row := wantServer(0)
	server, err := c.Server(ctx, "node/0;mlx5_0")
	check("server", &row, server, err)
	change, err := c.Reroute(ctx)
	check("reroute", &Change{43, true, "planned afresh"}, change, err)
	change, err = c.Rollback(ctx, 41)
	check("rollback", &Change{44, true, "as epoch 41"}, change, err)
	forecast, err := c.WhatIf(ctx, WhatIf{Fail: []string{"Spine010"}})
	check("whatif", &Forecast{What: []string{"Spine010"}, Plan: json.RawMessage(`{"phases":361}`)}, forecast, err)
	check("calls", []string{"reroute", "rollback 41", "whatif Spine010"}, s.calls, nil)
	plan, err := c.Plan(ctx)
	check("plan", &Plan{42, started.Add(time.Minute), s.Plans.Current().document}, plan, err)
	table, err := c.Table(ctx)
	if err != nil {
		t.Fatal(err)
	}
	check("table", shift(42), table.Table(), nil)
	if err := c.Ready(ctx); err != nil {
		t.Errorf("ready: %v", err)
	}
}

func TestClientCSV(t *testing.T) {
	c := dialSite(t, newSite(t))
	csv, epoch, err := c.PhasesCSV(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := phasetable.WriteCSV(&want, shift(42)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(csv)); diff != "" || epoch != 42 {
		t.Errorf("epoch %d (-want +got):\n%s", epoch, diff)
	}
}

func TestWaitEpoch(t *testing.T) {
	s := newSite(t)
	s.Plans = &Plans{}
	c := dialSite(t, s)
	got := make(chan uint64)
	go func() {
		defer close(got)
		for seen := uint64(0); seen < 3; {
			plan, err := c.WaitEpoch(t.Context(), seen)
			if err != nil {
				t.Error(err)
				return
			}
			seen = plan.Epoch
			got <- seen
		}
	}()
	for epoch := uint64(1); epoch <= 3; epoch++ {
		s.Plans.Publish(publish(t, epoch))
		if seen := <-got; seen != epoch {
			t.Fatalf("epoch %d, want %d", seen, epoch)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.WaitEpoch(ctx, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestClientErrors(t *testing.T) {
	s := newSite(t)
	c := dialSite(t, s)
	s.ready, s.fails = false, Refused("epoch 41 uses a lane that is down")
	var e *Error
	if _, err := c.Rollback(t.Context(), 41); !errors.As(err, &e) || *e != (Error{409, CodeRefused, "epoch 41 uses a lane that is down"}) {
		t.Errorf("rollback: %#v", err)
	}
	if err := c.Ready(t.Context()); !errors.As(err, &e) || e.Code != CodeNotReady {
		t.Errorf("ready: %v", err)
	}
	if _, err := c.Server(t.Context(), "nobody"); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("server: %v", err)
	}
	gone, err := Dial(filepath.Join(t.TempDir(), "none.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Status(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "ask forsd at "+gone.addr+": dial unix") {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestClientOfAnother asks something that is not a forsd.
func TestClientOfAnother(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{500, "<html>", "500 Internal Server Error"},
		{200, "<html>", "read the answer of forsd"},
		{200, `{"epoch":"42"}`, "read the answer of forsd"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		client, err := Dial(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Status(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %s: error %v, want one with %q", c.status, c.body, err, c.want)
		}
		if _, err := client.Table(t.Context()); err == nil {
			t.Errorf("%d %s: a table", c.status, c.body)
		}
		client.Close()
		server.Close()
	}
}

// TestClientOfEndless asks for answers that never end, and for some that promise to
// be longer than they may be.
func TestClientOfEndless(t *testing.T) {
	var promised int64 // −1 for an answer without an end
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"42"`)
		if promised >= 0 {
			w.Header().Set("Content-Length", strconv.FormatInt(promised, 10))
			w.WriteHeader(http.StatusOK)
			return
		}
		for spaces := bytes.Repeat([]byte{' '}, 1<<20); ; {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	c, err := Dial(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	for _, q := range []struct {
		what string
		most int64
		ask  func() error
	}{
		{"status", 64 << 20, func() error { _, err := c.Status(ctx); return err }},
		{"plan", 64 << 20, func() error { _, err := c.Plan(ctx); return err }},
		{"call", 1 << 30, func() error { return c.Call(ctx, http.MethodGet, "/v1/explain", nil, &struct{}{}) }},
		{"table", 1 << 30, func() error { _, err := c.Table(ctx); return err }},
		{"CSV", 1 << 30, func() error { _, _, err := c.PhasesCSV(ctx); return err }},
		{"a job's phases", 1 << 30, func() error { _, _, err := c.JobPhases(ctx, "7", false, false); return err }},
		{"what-if", 1 << 30, func() error { _, err := c.WhatIfTable(ctx, WhatIf{}, false); return err }},
	} {
		want := fmt.Sprintf(": it has more than %d bytes: is there a forsd at that address?", q.most)
		promised = q.most + 1
		if err := q.ask(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s, promised: %v, want an error with %q", q.what, err, want)
		}
		if promised = -1; q.most > 64<<20 {
			continue // a gigabyte is more than a test is worth
		}
		if err := q.ask(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s, endless: %v, want an error with %q", q.what, err, want)
		}
	}
	// One byte less is read, and found wanting.
	promised = 1 << 30
	if _, err := c.Table(ctx); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

func TestDial(t *testing.T) {
	for addr, base := range map[string]string{"/run/forsd/forsd.sock": "http://forsd", "./forsd.sock": "http://forsd", "unix:forsd.sock": "http://forsd",
		"http://node:7480": "http://node:7480", "http://node:7480/": "http://node:7480", "": "", "node": "", "unix:": ""} {
		c, err := Dial(addr)
		if (err == nil) != (base != "") || err == nil && c.base != base {
			t.Errorf("%q: %+v, error %v", addr, c, err)
		}
	}
}
