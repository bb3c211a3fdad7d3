package daemon

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/topology"
)

// without returns a view of the same baseline after failures.
func without(t *testing.T, v *view.View, specs ...string) *view.View {
	t.Helper()
	w, err := view.New(failing(t, v.Tree.Fabric, specs...), v.Tree.Baseline, &config.Planning{})
	ok(t, err)
	return w
}

// daemon returns a daemon at rest that has seen a fabric and has read its tables back.
func daemon(t *testing.T, v *view.View) *Daemon {
	t.Helper()
	cfg := config.Default()
	cfg.StateDir = t.TempDir()
	cfg.OpenSM.LFTsFile, cfg.OpenSM.RootFile = cfg.StateDir+"/lfts.dump", cfg.StateDir+"/root"
	d, err := New(cfg, "test", zap.NewNop(), func(string) {})
	ok(t, err)
	t.Cleanup(func() { ok(t, d.store.Close()) })
	d.sees(t, v)
	return d
}

// sees makes v the present fabric, with its tables in the switches.
func (d *Daemon) sees(t *testing.T, v *view.View) {
	t.Helper()
	d.state.Remember(v)
	d.state.Adopt(v.Tree.Baseline)
	tables, err := tablesOf(v)
	ok(t, err)
	d.desk.Read(tables, true)
}

// publishes plans and publishes the fabric last seen.
func (d *Daemon) publishes(t *testing.T) {
	t.Helper()
	if done := d.actions.plans.Plan(context.Background(), controller.Plan{Fabric: d.state.Now().Latest.Snapshot(), Final: true}).(controller.Planned); done.Err != "" || done.Same {
		t.Fatalf("the plan came out as %+v", done)
	}
	ok(t, d.actions.plans.Publish(context.Background()))
}

func TestRollback(t *testing.T) {
	v := tree(t)
	d := daemon(t, v)
	d.publishes(t)
	w := without(t, v, "Leaf001/6")
	d.sees(t, w)
	d.publishes(t)

	for n, reason := range map[uint64]string{1: "phase", 7: "not kept"} {
		if err := d.rollback(n); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("rollback to epoch %d without the cable: %v", n, err)
		}
	}
	if n := d.state.Now().EpochNumber(); n != 2 || d.store.Disk.Numbers.Last() != 2 {
		t.Errorf("a refused rollback left epoch %d in force", n)
	}

	d.sees(t, v) // the cable is back, and the plan without it still holds
	ok(t, d.rollback(2))
	e := d.state.Now().Epoch
	if e.Epoch != 3 || e.RollbackOf != 2 || e.Fabric != v.ID || e.Plan.Epoch() != 3 {
		t.Errorf("the rollback gave %+v", e.EpochInfo)
	}
	stored, err := d.store.Disk.Epochs.Load(3)
	ok(t, err)
	old, err := d.store.Disk.Epochs.Load(2)
	ok(t, err)
	rows, err := view.RowsOf(old.Plan, v.Tree)
	ok(t, err)
	if !view.SameRows(stored.Plan, v.Tree, rows) {
		t.Error("the rollback is not the plan that it repeats")
	}
	// It stays in force only while the fabric does not change.
	if done := d.actions.plans.Plan(context.Background(), controller.Plan{Fabric: v.Snapshot(), Final: true}).(controller.Planned); !done.Same {
		t.Errorf("on the same fabric: %+v", done)
	}
	d.sees(t, without(t, v, "Leaf002/7"))
	d.publishes(t)
}

// TestWhatOfAChange checks that the description of a change has all differences from the
// last settled fabric, however many fabrics were seen in between.
func TestWhatOfAChange(t *testing.T) {
	d := newDaemon(t)
	whole := fabric(3, 3)
	first := d.bringUp(t, whole)
	d.settled(context.Background(), controller.Settled{Fabric: first.Snapshot()})
	one := lacking(whole, 3, 0, 1)
	two := lacking(one, 3, 2, 0)
	for _, c := range []struct {
		fabric  *topology.Fabric
		settles bool
		what    []string
	}{
		{one, false, []string{"Leaf000 port 5 – Spine001 port 1 went down"}},
		{two, true, []string{"Leaf000 port 5 – Spine001 port 1 went down", "Leaf002 port 4 – Spine000 port 3 went down"}},
		{one, false, []string{"Leaf002 port 4 – Spine000 port 3 came up"}},
		{two, true, []string{"Leaf002 port 4 – Spine000 port 3 went down"}}, // as settled before
		{whole, true, []string{"Leaf000 port 5 – Spine001 port 1 came up", "Leaf002 port 4 – Spine000 port 3 came up"}},
	} {
		v := d.see(t, c.fabric)
		if diff := cmp.Diff(c.what, d.state.Now().WhatOf(v)); diff != "" {
			t.Errorf("what (-want +got):\n%s", diff)
		}
		if c.settles {
			d.settled(context.Background(), controller.Settled{Fabric: v.Snapshot()})
		}
	}
}
