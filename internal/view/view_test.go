package view

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

func ok(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// seen returns a fabric seen through the baseline that it makes.
func seen(t *testing.T, f *topology.Fabric) *View {
	t.Helper()
	v, err := Fit(f, nil, &config.Planning{}, true)
	ok(t, err)
	return v
}

// tree returns a small fat tree with LIDs for each of its lanes.
func tree(t *testing.T) *View {
	return seen(t, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}))
}

// planned returns an epoch with a verified plan.
func planned(t *testing.T, v *View) *store.Epoch {
	t.Helper()
	r, err := planner.Make(t.Context(), v.Tree, planner.Settings{})
	ok(t, err)
	e, err := store.NewEpoch(r.Table(1))
	ok(t, err)
	return e
}

// tablesOf returns the tables of a view, with some lanes held back.
func tablesOf(v *View, hold []controller.Lane) (*lft.Tables, error) {
	r, err := v.Route(context.Background(), hold, planner.Settings{})
	return r.Tables, err
}

// lacking returns a view of the same baseline after failures.
func lacking(t *testing.T, v *View, specs ...string) *View {
	t.Helper()
	f := v.Tree.Fabric.Clone()
	for _, spec := range specs {
		_, err := f.Fail(spec)
		ok(t, err)
	}
	w, err := New(f, v.Tree.Baseline, &config.Planning{})
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
	if w, err := New(renamed, v.Tree.Baseline, &config.Planning{}); err != nil || w.ID != v.ID {
		t.Errorf("a new name makes another fabric: %v", err)
	}
	known := map[string]string{v.ID: "the whole fabric"}
	note := func(what string, w *View) {
		t.Helper()
		if old, dup := known[w.ID]; dup {
			t.Errorf("%s cannot be told from %s", what, old)
		}
		known[w.ID] = what
	}
	for _, spec := range []string{"Leaf000/5", "Leaf000/6", "Leaf001/5", "Spine002", "Hca0003", "Leaf002"} {
		note(spec+" failed", lacking(t, v, spec))
	}
	lids := v.Tree.Fabric.Clone()
	lids.At(v.Tree.Hosts[2].PortRef).LID += 64
	w, err := New(lids, v.Tree.Baseline, &config.Planning{})
	ok(t, err)
	note("a moved LID", w)
	base, err := topology.ReadBaseline(v.Tree.Baseline.Encode())
	ok(t, err)
	s := base.Leaves[1].Slots
	s[0], s[1] = s[1], s[0]
	w, err = New(v.Tree.Fabric, base, &config.Planning{})
	ok(t, err)
	note("exchanged indices", w)
}

