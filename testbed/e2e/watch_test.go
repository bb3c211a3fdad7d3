package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
)

// TestWatching has a forsd that only watches an OpenSM with routing of its own: a cable
// dies, forsd shows a plan without it, and has written and signalled nothing.
func TestWatching(t *testing.T) {
	t.Parallel()
	watching(t, func(*test) {})
}

// TestWatchingAnyManager has a forsd watch that does not see the manager's files: it
// discovers the fabric itself, as README.md shows.
func TestWatchingAnyManager(t *testing.T) {
	t.Parallel()
	watching(t, func(x *test) {
		config, err := os.ReadFile(x.ConfigFile())
		x.ok(err)
		discover := fmt.Sprintf("\nopensm:\n  discover_command: [env, IBSIM_SOCKNAME=%s, ibnetdiscover]\n", x.Sim.Socket())
		x.ok(os.WriteFile(x.ConfigFile(), []byte(strings.Replace(string(config), "\nopensm:\n", discover, 1)), 0o644))
	})
}

func watching(t *testing.T, prepare func(*test)) {
	t.Helper()
	o := small()
	o.Engine, o.Config, o.Tables = "minhop", "mode: watch\n", "(null)"
	x := newSite(t, 3*time.Minute, o)
	prepare(x)
	x.ok(x.StartForsd(), x.StartOpenSM(x.ctx))
	// forsd may look while OpenSM still gives out LIDs and tables
	first := x.until("a plan for all 16 hosts", func(st *api.Status) bool {
		return st.Watched != nil && st.Watched.Shift != nil && st.Watched.Plan.Servers == 16 && st.Watched.Shift.Lost == 0
	})
	if w := first.Watched; !first.Watches || w.Error != "" || w.Plan.Phases != 15 || w.Shift.Phases != 15 || w.Shift.Lost > 0 || w.Shift.Throughput <= 0 || w.Shift.Throughput > 1 || first.Epoch != 0 {
		t.Errorf("%v, epoch %d, %+v, %+v, %s", first.Watches, first.Epoch, w.Plan, w.Shift, w.Error)
	}
	sweeps := x.sweeps()
	x.ok(x.Sim.Unlink(x.ctx, "Leaf001", 6))
	x.until("a plan without the cable", func(st *api.Status) bool {
		return HasWarning(st, "cable-down") && st.Watched.At.After(first.Watched.At) && st.Watched.Plan.Phases == 16
	})
	time.Sleep(3 * time.Second) // it would have written and signalled by now
	if n := x.sweeps(); n > sweeps+2 {
		t.Errorf("OpenSM has swept %d times for one dead cable", n-sweeps)
	}
	for _, path := range []string{x.TableFile(), filepath.Dir(x.TableFile()), x.PluginSocket()} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("forsd has made %s", path)
		}
	}
	for what, err := range map[string]error{
		"reroute":  func() error { _, err := x.Client.Reroute(x.ctx); return err }(),
		"rollback": func() error { _, err := x.Client.Rollback(x.ctx, 1); return err }(),
		"job": func() error {
			_, err := x.Client.CreateJob(x.ctx, api.JobRequest{Hosts: []string{"Hca0000"}})
			return err
		}(),
	} {
		if err == nil || !strings.Contains(err.Error(), "only watches: set mode: manage") {
			t.Errorf("%s: %v", what, err)
		}
	}
	forecast, err := x.Client.WhatIf(x.ctx, api.WhatIf{Fail: []string{"Spine003"}})
	if err != nil || !strings.Contains(string(forecast.Plan), `"phases":24,`) {
		t.Errorf("what if a spine fails: %v, %v", forecast, err)
	}
	st, err := x.Client.Status(x.ctx)
	x.ok(err)
	for _, w := range st.Warnings {
		if w.Severity == "critical" {
			t.Errorf("warning %s: %s", w.Code, w.Text)
		}
	}
}

// sweeps counts OpenSM's routings by its log.
func (x *test) sweeps() int {
	text, err := os.ReadFile(filepath.Join(x.ManagerDir(), "opensm.log"))
	x.ok(err)
	return strings.Count(string(text), "tables configured on all switches")
}
