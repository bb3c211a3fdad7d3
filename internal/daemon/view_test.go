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
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// without returns a view of the same baseline after failures.
func without(t *testing.T, v *view.View, specs ...string) *view.View {
	t.Helper()
	f := v.Tree.Fabric.Clone()
	for _, spec := range specs {
		_, err := f.Fail(spec)
		ok(t, err)
	}
	w, err := view.New(f, v.Tree.Baseline, &config.Planning{})
	ok(t, err)
	return w
}

// TestIdentity changes one property at a time. Properties that affect plans or tables
// must change the identity, and names must not.
func TestIdentity(t *testing.T) {
	v := tree(t)
	if tree(t).ID != v.ID {
		t.Error("two views of one fabric differ")
	}
	renamed := v.Tree.Fabric.Clone()
	renamed.Nodes[renamed.Find(fabgen.SpineGUID)].Name = "another"
	if w, err := view.New(renamed, v.Tree.Baseline, &config.Planning{}); err != nil || w.ID != v.ID {
		t.Errorf("a new name makes another fabric: %v", err)
	}
	seen := map[string]string{v.ID: "the whole fabric"}
	note := func(what string, w *view.View) {
		t.Helper()
		if old, dup := seen[w.ID]; dup {
			t.Errorf("%s cannot be told from %s", what, old)
		}
		seen[w.ID] = what
	}
	for _, spec := range []string{"Leaf000/5", "Leaf000/6", "Leaf001/5", "Spine002", "Hca0003", "Leaf002"} {
		note(spec+" failed", without(t, v, spec))
	}
	lids := v.Tree.Fabric.Clone()
	lids.At(v.Tree.Hosts[2].PortRef).LID += 64
	w, err := view.New(lids, v.Tree.Baseline, &config.Planning{})
	ok(t, err)
	note("a moved LID", w)
	base, err := topology.ReadBaseline(v.Tree.Baseline.Encode())
	ok(t, err)
	s := base.Leaves[1].Slots
	s[0], s[1] = s[1], s[0]
	w, err = view.New(v.Tree.Fabric, base, &config.Planning{})
	ok(t, err)
	note("exchanged indices", w)
}

func TestViewDown(t *testing.T) {
	w := without(t, tree(t), "Leaf001/6", "Spine003")
	want := []controller.Lane{{Leaf: 0, Lane: 3}, {Leaf: 1, Lane: 1}, {Leaf: 1, Lane: 3}, {Leaf: 2, Lane: 3}}
	if len(w.Down) != len(want) {
		t.Fatalf("down: %v, want %v", w.Down, want)
	}
	for i := range want {
		if w.Down[i] != want[i] {
			t.Errorf("down: %v, want %v", w.Down, want)
		}
	}
}

// TestHeld holds a lane back. Plans avoid it, the tables route its LIDs over other lanes,
// and the view itself does not change.
func TestHeld(t *testing.T) {
	v := tree(t)
	hold := []controller.Lane{{Leaf: 1, Lane: 2}}
	tables, err := tablesOf(v, hold)
	ok(t, err)
	again, err := tablesOf(v, hold)
	ok(t, err)
	if again != tables {
		t.Error("the tables were built twice")
	}
	r, err := planner.Make(context.Background(), v.Held(hold), planner.Settings{})
	ok(t, err)
	for i, lane := range r.Rows.Lane {
		src, dst := i%len(v.Tree.Servers), r.Rows.To[i]
		if dst < 0 || lane != 2 {
			continue
		}
		if v.Tree.Hosts[v.Tree.Servers[src]].Leaf == 1 || v.Tree.Hosts[v.Tree.Servers[dst]].Leaf == 1 {
			t.Fatalf("the plan has %d send to %d over the lane that is held", src, dst)
		}
	}
	ok(t, verify.Plan(v.Held(hold), tables, r.Rows, nil))
	whole, err := tablesOf(v, nil)
	ok(t, err)
	if lft.Changes(whole, tables).Entries == 0 {
		t.Error("the held lane is used by the tables")
	}
	if !v.Tree.LaneUp(1, 2) {
		t.Error("holding a lane changed the view")
	}
}

func TestLost(t *testing.T) {
	v := tree(t)
	e := planned(t, v, 1)
	for _, c := range []struct {
		fail []string
		want float64
	}{{nil, 0}, {[]string{"Spine000"}, 0}, {[]string{"Hca0000", "Hca0001", "Hca0005"}, 0.25}} {
		w := without(t, v, c.fail...)
		if got := w.Lost(e, nil); got != c.want {
			t.Errorf("without %v: %v of the plan's servers are lost, want %v", c.fail, got, c.want)
		}
		if got := w.Lost(nil, v.Tree.Baseline); got != c.want {
			t.Errorf("without %v: %v of the baseline's hosts are lost, want %v", c.fail, got, c.want)
		}
		if got := w.Lost(nil, nil); got != 0 {
			t.Errorf("%v of nothing is lost", got)
		}
	}
}

// TestRowsOf reads a plan from its table.
func TestRowsOf(t *testing.T) {
	v := tree(t)
	r, err := planner.Make(context.Background(), v.Tree, planner.Settings{})
	ok(t, err)
	e := planned(t, v, 1)
	rows, err := view.RowsOf(e.Plan, v.Tree)
	ok(t, err)
	if diff := cmp.Diff(r.Rows, rows); diff != "" {
		t.Errorf("the rows are not those that were published (-want +got):\n%s", diff)
	}
	ok(t, verify.Plan(v.Tree, r.Tables, rows, nil))
	if !view.SameRows(e.Plan, v.Tree, rows) {
		t.Error("the plan is not the same as itself")
	}
	for name, change := range map[string]func(){
		"DLID":   func() { rows.DLID[len(rows.DLID)-1]++ },
		"lane":   func() { rows.Lane[1]++ },
		"peer":   func() { rows.To[2]++ },
		"length": func() { rows.Phases-- },
	} {
		rows, err = view.RowsOf(e.Plan, v.Tree)
		ok(t, err)
		if change(); view.SameRows(e.Plan, v.Tree, rows) {
			t.Errorf("a changed %s goes unnoticed", name)
		}
	}
	fewer := without(t, v, "Hca0004")
	if _, err := view.RowsOf(e.Plan, fewer.Tree); err == nil || !strings.Contains(err.Error(), "12 servers") {
		t.Errorf("on a fabric with a server less: %v", err)
	}
	swapped := v.Tree.Fabric.Clone()
	at := swapped.Find(v.Tree.Hosts[4].GUID - 1)
	swapped.Nodes[at].GUID, swapped.Nodes[at].Ports[1].GUID = 0x500000, 0x500001
	f, err := topology.NewFabric(swapped.Nodes, 0)
	ok(t, err)
	other, err := view.New(f, v.Tree.Baseline, &config.Planning{})
	ok(t, err)
	if _, err := view.RowsOf(e.Plan, other.Tree); err == nil || !strings.Contains(err.Error(), "0x0000000000500001") {
		t.Errorf("on a fabric with another adapter: %v", err)
	}
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
	tables, err := tablesOf(v, nil)
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