func TestViewDown(t *testing.T) {
	w := lacking(t, tree(t), "Leaf001/6", "Spine003")
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
	e := planned(t, v)
	for _, c := range []struct {
		fail []string
		want float64
	}{{nil, 0}, {[]string{"Spine000"}, 0}, {[]string{"Hca0000", "Hca0001", "Hca0005"}, 0.25}} {
		w := lacking(t, v, c.fail...)
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
	e := planned(t, v)
	rows, err := RowsOf(e.Plan, v.Tree)
	ok(t, err)
	if diff := cmp.Diff(r.Rows, rows); diff != "" {
		t.Errorf("the rows are not those that were published (-want +got):\n%s", diff)
	}
	ok(t, verify.Plan(v.Tree, r.Tables, rows, nil))
	if !SameRows(e.Plan, v.Tree, rows) {
		t.Error("the plan is not the same as itself")
	}
	for name, change := range map[string]func(){
		"DLID":   func() { rows.DLID[len(rows.DLID)-1]++ },
		"lane":   func() { rows.Lane[1]++ },
		"peer":   func() { rows.To[2]++ },
		"length": func() { rows.Phases-- },
	} {
		rows, err = RowsOf(e.Plan, v.Tree)
		ok(t, err)
		if change(); SameRows(e.Plan, v.Tree, rows) {
			t.Errorf("a changed %s goes unnoticed", name)
		}
	}
	fewer := lacking(t, v, "Hca0004")
	if _, err := RowsOf(e.Plan, fewer.Tree); err == nil || !strings.Contains(err.Error(), "12 servers") {
		t.Errorf("on a fabric with a server less: %v", err)
	}
	swapped := v.Tree.Fabric.Clone()
	at := swapped.Find(v.Tree.Hosts[4].GUID - 1)
	swapped.Nodes[at].GUID, swapped.Nodes[at].Ports[1].GUID = 0x500000, 0x500001
	f, err := topology.NewFabric(swapped.Nodes, 0)
	ok(t, err)
	other, err := New(f, v.Tree.Baseline, &config.Planning{})
	ok(t, err)
	if _, err := RowsOf(e.Plan, other.Tree); err == nil || !strings.Contains(err.Error(), "0x0000000000500001") {
		t.Errorf("on a fabric with another adapter: %v", err)
	}
}

// TestKinds plans the exchange of a fabric of each kind, and that of a job, on its tables. The plan
// holds on them, stays if it is made again, and does not hold where a switch has lost its entries.
func TestKinds(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	for kind, v := range map[controller.Kind]*View{
		controller.FatTree:     seen(t, f),
		controller.ThreeLevels: seen(t, fabgen.GenerateTree(fabgen.KAry(4))),
		controller.OwnRoutes:   NewOwnRoutes(f, nil, "it is said to be none"),
	} {
		t.Run(kind.String(), func(t *testing.T) {
			if v.Kind != kind || v.Snapshot().ID != v.ID || Of(v.Snapshot()) != v {
				t.Errorf("it is %s", v.Kind)
			}
			own := kind == controller.OwnRoutes
			routed := v
			if own {
				routed = seen(t, f)
			}
			r, err := routed.Route(t.Context(), nil, planner.Settings{})
			ok(t, err)
			var p Proposal = r.Plan
			switch kind {
			case controller.FatTree:
				s, err := planner.Plan(t.Context(), v.Tree, planner.Settings{})
				ok(t, err)
				p = TreePlan{s}
			case controller.OwnRoutes:
				p, err = v.OnRoutes(t.Context(), r.Tables, 0)
				ok(t, err)
				if again, err := v.OnRoutes(t.Context(), r.Tables, 0); err != nil || again != p {
					t.Errorf("the same tables have another plan: %v", err)
				}
			}
			encode := func(p Proposal) *phasetable.View {
				encoded, err := phasetable.New(p.Table(7))
				ok(t, err)
				return encoded
			}
			plan, report := encode(p), p.Report()
			if report.Phases != plan.Phases() || report.Servers != plan.Servers() || !p.Is(plan, &report) || len(p.Cautions()) != len(report.Warnings) {
				t.Errorf("a plan of %d phases for %d servers is reported as %+v", plan.Phases(), plan.Servers(), report)
			}
			ok(t, v.Carries(r.Tables, plan, nil))
			broken := *r.Tables
			broken.Switches = slices.Clone(broken.Switches)
			broken.Switches[0].Out = slices.Repeat([]uint8{lft.NoPath}, len(broken.Switches[0].Out))
			if v.Carries(&broken, plan, nil) == nil {
				t.Error("the plan holds on a switch without entries")
			}
			if n := v.Topology(nil).Servers; n != plan.Servers() || v.LIDs() == 0 != own {
				t.Errorf("the API has %d servers of %d, and plans take %d LIDs", n, plan.Servers(), v.LIDs())
			}

			names := []string{plan.Server(0).Name, plan.Server(5).Name, "none"}
			if _, _, err := v.Members(names, false); err == nil {
				t.Error("an unknown host is a member")
			}
			members, unknown, err := v.Members(names, true)
			ok(t, err)
			if len(members) != 2 || !slices.Equal(unknown, names[2:]) {
				t.Errorf("members %v, unknown %v", members, unknown)
			}
			if v.JobsOnRoutes() {
				job, err := v.JobOnRoutes(t.Context(), []ib.GUID{members[0].GUID, members[1].GUID}, r.Tables, r.Tables)
				ok(t, err)
				if of := encode(job); of.Servers() != 2 || of.Phases() != 1 {
					t.Errorf("a job of two hosts has %d in %d phases", of.Servers(), of.Phases())
				}
			}

			var gone []ib.GUID
			if !own {
				gone = []ib.GUID{f.Nodes[f.Find(fabgen.LeafGUID)].GUID}
			}
			if less := v.Without(gone); (less.ID == v.ID) != own || !own && len(less.Tree.Servers) >= len(v.Tree.Servers) {
				t.Errorf("without the hosts of a leaf: %s, as before", less.ID)
			}
		})
	}
}

// TestFit takes a fabric that is not a fat tree as the settings say.
func TestFit(t *testing.T) {
	f := fabgen.Dragonfly(4, 3, 1)
	var none *topology.NotFatTree
	if _, err := Fit(f, nil, &config.Planning{}, true); !errors.As(err, &none) {
		t.Errorf("a dragonfly: %v", err)
	}
	v, err := Fit(f, nil, &config.Planning{OtherFabrics: config.OtherLiquid}, true)
	ok(t, err)
	if v.Kind != controller.OwnRoutes || v.Reason == "" || v.NoTree("why") == nil || v.Findings() != nil || v.Cables([]controller.Lane{{}}) != nil {
		t.Errorf("it is %s: %s", v.Kind, v.Reason)
	}
	if w := lacking(t, tree(t), "Leaf001/6"); len(w.Cables(w.Down)) != 1 || len(w.Findings()) == 0 {
		t.Errorf("of a cable that is down: %v, %v", w.Cables(w.Down), w.Findings())
	}
	cut := lacking(t, tree(t), "Leaf001/5", "Leaf001/6", "Leaf001/7", "Leaf001/8")
	var many *planner.TooManyUnreachable
	if _, err := Fit(cut.Fabric, cut.Tree.Baseline, &config.Planning{}, true); !errors.As(err, &many) {
		t.Errorf("a first plan without a leaf: %v", err)
	}
	_, err = Fit(cut.Fabric, cut.Tree.Baseline, &config.Planning{}, false)
	ok(t, err)
}

// TestJobs gives a view another ID while the base LIDs of jobs are routed.
func TestJobs(t *testing.T) {
	v := tree(t)
	servers := v.Tree.Servers
	job := planner.Job{ID: 3, Members: []ib.GUID{v.Tree.Hosts[servers[0]].GUID, v.Tree.Hosts[servers[5]].GUID}, Routed: true}
	with := v.WithJobs([]planner.Job{job})
	if with.ID == v.ID || with.Bare() != v.ID || len(with.Jobs) != 1 || with.WithJobs(nil).ID != v.ID {
		t.Errorf("%s with a job is %s, and without it %s", v.ID, with.ID, with.WithJobs(nil).ID)
	}
	job.Routed = false
	if with = v.WithJobs([]planner.Job{job}); with.ID != v.ID {
		t.Errorf("%s with a job that is not routed is %s", v.ID, with.ID)
	}
	e := planned(t, lacking(t, v, "Hca0004"))
	if known := v.Familiar(v.Tree, e); len(known.Servers) != len(servers)-1 || v.Familiar(v.Tree, nil) != nil || v.Familiar(v.Tree, planned(t, v)) != nil {
		t.Errorf("the plan knows %d of %d servers", len(known.Servers), len(servers))
	}
}

// TestStages plans a tree of three levels at once when a cable dies, and bridges the time until its
// tables are there.
func TestStages(t *testing.T) {
	v := seen(t, fabgen.GenerateTree(fabgen.TreeSpec{Pods: 4, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2, LMC: 2}))
	none := func(*topology.FatTree) []controller.Lane { return nil }
	if v.After(nil, none) != v || v.After(v, none).AtOnce {
		t.Error("nothing has changed, and a plan is wanted at once")
	}
	f := v.Fabric.Clone()
	_, err := f.Fail("Leaf001/3")
	ok(t, err)
	hurt, err := New(f, v.Tree.Baseline, &config.Planning{})
	ok(t, err)
	first := hurt.After(v, none)
	if !first.AtOnce || first.Bare() != hurt.ID || first.Stage(false).ID != hurt.ID || len(hurt.Down) != 1 {
		t.Errorf("%s comes first as %s", hurt.ID, first.ID)
	}
	was, err := tablesOf(v, nil)
	ok(t, err)
	next, err := tablesOf(first, nil)
	ok(t, err)
	bridge, err := first.Bridge(t.Context(), nil, was, next)
	ok(t, err)
	plan, err := phasetable.New(bridge.Table(1))
	ok(t, err)
	ok(t, first.Carries(was, plan, nil), first.Carries(next, plan, nil))
	if order, err := first.Order(nil, planner.Settings{}); err != nil || order != TablesFollow {
		t.Errorf("order %d: %v", order, err)
	}
	held, err := tablesOf(v, []controller.Lane{{Leaf: 1, Lane: 0}})
	ok(t, err)
	if lft.Changes(was, held).Entries == 0 {
		t.Error("the tables use a lane that is held")
	}
	if v.LetGo(); v.routed.made != nil {
		t.Error("the tables are kept")
	}
}
