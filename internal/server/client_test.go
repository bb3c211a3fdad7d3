package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
)

// dialSite serves s on a real Unix socket.
func dialSite(t *testing.T, s *site) *api.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "forsd.sock")
	serve(t, s.Config, Listeners{Socket: path, Mode: 0o600})
	c, err := api.Dial(path)
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
	check("reroute", &api.Change{Epoch: 43, Changed: true, Text: "planned afresh"}, change, err)
	change, err = c.Rollback(ctx, 41)
	check("rollback", &api.Change{Epoch: 44, Changed: true, Text: "as epoch 41"}, change, err)
	forecast, err := c.WhatIf(ctx, api.WhatIf{Fail: []string{"Spine010"}})
	check("whatif", &api.Forecast{What: []string{"Spine010"}, Plan: json.RawMessage(`{"phases":361}`)}, forecast, err)
	check("calls", []string{"reroute", "rollback 41", "whatif Spine010"}, s.calls, nil)
	plan, err := c.Plan(ctx)
	check("plan", &api.Plan{Epoch: 42, PublishedAt: started.Add(time.Minute), Document: s.Plans.Current().Document()}, plan, err)
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
	s.Plans = &published.Plans{}
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
	s.ready, s.fails = false, api.Refused("epoch 41 uses a lane that is down")
	var e *api.Error
	if _, err := c.Rollback(t.Context(), 41); !errors.As(err, &e) || *e != (api.Error{Code: api.CodeRefused, Text: "epoch 41 uses a lane that is down"}) {
		t.Errorf("rollback: %#v", err)
	}
	if err := c.Ready(t.Context()); !errors.As(err, &e) || e.Code != api.CodeNotReady {
		t.Errorf("ready: %v", err)
	}
	if _, err := c.Server(t.Context(), "nobody"); !errors.As(err, &e) || e.Code != api.CodeNotFound {
		t.Errorf("server: %v", err)
	}
	path := filepath.Join(t.TempDir(), "none.sock")
	gone, err := api.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Status(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "ask forsd at "+path+": dial unix") {
		t.Errorf("nobody listens: %v", err)
	}
}
