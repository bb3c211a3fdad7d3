package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/delivery"
	"github.com/forsd/forsd/internal/plans"
	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm/plugin"
)

// actions carries out the controller's requests concurrently with the loop, one action at
// a time. Between two actions, it belongs to a turn.
type actions struct {
	*components
	plans *plans.Publisher
}

// carryOut carries out a request of the controller and returns the result. Steps that a
// newer fabric cancels use act.
func (x *actions) carryOut(ctx, act context.Context, a controller.Action) controller.Event {
	switch a := a.(type) {
	case controller.Plan:
		if !a.Final && !a.Ahead {
			x.desk.Tell(delivery.Changing{})
		}
		e := x.plans.Plan(act, a)
		x.look(act, a)
		return e
	case controller.Publish:
		return controller.Published{Err: controller.Text(x.plans.Publish(act))}
	case controller.Write:
		if r, err := view.Of(a.Fabric).Route(ctx, a.Hold, x.plans.Settings()); err == nil {
			x.recall(ctx, view.Of(a.Fabric), r.Tables)
		}
		changed, err := x.plans.Write(ctx, a)
		if err != nil && x.manager.FallsBack() && x.desk.Withdraw(view.Of(a.Fabric).Fabric) {
			err = errors.Join(err, x.manager.Signal(ctx))
		}
		if !changed {
			x.plans.JobsAhead(act) // otherwise the manager is told first
		}
		return controller.Written{Changed: changed, Err: controller.Text(rights.Explain(err))}
	case controller.Signal:
		err := x.signal(ctx)
		x.plans.JobsAhead(act)
		return controller.Signalled{Err: controller.Text(err)}
	case controller.ReadBack:
		return x.readBack(act, a)
	}
	panic("daemon: the controller asked for something unknown: " + a.String())
}

// signal makes the manager sweep.
func (x *actions) signal(ctx context.Context) error {
	switch x.desk.Load() {
	case delivery.ThisSweep:
		return nil
	case delivery.LastSweep:
		again := context.WithoutCancel(ctx)
		x.work.Go(func() { // it ends with the loop at the latest
			_ = x.inbox.call(again, func(ctx context.Context, l *loop) {
				v := *l.state.Now().Latest // once more: the controller was not ready for the end of that sweep
				l.show(ctx, &v, true)
			})
		})
		return nil
	case delivery.NextSweep:
		if err := x.manager.Resweep(); !errors.Is(err, plugin.ErrNotConnected) {
			return err
		}
	}
	if x.cfg.OpenSM.Remote() {
		return x.probe.Install(ctx)
	}
	return x.manager.Signal(ctx)
}

// readBack reads the tables from the switches and compares them with those of the fabric.
// The next plan is verified on the tables read.
func (x *actions) readBack(ctx context.Context, a controller.ReadBack) controller.Event {
	v := view.Of(a.Fabric)
	swept := time.Now()
	x.desk.Tell(delivery.Reading{})
	got, whole, err := x.reader().Tables(ctx, v.Fabric)
	unwritten := x.desk.Written()
	if unwritten != nil {
		unwritten = fmt.Errorf("the tables were delivered by the plugin, but the fallback table file could not be written: %w", unwritten)
	}
	if err != nil {
		return controller.ReadBackDone{Err: err.Error()}
	}
	if v.Kind == controller.OwnRoutes {
		x.desk.Read(got, false) // no tables were ordered
		x.markRead(v, swept)
		return controller.ReadBackDone{Match: true}
	}
	want, err := v.Route(ctx, a.Hold, x.plans.Settings())
	if err != nil {
		return controller.ReadBackDone{Err: err.Error()}
	}
	if !whole {
		if lid := lft.FillUnread(got, want.Tables); lid != 0 {
			x.log.Debug("the entries of one LID are beyond what dump_fts reads, and are taken as planned", zap.Uint16("lid", uint16(lid)))
		}
	}
	err = lft.Compare(want.Tables, got, lft.LIDs(v.Fabric))
	x.desk.Read(got, err == nil)
	if err != nil {
		x.recall(ctx, v, got)
		return controller.ReadBackDone{Difference: err.Error()}
	}
	x.markRead(v, swept)
	return controller.ReadBackDone{Match: true, Unwritten: controller.Text(unwritten)}
}

// markRead records that the tables of a sweep have been read.
func (x *actions) markRead(v *view.View, swept time.Time) {
	x.state.Mark(v.ID, swept, func(t *state.Times) *time.Time { return &t.Swept })
	x.state.Mark(v.ID, time.Now(), func(t *state.Times) *time.Time { return &t.ReadBack })
}

// A forsd that only watches OpenSM has a controller that is always a standby:
// it only plans the fabric that it sees.

// errWatches is the error for requests that only a managing forsd can carry out.
var errWatches = api.Refused("forsd only watches: set mode: manage in forsd.yaml, give OpenSM the settings of opensm.conf.fragment, and restart both")

// look compares the plan of a fabric with OpenSM's tables.
func (x *actions) look(ctx context.Context, a controller.Plan) {
	v := view.Of(a.Fabric)
	if !x.cfg.Watches() || v.Tree == nil {
		return
	}
	x.backend.Watched.Store(plans.Compare(ctx, v, x.planning, func(ctx context.Context) (*lft.Tables, error) {
		tables, _, err := x.reader().Tables(ctx, v.Fabric)
		return tables, err
	}))
	x.store.KeepBaseline()
	x.notify("STATUS=forsd only watches; the fabric was last seen " + time.Now().Format(time.TimeOnly))
}
