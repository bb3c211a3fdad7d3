package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestPlanOnWrittenTables restores a cable before the tables without it have been read
// back. A plan that uses it must not pass, because the switches may hold those tables.
func TestPlanOnWrittenTables(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	whole := d.bringUp(t, healthy)
	cut := d.see(t, lacking(healthy, 4, 1, 2))
	d.planAndPublish(t, controller.Plan{Fabric: cut.Snapshot()})
	if changed, err := d.actions.plans.Write(context.Background(), controller.Write{Fabric: cut.Snapshot()}); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if e := d.actions.plans.Plan(context.Background(), controller.Plan{Fabric: whole.Snapshot()}).(controller.Planned); e.Err == "" {
		t.Error("a plan passed that uses a lane which the table file does not carry")
	}
	avoid := []controller.Lane{{Leaf: 1, Lane: 2}}
	if e := d.actions.plans.Plan(context.Background(), controller.Plan{Fabric: whole.Snapshot(), Avoid: avoid}).(controller.Planned); e.Err != "" || !e.Same {
		t.Errorf("the plan without the lane: %+v, want the one in force", e)
	}
	if changed, err := d.actions.plans.Write(context.Background(), controller.Write{Fabric: whole.Snapshot()}); !changed || err != nil {
		t.Fatal(changed, err)
	}
	tables, err := tablesOf(whole)
	if err != nil {
		t.Fatal(err)
	}
	d.desk.Read(tables, true)
	if e := d.actions.plans.Plan(context.Background(), controller.Plan{Fabric: whole.Snapshot(), Final: true}).(controller.Planned); e.Err != "" || e.Same {
		t.Errorf("the plan with the lane, after the read-back: %+v", e)
	}
}

// TestNoServers checks that a dump without servers is refused and changes nothing.
func TestNoServers(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	d.bringUp(t, healthy)
	d.step(t.Context(), controller.Tick{})
	before, err := os.ReadFile(d.cfg.OpenSM.LFTsFile)
	if err != nil {
		t.Fatal(err)
	}
	base := string(d.state.Now().Baseline.Encode())
	empty := healthy.Clone()
	for i := range empty.Nodes {
		if empty.Nodes[i].Kind == topology.Adapter {
			empty.Disconnect(topology.PortRef{Node: int32(i), Port: 1})
		}
	}
	d.dumpSeen(t.Context(), dump(empty))
	refused := slices.ContainsFunc(d.health.List(d.started.AddDate(1, 0, 0)), func(w health.Warning) bool { return w.Code == controller.FabricRefused })
	if !refused {
		t.Error("no warning tells that the dump is refused")
	}
	after, err := os.ReadFile(d.cfg.OpenSM.LFTsFile)
	if err != nil || string(after) != string(before) || string(d.state.Now().Baseline.Encode()) != base || d.core.Busy() {
		t.Errorf("the dump changed something: %v", err)
	}
}

// TestAcceptWaits checks that the fabric is not renumbered while an action uses the old
// numbers.
func TestAcceptWaits(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(4, 4)
	d.dumpSeen(t.Context(), dump(lacking(healthy, 4, 0, 0)))
	if !d.core.Busy() {
		t.Fatal("no action is under way")
	}
	if err := d.accept(t.Context()); err == nil || !strings.Contains(err.Error(), "writing-tables") {
		t.Errorf("accepted in the middle of a change: %v", err)
	}
	if e := d.next(t.Context(), t).(controller.Written); e.Err != "" || !e.Changed {
		t.Errorf("written: %+v", e)
	}
}

// TestCallsWhenEnding checks that a call returns when the loop has ended.
func TestCallsWhenEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newInbox()
		failed := make(chan error, 1)
		go func() { failed <- d.call(context.Background(), func(_ context.Context, _ *loop) { t.Error("it ran") }) }()
		synctest.Wait()
		close(d.stopped)
		var e *api.Error
		if err := <-failed; !errors.As(err, &e) || e.Code != api.CodeStopping {
			t.Errorf("%v, want %s", err, api.CodeStopping)
		}
	})
}

// TestWarningsOfThePlan checks that a plan's warnings and their texts survive a restart.
func TestWarningsOfThePlan(t *testing.T) {
	dir := t.TempDir()
	d := daemonIn(t, dir)
	small := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 1})
	d.bringUp(t, small)
	text := func(d *Daemon) string {
		for _, w := range d.health.List(d.started.AddDate(1, 0, 0)) {
			if w.Code == planner.LMCTooSmall {
				return w.Text
			}
		}
		return ""
	}
	want := text(d)
	if want == "" {
		t.Fatal("no warning of an LMC that is too small")
	}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	if got := text(daemonIn(t, dir)); got != want {
		t.Errorf("after a restart the warning says %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "state", "baseline.json")); err != nil {
		t.Error(err)
	}
}

