package daemon

import (
	"testing"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// podsUp puts the plan of a complete tree of three levels in force.
func podsUp(t testing.TB, spec fabgen.TreeSpec) (*Daemon, *topology.Fabric, *lft.Tables) {
	t.Helper()
	whole := fabgen.GenerateTree(spec)
	b, err := topology.NewPodBaseline(whole)
	ok(t, err)
	d := newDaemon(t)
	d.state.Adopt(&topology.Baseline{Pods: b})
	v := d.bringUp(t, whole)
	tables, err := tablesOf(v)
	ok(t, err)
	return d, whole, tables
}

// holdsOnAll checks the plan in force on several tables.
func (d *Daemon) holdsOnAll(t *testing.T, when string, v *view.View, tables ...*lft.Tables) {
	t.Helper()
	for i, x := range tables {
		if err := v.Carries(x, d.state.Now().Epoch.Plan, nil); err != nil {
			t.Errorf("%s the plan in force does not hold on tables %d of %d: %v", when, i+1, len(tables), err)
		}
	}
}

// TestStages takes the 8-ary tree through a failure step by step. With four LIDs per
// host, a plan around the dead cable is in force before any table changes, and holds
// before and after the change. The new tables give base LIDs their plan. A better plan
// that is worth its table changes comes last, and the plan in force holds until then.
func TestStages(t *testing.T) {
	t.Parallel()
	spec := fabgen.KAry(8)
	for _, c := range []struct {
		lmc    uint8
		dead   string
		bridge int // most phases before the tables, 0 if no plan is possible
		base   int // most phases of the plan for base LIDs
		blocks int // most blocks of tables that change
		better bool
	}{
		{0, "Leaf001/5", 0, 168, 46, false}, {0, "Mid002/6", 0, 132, 48, false}, {1, "Leaf001/5", 168, 168, 48, false},
		{2, "Leaf001/5", 168, 168, 52, false}, {2, "Mid002/6", 152, 132, 72, false}, {2, "Top001", 152, 140, 260, true}, {4, "Leaf001/5", 166, 168, 108, false}, {4, "Top001", 132, 140, 450, false},
	} {
		t.Run(c.dead+" at LMC "+port(int(c.lmc)), func(t *testing.T) {
			spec.LMC = c.lmc
			d, whole, before := podsUp(t, spec)
			first := d.state.Bases.Current()
			v := d.see(t, failing(t, whole, c.dead)).Stage(true)
			d.state.Remember(v)
			after, err := tablesOf(v)
			ok(t, err)
			if n := lft.Changes(before, after).Blocks; n > c.blocks {
				t.Errorf("%d blocks of tables change", n)
			}
			e := d.actions.plans.Plan(t.Context(), controller.Plan{Fabric: v.Snapshot(), Avoid: v.Down}).(controller.Planned)
			if (e.Err == "") != (c.bridge > 0) {
				t.Fatalf("before the tables: %+v", e)
			}
			if c.bridge > 0 {
				ok(t, d.actions.plans.Publish(t.Context()))
				d.holdsOnAll(t, "before the tables", v, before, after)
				if n := d.state.Now().Epoch.Report.Phases; n > c.bridge {
					t.Errorf("%d phases before the tables", n)
				}
				if d.state.Bases.Current() != first {
					t.Error("the plan for base LIDs has changed before its tables are there")
				}
			}
			d.reads(t, v, after)
			d.holdsOnAll(t, "on its tables", v, after)
			if base := d.state.Bases.Current(); base == nil || base.Table.Phases() > c.base {
				t.Fatalf("the plan for base LIDs is %+v", base)
			}
			better := d.actions.plans.PrepareAhead(t.Context(), v, nil)
			if (better != nil) != c.better {
				t.Fatalf("a better plan: %v", better)
			}
			if better == nil {
				return
			}
			ours := d.state.Now().Epoch.Report.Phases
			d.state.Remember(better)
			last, err := tablesOf(better)
			ok(t, err)
			d.holdsOnAll(t, "until the tables of a new plan are there", better, after, last)
			d.reads(t, better, last)
			d.holdsOnAll(t, "at last", better, last)
			if n := d.state.Now().Epoch.Report.Phases; n >= ours || d.state.Bases.Current().Table.Phases() > c.base {
				t.Errorf("at last it has %d phases, before %d; base LIDs %d", n, ours, d.state.Bases.Current().Table.Phases())
			}
		})
	}
}

// reads lets tables be written and read back, and publishes their plan.
func (d *Daemon) reads(t testing.TB, v *view.View, tables *lft.Tables) {
	t.Helper()
	_, err := d.actions.plans.Write(t.Context(), controller.Write{Fabric: v.Snapshot()})
	ok(t, err)
	d.desk.Read(tables, true)
	if e := d.actions.plans.Plan(t.Context(), controller.Plan{Fabric: v.Snapshot(), Final: true}).(controller.Planned); e.Err != "" {
		t.Fatal(e.Err)
	} else if !e.Same {
		ok(t, d.actions.plans.Publish(t.Context()))
	}
}
