package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/delivery"
)

// TestWhatRemainsOfAJob checks the remaining exchange of a job, which follows the job's
// plan before the failure.
func TestWhatRemainsOfAJob(t *testing.T) {
	healthy := fabric(4, 4)
	d := readable(newDaemon(t))
	d.atRest(t, healthy)
	j := d.make(t, "a", names(0, 8))
	cut := lacking(healthy, 4, 0, 2)
	d.dumpSeen(t.Context(), dump(cut))
	d.drive(t, cut)
	progress, err := api.ParseProgress("3")
	ok(t, err)
	for _, epoch := range []uint64{0, j.Epoch} {
		f, err := d.backend.WhatIf(t.Context(), api.WhatIf{Job: "a", Done: progress, Epoch: epoch})
		ok(t, err)
		if epoch == 0 {
			epoch = d.job(t, "a").Epoch
		}
		if r := f.Remaining; r.Epoch != epoch || r.Gap != 0 || r.Phases < 5 || f.Table.Job() != j.ID || f.Table.Servers() != 9 || f.Table.Phases() != r.Phases {
			t.Errorf("3 of 8 phases done of epoch %d: %+v, a table of job %d with %d servers", epoch, f.Remaining, f.Table.Job(), f.Table.Servers())
		}
	}
	for code, q := range map[string]api.WhatIf{api.CodeNotFound: {Job: "b", Done: progress}, api.CodeBadRequest: {Job: "a", Done: progress, Epoch: 1}} {
		var e *api.Error
		if _, err := d.backend.WhatIf(t.Context(), q); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%+v: %v, want %s", q, err, code)
		}
	}
}

// TestWhatRemains removes a cable during an exchange, before the tables are changed, and
// restores it.
func TestWhatRemains(t *testing.T) {
	d := newDaemon(t)
	b := d.backend
	progress, err := api.ParseProgress("40%")
	ok(t, err)
	ask := func(epoch uint64, fail ...string) (*api.Forecast, error) {
		return b.WhatIf(t.Context(), api.WhatIf{Fail: fail, Done: progress, Epoch: epoch})
	}
	refused := func(code, why string, err error) {
		t.Helper()
		var e *api.Error
		if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Text, why) {
			t.Errorf("want %s because of %q, got %v", code, why, err)
		}
	}
	healthy := fabric(4, 4)
	whole := d.bringUp(t, healthy)
	first := d.state.Now().Epoch

	forecast, err := ask(0, "Leaf001/7")
	ok(t, err)
	r := forecast.Remaining
	if r.Epoch != first.Epoch || r.Done != 6 || r.Phases < 9 || r.Gap != 0 || forecast.Table.Phases() != r.Phases || forecast.Table.Epoch() != first.Epoch {
		t.Errorf("6 of 15 phases done, a cable would fail: %+v", r)
	}

	cut := d.see(t, lacking(healthy, 4, 1, 2))
	d.planAndPublish(t, controller.Plan{Fabric: cut.Snapshot()})
	forecast, err = ask(first.Epoch) // on the old tables, with the cable dead
	ok(t, err)
	if r := forecast.Remaining; r.Epoch != first.Epoch || r.Done != 6 || r.Gap != 0 || len(forecast.What) != 0 {
		t.Errorf("6 of 15 phases done, a cable has failed: %+v", r)
	}
	_, err = ask(77)
	refused(api.CodeBadRequest, "epoch 77", err)
	progress, err = api.ParseProgress("99")
	ok(t, err)
	_, err = ask(0)
	refused(api.CodeBadRequest, "99 phases are said to be done", err)
	progress, err = api.ParseProgress("0")
	ok(t, err)

	// The cable is back, but the switches may hold the tables without it.
	if _, err := d.actions.plans.Write(context.Background(), controller.Write{Fabric: cut.Snapshot()}); err != nil {
		t.Fatal(err)
	}
	d.see(t, healthy)
	_, err = ask(first.Epoch)
	refused(api.CodeRefused, "the switches may hold tables that do not carry the plan", err)
	tables, err := tablesOf(whole)
	ok(t, err)
	_, err = d.desk.Deliver(whole.ID, whole.Fabric, tables)
	ok(t, err)
	d.desk.Read(tables, true)
	_, err = ask(first.Epoch)
	ok(t, err)
	d.desk.Tell(delivery.Forget{})
	_, err = ask(first.Epoch)
	refused(api.CodeRefused, "not known yet", err)
}

// TestWhatIfHolds plans without the cables that are held back, as forsd itself does. Leaf
// 1 then has two lanes of four for its 4·12 transfers to other leaves.
func TestWhatIfHolds(t *testing.T) {
	d := newDaemon(t)
	d.bringUp(t, fabric(4, 4))
	for _, c := range []struct {
		held   []controller.Lane
		phases int
	}{{nil, 16}, {[]controller.Lane{{Leaf: 1, Lane: 2}}, 24}} {
		d.state.Show(controller.Idle, c.held, false)
		f, err := d.backend.WhatIf(t.Context(), api.WhatIf{Fail: []string{"Spine003"}})
		ok(t, err)
		var plan struct{ Phases int }
		ok(t, json.Unmarshal(f.Plan, &plan))
		if plan.Phases != c.phases || f.Table.Phases() != c.phases {
			t.Errorf("a spine would fail, %v held: %d phases, %d in the table; want %d", c.held, plan.Phases, f.Table.Phases(), c.phases)
		}
	}
}

// TestWhatIfsAreLimited sends thirty what-ifs together. Few are planned at a time, and
// those that would wait too long are refused immediately.
func TestWhatIfsAreLimited(t *testing.T) {
	d := newDaemon(t)
	d.bringUp(t, fabric(20, 18))
	var clients sync.WaitGroup
	var answered, refused atomic.Int64
	for range 30 {
		clients.Go(func() {
			var e *api.Error
			switch _, err := d.backend.WhatIf(t.Context(), api.WhatIf{Fail: []string{"Spine003"}}); {
			case err == nil:
				answered.Add(1)
			case errors.As(err, &e) && e.Code == api.CodeBusy:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if answered.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d are answered, and %d refused", answered.Load(), refused.Load())
	}
}