// TestChangeCountsOnce checks that the times of a change are observed when it settles,
// and not again after an audit or a reroute.
func TestChangeCountsOnce(t *testing.T) {
	d := newDaemon(t)
	v := d.bringUp(t, fabric(4, 4))
	for range 3 {
		d.settled(context.Background(), controller.Settled{Fabric: v.Snapshot()})
	}
	families, err := d.backend.Metrics.Registry.Gather()
	ok(t, err)
	for _, f := range families {
		if f.GetName() != "forsd_change_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if n := m.GetHistogram().GetSampleCount(); n != 1 {
				t.Errorf("%s was observed %d times, want once", m.GetLabel(), n)
			}
		}
		return
	}
	t.Error("no times were observed")
}

// TestBounce restores a cable before the plan without it is made. No table changes or is
// read back, but the change still has the times of the tables.
func TestBounce(t *testing.T) {
	d := readable(newDaemon(t))
	whole := fabric(4, 4)
	d.atRest(t, whole)
	d.dumpSeen(t.Context(), dump(lacking(whole, 4, 1, 2)))
	if d.core.State() != controller.Before {
		t.Fatalf("a cable is lost, and the state is %v", d.core.State())
	}
	d.atRest(t, whole)
	if e := d.backend.Status().LastEvent; e.ProgrammedSeconds <= 0 || e.ReadBackSeconds < e.ProgrammedSeconds {
		t.Errorf("the cable is back: %+v", e)
	}
}

// TestPlanAfterLoss gives the plan in force a number above all that may have been lost
// with the machine, even if the plan stays the same or a rollback chose it. After a
// restart of forsd alone, the number stays.
func TestPlanAfterLoss(t *testing.T) {
	dir, f := t.TempDir(), fabric(4, 4)
	again := func(before *Daemon, boot string) (d *Daemon, last uint64) {
		t.Helper()
		state := before.cfg.StateDir
		ok(t, before.store.Close())
		last = promised(t, state)
		if boot != "" {
			promise(t, state, last, boot)
		}
		d = readable(daemonIn(t, dir))
		if p := d.state.Plans.Current(); boot != "" && p != nil {
			t.Errorf("plan %d is handed out, which may not be the last", p.Epoch)
		}
		d.atRest(t, f)
		return d, last
	}
	d := readable(daemonIn(t, dir))
	d.atRest(t, f)
	first := d.state.Now().Epoch
	d, _ = again(d, "")
	if n := d.state.Now().EpochNumber(); n != first.Epoch {
		t.Errorf("after a restart epoch %d is in force, %d was", n, first.Epoch)
	}
	d, last := again(d, "another")
	rows, err := view.RowsOf(first.Plan, d.state.Now().Latest.Tree)
	ok(t, err)
	if e := d.state.Now().Epoch; e.Epoch != last+1 || !view.SameRows(e.Plan, d.state.Now().Latest.Tree, rows) {
		t.Errorf("after the machine failed epoch %d is in force, %d were promised", e.Epoch, last)
	}
	ok(t, d.rollback(first.Epoch))
	chosen := d.state.Now().Epoch
	d, last = again(d, "a third")
	if e := d.state.Now().Epoch; e.Epoch != last+1 || e.RollbackOf != first.Epoch || !view.SameRows(e.Plan, d.state.Now().Latest.Tree, rows) {
		t.Errorf("epoch %d is in force, of the rollback to %d, and %d were promised; a rollback to %d chose %d", e.Epoch, e.RollbackOf, last, first.Epoch, chosen.Epoch)
	}
	chosen = d.state.Now().Epoch
	if d, _ = again(d, ""); d.state.Now().EpochNumber() != chosen.Epoch {
		t.Errorf("epoch %d is in force after a restart, and was %d", d.state.Now().EpochNumber(), chosen.Epoch)
	}
}

// TestDoubtedFabricsPass lets a cable die and shows partly discovered fabrics while its
// plan is made. The plan is published, and its tables follow.
func TestDoubtedFabricsPass(t *testing.T) {
	d := readable(newDaemon(t))
	healthy := fabric(4, 4)
	d.atRest(t, healthy)
	before := d.state.Now().EpochNumber()
	cut := lacking(healthy, 4, 1, 2)
	d.dumpSeen(t.Context(), dump(cut))
	for i := range 8 {
		half := cut.Clone()
		for host := range 12 {
			if host != i {
				_, err := half.Fail(fmt.Sprintf("Hca%04d", host))
				ok(t, err)
			}
		}
		if d.dumpSeen(t.Context(), dump(half)); !d.core.LossUnconfirmed() {
			t.Fatal("a fabric discovered by half is believed")
		}
	}
	for d.core.State() != controller.Sweeping {
		d.step(t.Context(), d.next(t.Context(), t))
		if text := d.warning(controller.TablesFailed); text != "" {
			t.Fatal(text)
		}
	}
	d.drive(t, cut)
	if n := d.state.Now().EpochNumber(); n <= before {
		t.Errorf("epoch %d is in force, and was before", n)
	}
	if match, _ := d.desk.Match(); !match {
		t.Error("the switches do not hold the tables of the plan in force")
	}
}
