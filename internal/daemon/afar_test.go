package daemon

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/linkstate/probe"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// afar starts a daemon whose OpenSM is on another host. A discovery prints the fabric in
// a file, and the switches hold the tables that were copied to another file.
func afar(t *testing.T, f *topology.Fabric, install bool) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{Daemon: daemonIn(t, dir), t: t, dir: dir, ended: make(chan error, 1)}
	push := filepath.Join(dir, "push")
	ok(t, os.WriteFile(push, []byte("#!/bin/sh\ncp \"$1\" "+dir+"/brought.new && mv "+dir+"/brought.new "+dir+"/brought\n"), 0o755),
		os.WriteFile(filepath.Join(dir, "brought"), nil, 0o644))
	c := &s.cfg.OpenSM
	c.DiscoverCommand, c.DiscoverEvery = []string{"cat", filepath.Join(dir, "net")}, 20*time.Millisecond
	c.DumpCommand = []string{"cat", filepath.Join(dir, "brought")}
	c.Plugin.Enabled = "off"
	if install {
		c.InstallCommand = []string{push}
	}
	s.links = linkstate.New(probe.Settings(&s.cfg.OpenSM))
	s.shows(f)
	limit, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	s.ctx, s.cancel = context.WithCancel(limit)
	t.Cleanup(cancel)
	go func() { s.ended <- s.Run(s.ctx) }()
	return s
}

// shows sets the fabric that the discovery sees.
func (s *site) shows(f *topology.Fabric) {
	s.t.Helper()
	path := filepath.Join(s.dir, "net")
	ok(s.t, os.WriteFile(path+".new", fabgen.Ibnetdiscover(f), 0o644), os.Rename(path+".new", path))
}

// TestFromAfar takes a daemon whose OpenSM is on another host through a failure and a
// repair.
func TestFromAfar(t *testing.T) {
	healthy := fabric(4, 4)
	s := afar(t, healthy, true)
	s.settles(func(_ *store.Epoch, v *view.View) bool { return len(v.Down) == 0 })
	first := s.state.Now().EpochNumber()
	if st := s.Daemon.backend.Status(); st.OpenSM.Source != api.SourceDiscovery || st.OpenSM.Running || !st.OpenSM.TablesMatch {
		t.Errorf("status: %+v", st.OpenSM)
	}
	s.shows(lacking(healthy, 4, 1, 2))
	s.settles(func(e *store.Epoch, v *view.View) bool { return len(v.Down) == 1 && e.Epoch > first })
	broken := s.state.Now().EpochNumber()
	s.shows(healthy)
	s.settles(func(e *store.Epoch, v *view.View) bool { return len(v.Down) == 0 && e.Epoch > broken })
	s.cancel()
	ok(t, <-s.ended)
}

// TestAdvice checks that a plan is published only if it holds on the switches' tables,
// which is the case after an operator has copied the tables.
func TestAdvice(t *testing.T) {
	healthy := fabric(4, 4)
	s := afar(t, healthy, false)
	s.until("tables-stale is raised", func(st api.Status) bool {
		for _, w := range st.Warnings {
			if w.Code == "tables-stale" {
				return true
			}
		}
		return false
	})
	if n := s.state.Now().EpochNumber(); n != 0 {
		t.Fatalf("epoch %d is in force, on tables that no switch has", n)
	}
	tables, err := os.ReadFile(s.cfg.OpenSM.LFTsFile)
	ok(t, err, os.WriteFile(filepath.Join(s.dir, "brought.new"), tables, 0o644), os.Rename(filepath.Join(s.dir, "brought.new"), filepath.Join(s.dir, "brought")))
	s.settles(func(e *store.Epoch, _ *view.View) bool { return e.Epoch == 1 })

	s.shows(lacking(healthy, 4, 1, 2))
	s.until("the plan without the cable is in force", func(st api.Status) bool { return st.Epoch == 2 })
	s.cancel()
	ok(t, <-s.ended)
}

// until waits for a condition on the status.
func (s *site) until(what string, good func(api.Status) bool) {
	s.t.Helper()
	for !good(s.Daemon.backend.Status()) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.ctx.Done():
			s.t.Fatalf("waiting until %s: %+v", what, s.Daemon.backend.Status())
		}
	}
}
