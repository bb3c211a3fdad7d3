package daemon

import (
	"context"
	"strings"
	"testing"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestTablesFirst changes from one failure to another on a fabric with one LID per
// server. The tables follow from the plan, so no plan passes before its tables are in the
// switches. Then the plan that they were made for passes. The previous plan cannot be put
// in force again, and after a restart nothing is written.
func TestTablesFirst(t *testing.T) {
	dir := t.TempDir()
	d := daemonIn(t, dir)
	healthy := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})
	d.see(t, healthy) // for the baseline
	d.bringUp(t, lacking(healthy, 4, 1, 2))
	if r := d.state.Now().Epoch.Report; r.LIDs != 1 || r.LMC != 0 {
		t.Fatalf("the plan uses %s LIDs of LMC %d, want 1 of 0", r.LIDs, r.LMC)
	}

	cut := d.see(t, lacking(healthy, 4, 3, 0))
	for range 2 { // before the tables are written, and before they are read back
		if e := d.actions.plans.Plan(context.Background(), controller.Plan{Fabric: cut.Snapshot()}).(controller.Planned); e.Err == "" {
			t.Error("a plan passed whose tables may not be in the switches")
		}
		if _, err := d.actions.plans.Write(context.Background(), controller.Write{Fabric: cut.Snapshot()}); err != nil {
			t.Fatal(err)
		}
	}
	tables, err := tablesOf(cut)
	ok(t, err)
	d.desk.Read(tables, true)
	d.planAndPublish(t, controller.Plan{Fabric: cut.Snapshot(), Final: true})
	if err := d.rollback(1); err == nil || !strings.Contains(err.Error(), "lane") {
		t.Errorf("the plan for other tables was put in force again: %v", err)
	}

	ok(t, d.store.Close())
	d = daemonIn(t, dir)
	cut = d.see(t, lacking(healthy, 4, 3, 0))
	if changed, err := d.actions.plans.Write(context.Background(), controller.Write{Fabric: cut.Snapshot()}); changed || err != nil {
		t.Errorf("after a restart: the table file changed: %v, %v", changed, err)
	}
	tables, err = tablesOf(cut)
	ok(t, err)
	d.desk.Read(tables, true)
	if e := d.actions.plans.Plan(context.Background(), controller.Plan{Fabric: cut.Snapshot(), Final: true}).(controller.Planned); e.Err != "" || !e.Same {
		t.Errorf("after a restart: %+v, want the plan in force", e)
	}
}

// TestTablesFirstHolding checks that neither the plan nor the tables use a bouncing
// cable.
func TestTablesFirstHolding(t *testing.T) {
	d := newDaemon(t)
	v := d.bringUp(t, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4}))
	hold := []controller.Lane{{Leaf: 1, Lane: 2}}
	r, err := v.Route(context.Background(), hold, planner.Settings{})
	ok(t, err)
	if again, err := v.Route(context.Background(), hold, planner.Settings{}); err != nil || again.Plan != r.Plan {
		t.Errorf("plan and tables were made twice: %v", err)
	}
	_, err = d.desk.Deliver(v.ID, v.Fabric, r.Tables)
	ok(t, err)
	d.desk.Read(r.Tables, true)
	d.planAndPublish(t, controller.Plan{Fabric: v.Snapshot(), Avoid: hold, Hold: hold, Final: true})
	rows, err := view.RowsOf(d.state.Now().Epoch.Plan, v.Tree)
	ok(t, err)
	for i, lane := range rows.Lane {
		src, dst := i%len(v.Tree.Servers), rows.To[i]
		if dst >= 0 && lane == 2 && (v.Tree.Hosts[v.Tree.Servers[src]].Leaf == 1 || v.Tree.Hosts[v.Tree.Servers[dst]].Leaf == 1) {
			t.Fatalf("the plan has %d send to %d over the lane that is held", src, dst)
		}
	}
}
