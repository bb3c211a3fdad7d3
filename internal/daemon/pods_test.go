package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// failing returns the fabric after failures, specified as for Fabric.Fail.
func failing(t testing.TB, f *topology.Fabric, what ...string) *topology.Fabric {
	t.Helper()
	f = f.Clone()
	for _, spec := range what {
		if _, err := f.Fail(spec); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// TestThreeLevels takes a fat tree of three levels through the failure and repair of each
// kind of part, and then requests everything that changes a plan. Every published plan
// holds on the tables, and a restart does not change it. With LIDs for every lane, the
// tables of living lanes stay the same; with fewer, they follow the plan.
func TestThreeLevels(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]fabgen.TreeSpec{
		"tables follow": fabgen.KAry(4),
		"two LIDs":      {Pods: 4, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2, LMC: 1},
		"pinned":        {Pods: 4, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2, LMC: 2},
		"oversubscribed, a host missing, parallel cables": {Pods: 3, Leaves: 3, Mids: 2, Tops: 2, Hosts: 4, LMC: 2, LeafCables: 2, Missing: [][2]int{{4, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			whole := fabgen.GenerateTree(spec)
			leafCable, topCable := "Leaf001/"+port(spec.Hosts+1), "Mid002/"+port(spec.Leaves*max(1, spec.LeafCables)+2)
			b := newBench(t)
			b.shows(whole, nil)
			b.holds("the start")
			for _, dead := range [][]string{{leafCable}, nil, {topCable}, {topCable, leafCable}, nil, {"Mid001"}, nil, {"Top001"}, {"Top001", leafCable}, nil} {
				b.shows(failing(t, whole, dead...), nil)
				b.holds(strings.Join(dead, ", ") + " dead")
				b.baseHolds(strings.Join(dead, ", ") + " dead")
				now := b.d.state.Now().Epoch
				if st := b.d.backend.Status(); st.FabricKind != controller.ThreeLevels.String() || st.State != "idle" || now.Report.Gap < 0 || (dead == nil) != (len(b.d.state.Now().Latest.Down) == 0) {
					t.Fatalf("%v dead: %+v", dead, st)
				}
				b.restart()
				b.holds("a restart")
				if again := b.d.state.Now().Epoch; again.Epoch != now.Epoch {
					t.Errorf("%v dead: a restart makes epoch %d of epoch %d", dead, again.Epoch, now.Epoch)
				}
			}
			ok(t, b.reroute())
			b.holds("a reroute")
			ok(t, b.rollback())
			ok(t, b.reroute())
			b.holds("a reroute after a rollback")
		})
	}
}

// baseHolds checks the plan for base LIDs in force on the tables in the switches.
func (b *bench) baseHolds(after string) {
	b.Helper()
	base := b.d.state.Bases.Current()
	if base == nil {
		b.Errorf("after %s there is no plan for base LIDs", after)
		return
	}
	tables, err := b.held()
	ok(b.T, err, b.d.state.Now().Latest.Carries(tables, base.Table, nil))
	for s := range base.Table.Servers() {
		for phase := range base.Table.Phases() {
			if x := base.Table.At(s, phase); x.SendTo >= 0 && x.DLID != base.Table.Server(x.SendTo).LID {
				b.Fatalf("after %s LID %d is sent to, the base LID is %d", after, x.DLID, base.Table.Server(x.SendTo).LID)
			}
		}
	}
}

func port(n int) string { return string(rune('0' + n)) }

// TestThreeLevelsAsked sends the requests that a fat tree of three levels supports.
func TestThreeLevelsAsked(t *testing.T) {
	whole := fabgen.GenerateTree(fabgen.TreeSpec{Pods: 4, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2, LMC: 1})
	b := newBench(t)
	b.shows(whole, nil)
	top := b.d.backend.Topology()
	if top.Kind != "three-levels" || top.Pods != 4 || top.Planes != 2 || top.Lanes != 4 || len(top.Leaves) != 8 || len(top.Mids) != 8 || len(top.Spines) != 4 ||
		top.Servers != 16 || top.Leaves[3].LanesUp != 2 || top.Mids[3].LanesUp != 2 || top.Spines[3].Lanes != 1 || top.Leaves[3].Servers != 2 {
		t.Errorf("the topology is %+v", top)
	}
	before := b.d.state.Now().Epoch.Report.Phases
	forecast, err := b.d.backend.WhatIf(t.Context(), api.WhatIf{Fail: []string{"Leaf001/3"}})
	ok(t, err)
	if forecast.Table.Phases() <= before || b.d.state.Now().Epoch.Report.Phases != before {
		t.Errorf("a cable less: %d phases after %d", forecast.Table.Phases(), before)
	}
	progress, err := api.ParseProgress("5")
	ok(t, err)
	for _, fail := range [][]string{nil, {"Leaf001/3"}} {
		f, err := b.d.backend.WhatIf(t.Context(), api.WhatIf{Fail: fail, Done: progress})
		ok(t, err)
		if r := f.Remaining; r.Epoch != b.d.state.Now().EpochNumber() || r.Done != 5 || r.Gap > 1 || r.Kept == 0 || f.Table.Phases() != r.Phases || fail == nil && r.Moved+r.Shed > 0 {
			t.Errorf("%v would fail after 5 phases: %+v, %d phases in the table", fail, r, f.Table.Phases())
		}
	}
	j, err := backend.Jobs{Parts: &b.d.backend.Parts}.CreateJob(t.Context(), api.JobRequest{Name: "a", Hosts: names(0, 6)})
	ok(t, err)
	b.holds("a job")
	two, err := api.ParseProgress("2")
	ok(t, err)
	for _, fail := range [][]string{nil, {"Leaf001/3"}} {
		f, err := b.d.backend.WhatIf(t.Context(), api.WhatIf{Job: j.Name, Fail: fail, Done: two})
		ok(t, err)
		if r := f.Remaining; r.Epoch != j.Epoch || r.Done != 2 || r.Gap > 1 || r.Kept == 0 || f.Table.Servers() != 7 || f.Table.Job() == 0 || fail == nil && r.Moved+r.Shed > 0 {
			t.Errorf("%v would fail after 2 phases of a job: %+v, %d servers in the table", fail, r, f.Table.Servers())
		}
	}
	b.shows(failing(t, whole, "Leaf001/3", "Mid004/3"), nil)
	b.holds("failures beside a job")
	if now := b.d.state.Now().Jobs[0]; now.Plan.Servers() != 7 || now.Epoch <= j.Epoch {
		t.Errorf("the job has %d servers, its plan is %d after %d", now.Plan.Servers(), now.Epoch, j.Epoch)
	}
	ok(t, b.accept())
	b.holds("the damaged tree was accepted")
	if n := len(b.d.state.Now().Latest.Down); n != 0 {
		t.Errorf("%d cables are down of a tree that was accepted as it is", n)
	}
}

// accept accepts the fabric as the baseline and plays the manager.
func (b *bench) accept() error {
	_, err := b.d.backend.Accept(b.Context())
	b.rests()
	return err
}

// quiet fails if a warning reports a missing part.
func quiet(s *site, when string) {
	s.t.Helper()
	for _, w := range s.health.List(time.Now()) {
		if slices.Contains([]string{topology.SpineDown, topology.LeafDown, topology.CableDown, topology.CableDegraded, topology.HostAbsent}, w.Code) {
			s.t.Errorf("%s: %+v", when, w)
		}
	}
}

// TestDrainsThreeLevels drains each kind of part of a tree of three levels, lets it
// vanish and return, and gives it back.
func TestDrainsThreeLevels(t *testing.T) {
	t.Parallel()
	spec := fabgen.KAry(4)
	spec.LMC = 1
	healthy := fabgen.GenerateTree(spec)
	never := func(int) bool { return false }
	plane := func(lane int) int { // lanes 0 to 3, two per plane, and those within pods
		if lane >= 4 {
			return lane - 4
		}
		return lane / 2
	}
	for _, c := range []struct {
		part string
		cut  func(leaf, lane int) bool
		gone func(leaf int) bool
	}{
		{"Leaf001/4", func(leaf, lane int) bool { return leaf == 1 && plane(lane) == 1 }, never},
		{"Mid003/4", func(leaf, lane int) bool { return leaf/2 == 1 && lane == 3 }, never},
		{"Mid002", func(leaf, lane int) bool { return leaf/2 == 1 && plane(lane) == 0 }, never},
		{"Top001", func(_, lane int) bool { return lane == 1 }, never},
		{"Leaf002", func(leaf, _ int) bool { return leaf == 2 }, func(leaf int) bool { return leaf == 2 }},
	} {
		t.Run(c.part, func(t *testing.T) {
			s := running(t, healthy, hasty)
			before := s.state.Now().Epoch
			if s.uses(c.cut, c.gone) == 0 {
				t.Fatal("nothing leads over it at the start")
			}
			status, dry, text := s.order("/v1/drains", api.DrainRequest{Parts: []string{c.part}, DryRun: true})
			if status != http.StatusOK || dry.Cost.PhasesNow != 15 || dry.Cost.Phases == 0 || len(s.state.Now().Drains) != 0 {
				t.Fatalf("a dry run: %d %s", status, text)
			}
			if status, _, text = s.order("/v1/drains", api.DrainRequest{Parts: []string{c.part}}); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			s.drainsAre("safe", safe)
			s.settles(func(*store.Epoch, *view.View) bool { return true })
			drained := s.state.Now().Epoch
			if n := s.uses(c.cut, c.gone); n > 0 || drained.Report.Phases != dry.Cost.Phases || drained.Epoch == before.Epoch {
				t.Errorf("epoch %d after %d has %d phases, %d were foretold, and uses what is drained %d times", drained.Epoch, before.Epoch, drained.Report.Phases, dry.Cost.Phases, n)
			}
			quiet(s, "drained")
			for i, f := range []*topology.Fabric{pulled(t, healthy, []string{c.part}), healthy} {
				s.sweep(f)
				s.rests(f)
				if now := s.state.Now().Epoch; now.Epoch != drained.Epoch {
					t.Errorf("pulled or put back (%d): epoch %d after %d, because of %v", i, now.Epoch, drained.Epoch, now.What)
				}
				quiet(s, "pulled or put back")
				if !safe(s.state.Now().Drains) {
					t.Errorf("it is safe no more: %+v", s.state.Now().Drains)
				}
			}
			if status, _, text = s.order("/v1/undrain", api.Undrain{Parts: []string{c.part}}); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			s.settles(func(e *store.Epoch, _ *view.View) bool { return e.Epoch > drained.Epoch })
			if n := len(phasetable.Changes(before.Plan, s.state.Now().Epoch.Plan)); n > 0 || len(s.state.Now().Drains) > 0 {
				t.Errorf("given back, %d pairs have other lanes than before; drains %v", n, s.state.Now().Drains)
			}
		})
	}
}

// TestStaleAtStart starts forsd while the switches hold entries that are not planned, as
// during a sweep after the repair of a cable, and the manager does not sweep for long. If
// the plan in force holds on these tables, every reader gets it. Otherwise it waits for
// the tables.
func TestStaleAtStart(t *testing.T) {
	cut := failing(t, fabgen.GenerateTree(fabgen.KAry(4)), "Top001/3")
	for _, used := range []bool{false, true} {
		dir := t.TempDir()
		d := readable(daemonIn(t, dir))
		d.atRest(t, cut)
		tables := d.desk.InSwitches()
		before, onBase := d.state.Now().Epoch, d.state.Bases.Current()
		ok(t, d.store.Close())
		top := slices.Clone(tables.Switches[tables.Find(fabgen.TopGUID+1)].Out)
		stale := &lft.Tables{Switches: slices.Clone(tables.Switches)}
		stale.Switches[tables.Find(fabgen.TopGUID+1)].Out = top
		changed := 0
		for lid := range top {
			if used && top[lid] == 1 {
				top[lid], changed = 2, changed+1
			} else if !used && lid > 0 && top[lid] == lft.NoPath {
				top[lid], changed = 3, changed+1
			}
		}
		if changed == 0 {
			t.Fatal("all entries are planned")
		}
		file := filepath.Join(dir, "stale")
		f, err := os.Create(file)
		ok(t, err, stale.Write(f, nil), f.Close())

		d = readable(daemonIn(t, dir))
		d.cfg.OpenSM.DumpCommand = []string{"cat", file}
		d.dumpSeen(t.Context(), dump(cut))
		for d.core.State() != controller.Sweeping {
			d.step(t.Context(), d.next(t.Context(), t))
		}
		now := d.state.Bases.Current()
		if used {
			if now != nil || d.state.Now().Ready {
				t.Error("a plan is in force that does not hold on the tables")
			}
			continue
		}
		if e := d.state.Now().Epoch; e == nil || e.Epoch != before.Epoch || !d.state.Now().Ready {
			t.Errorf("the plan in force was epoch %d, and is %+v; ready: %v", before.Epoch, e, d.state.Now().Ready)
		}
		if now == nil || now.Epoch != onBase.Epoch {
			t.Errorf("the plan for base LIDs in force was %d, and is %+v", onBase.Epoch, now)
		}
	}
}
