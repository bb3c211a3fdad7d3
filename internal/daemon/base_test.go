package daemon

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/verify"
)

// baseOf asks the API for the plan for base LIDs, and holds it to the tables.
func (d *Daemon) baseOf(t *testing.T, v *view.View) *phasetable.View {
	t.Helper()
	h := api.Handler(api.Config{Backend: d.backend, Plans: d.board.Plans, Bases: d.board.Bases, Events: d.board.Events}, false)
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
	tables, err := tablesOf(v, nil)
	ok(t, err)
	ok(t, verify.Plan(v.Tree, tables, rows, planner.Unreachable(v.Tree, rows)))
	return table
}

// TestBasePlan publishes the plan for base LIDs when the tables that carry it have been
// read back, and not with the other one before.
func TestBasePlan(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	first := d.baseOf(t, d.bringUp(t, healthy))
	if first.Phases() != 15 || first.Epoch() != d.board.EpochNumber() {
		t.Errorf("base plan %d has %d phases; want 15, and the number of epoch %d", first.Epoch(), first.Phases(), d.board.EpochNumber())
	}
	if d.board.LastBase() != d.board.Current().Plan {
		t.Error("the plan for base LIDs, which is that of the epoch, is kept twice")
	}

	v := d.see(t, lacking(healthy, 4, 1, 2))
	d.planAndPublish(t, controller.Plan{Fabric: v.ID, Avoid: v.Down})
	if now := d.board.Bases.Current(); now.Epoch != first.Epoch() {
		t.Errorf("base plan %d is in force before its tables are, want %d", now.Epoch, first.Epoch())
	}
	tables, err := tablesOf(v, nil)
	ok(t, err)
	d.desk.Read(tables, true)
	if e := d.actions.press.Plan(context.Background(), controller.Plan{Fabric: v.ID, Final: true}).(controller.Planned); e.Err != "" {
		t.Fatal(e.Err)
	} else if !e.Same {
		ok(t, d.actions.press.Publish(context.Background()))
	}
	second := d.baseOf(t, v)
	if second.Phases() != 16 || second.Epoch() <= first.Epoch() {
		t.Errorf("base plan %d with %d phases after %d; want 16 phases and a higher number", second.Epoch(), second.Phases(), first.Epoch())
	}
	if s := d.board.Status(); s.Base == nil || s.Base.Phases != 16 || s.Base.Epoch != second.Epoch() {
		t.Errorf("the status has %+v", s.Base)
	}
	stored, err := d.store.Base()
	ok(t, err)
	if stored.Epoch() != second.Epoch() {
		t.Errorf("base plan %d is stored, want %d", stored.Epoch(), second.Epoch())
	}

	d.actions.press.PublishBase(context.Background(), v, controller.Plan{Fabric: v.ID, Final: true})
	if again := d.board.Bases.Current(); again.Epoch != second.Epoch() {
		t.Errorf("the same plan is published as %d, and was %d", again.Epoch, second.Epoch())
	}
	d.board.NoBase(nil)
	if d.board.Bases.Current() != nil || d.board.Status().Base != nil {
		t.Error("a plan for base LIDs that has ended is in force")
	}
}
