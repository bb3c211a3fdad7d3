package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/verify"
)

// baseOf requests the plan for base LIDs from the API and verifies it on the tables.
func (d *Daemon) baseOf(t *testing.T, v *view.View) *phasetable.View {
	t.Helper()
	h := server.Handler(server.Config{Backend: d.backend, Plans: d.state.Plans, Bases: d.state.Bases, Events: d.state.Events}, false)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://forsd/v1/plan/phases?lids=base&format=binary", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	table, err := phasetable.Decode(w.Body.Bytes())
	ok(t, err)
	rows, err := view.RowsOf(table, v.Tree)
	ok(t, err)
	for i, dst := range rows.To {
		if dst >= 0 && rows.DLID[i] != v.Tree.Hosts[v.Tree.Servers[dst]].LID {
			t.Fatalf("a transfer goes to LID %d, not to the base LID of %s", rows.DLID[i], v.Tree.Hosts[v.Tree.Servers[dst]].Name)
		}
	}
	tables, err := tablesOf(v)
	ok(t, err)
	ok(t, verify.Plan(v.Tree, tables, rows, planner.Unreachable(v.Tree, rows)))
	return table
}

// TestBasePlan checks that the plan for base LIDs is published when its tables have been
// read back, and not earlier with the fabric's plan.
func TestBasePlan(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	first := d.baseOf(t, d.bringUp(t, healthy))
	if first.Phases() != 15 || first.Epoch() != d.state.Now().EpochNumber() {
		t.Errorf("base plan %d has %d phases; want 15, and the number of epoch %d", first.Epoch(), first.Phases(), d.state.Now().EpochNumber())
	}

	v := d.see(t, lacking(healthy, 4, 1, 2))
	d.planAndPublish(t, controller.Plan{Fabric: v.Snapshot(), Avoid: v.Down})
	if now := d.state.Bases.Current(); now.Epoch != first.Epoch() {
		t.Errorf("base plan %d is in force before its tables are, want %d", now.Epoch, first.Epoch())
	}
	tables, err := tablesOf(v)
	ok(t, err)
	_, err = d.desk.Deliver(v.ID, v.Fabric, tables)
	ok(t, err)
	d.desk.Read(tables, true)
	if e := d.actions.plans.Plan(context.Background(), controller.Plan{Fabric: v.Snapshot(), Final: true}).(controller.Planned); e.Err != "" {
		t.Fatal(e.Err)
	} else if !e.Same {
		ok(t, d.actions.plans.Publish(context.Background()))
	}
	second := d.baseOf(t, v)
	if second.Phases() != 16 || second.Epoch() <= first.Epoch() {
		t.Errorf("base plan %d with %d phases after %d; want 16 phases and a higher number", second.Epoch(), second.Phases(), first.Epoch())
	}
	if s := d.state.Now().Status(); s.Base == nil || s.Base.Phases != 16 || s.Base.Epoch != second.Epoch() {
		t.Errorf("the status has %+v", s.Base)
	}
	stored, err := d.store.Disk.Base()
	ok(t, err)
	if stored.Epoch() != second.Epoch() {
		t.Errorf("base plan %d is stored, want %d", stored.Epoch(), second.Epoch())
	}

	d.actions.plans.PublishBase(context.Background(), v, controller.Plan{Fabric: v.Snapshot(), Final: true})
	if again := d.state.Bases.Current(); again.Epoch != second.Epoch() {
		t.Errorf("the same plan is published as %d, and was %d", again.Epoch, second.Epoch())
	}
	d.state.NoBase(nil)
	if d.state.Bases.Current() != nil || d.state.Now().Status().Base != nil {
		t.Error("a plan for base LIDs that has ended is in force")
	}
}

// TestBasePlanOfEpoch checks that a plan of the epoch that uses base LIDs alone is kept once.
func TestBasePlanOfEpoch(t *testing.T) {
	d := newDaemon(t)
	d.baseOf(t, d.bringUp(t, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})))
	if d.state.Now().LastBase != d.state.Now().Epoch.Plan {
		t.Error("the plan for base LIDs, which is that of the epoch, is kept twice")
	}
}

// TestBasePlanInDoubt takes over in doubt, when another forsd may have published since.
// The plans for base LIDs of the fabric and of a job get numbers above all that it may
// have given, although they stay the same.
func TestBasePlanInDoubt(t *testing.T) {
	d := readable(newDaemon(t))
	healthy := fabric(4, 4)
	d.atRest(t, healthy)
	j := d.ask(t, healthy, api.JobRequest{Name: "a", Hosts: names(0, 5), LeaseSeconds: 600})
	before, ofJob := d.state.Bases.Current().Epoch, j.Bases.Current().Epoch
	const above = 1000
	lead := standby.Lead{Above: above, Doubt: "nobody answers"}
	at, _ := d.loop.atRest()
	at.handover().PassOver([]standby.Action{lead})
	d.lead(t.Context(), lead)
	d.step(t.Context(), controller.Reroute{})
	d.rest(t, healthy)
	if now := d.state.Bases.Current().Epoch; now <= above {
		t.Errorf("the base plan is %d, and was %d", now, before)
	}
	if now := d.job(t, "a").Bases.Current().Epoch; now <= above {
		t.Errorf("the job's base plan is %d, and was %d", now, ofJob)
	}
	before, ofJob = d.state.Bases.Current().Epoch, d.job(t, "a").Bases.Current().Epoch
	d.step(t.Context(), controller.Reroute{})
	d.rest(t, healthy)
	if d.state.Bases.Current().Epoch != before || d.job(t, "a").Bases.Current().Epoch != ofJob {
		t.Error("base plans get new numbers each time")
	}
}

// TestChangesAfterRestart requests the changes of the plan in force since a plan that was
// in force before the daemon was restarted, and since a plan that is not kept.
func TestChangesAfterRestart(t *testing.T) {
	dir := t.TempDir()
	healthy := fabric(4, 4)
	d := readable(daemonIn(t, dir))
	d.atRest(t, healthy)
	since := d.state.Now().EpochNumber()
	cut := lacking(healthy, 4, 1, 2)
	d.dumpSeen(t.Context(), dump(cut))
	d.drive(t, cut)
	epoch := d.state.Now().EpochNumber()
	want := len(phasetable.Changes(d.state.Plans.Exactly(since).Table, d.state.Plans.Exactly(epoch).Table))
	ok(t, d.store.Close())
	d = readable(daemonIn(t, dir))
	h := server.Handler(server.Config{Backend: d.backend, Plans: d.state.Plans, Bases: d.state.Bases, Events: d.state.Events}, false)
	for query, code := range map[string]int{fmt.Sprintf("since=%d", since): 200, fmt.Sprintf("since=%d&lids=base", since): 503, "since=999": 410} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://forsd/v1/plan/changes?"+query, nil))
		var got api.PlanChanges
		if w.Code != code || code == 200 && (json.Unmarshal(w.Body.Bytes(), &got) != nil || got.Epoch != epoch || len(got.Pairs) != want || want == 0) {
			t.Errorf("%s: %d %.300s; want %d, and %d pairs that epoch %d changes", query, w.Code, w.Body, code, want, epoch)
		}
	}
}
