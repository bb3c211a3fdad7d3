package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
	"github.com/forsd/forsd/topology"
)

// This file carries out the API's requests to the loop.

// Stopped is closed when the loop has ended.
func (in *inbox) Stopped() <-chan struct{} { return in.stopped }

// Reroute repeats every step.
func (in *inbox) Reroute(ctx context.Context) (done <-chan struct{}, err error) {
	err = in.call(ctx, func(ctx context.Context, l *loop) {
		done = l.state.Now().Rest // from now on: an earlier rest does not count
		l.step(ctx, controller.Reroute{})
	})
	return done, err
}

// Rollback publishes an old plan again if it holds on the present fabric.
func (in *inbox) Rollback(ctx context.Context, n uint64) error {
	return in.order(ctx, fmt.Sprintf("epoch %d is not put in force", n), func(_ context.Context, l *loop) error { return l.rollback(n) })
}

// order has the loop carry out an order, which it may refuse.
func (in *inbox) order(ctx context.Context, refused string, f func(context.Context, *loop) error) error {
	var err error
	if cerr := in.call(ctx, func(ctx context.Context, l *loop) { err = f(ctx, l) }); cerr != nil || err == nil {
		return cerr
	}
	return api.Refused("%s: %v", refused, err)
}

// Accept makes the present fabric the baseline.
func (in *inbox) Accept(ctx context.Context) error {
	return in.order(ctx, "the baseline stays", func(ctx context.Context, l *loop) error { return l.accept(ctx) })
}

// ReleaseCable puts an isolated cable on probation.
func (in *inbox) ReleaseCable(ctx context.Context, name string) error {
	return in.try(ctx, func(ctx context.Context, t turn) error {
		o, err := t.cables.Release(time.Now(), name)
		if err == nil {
			t.carryOut(ctx, o) // this stores the decision
		}
		return err
	})
}

// Measured shows what an exchange tells of the cables to the tracker of their health.
func (in *inbox) Measured(ctx context.Context, m *api.Measured) error {
	return in.call(ctx, func(_ context.Context, l *loop) { l.excluder.carryOut(l.cables.Measured(time.Now(), m)) })
}

// Between runs f while no action is under way.
func (in *inbox) Between(ctx context.Context, f func(backend.Ground) error) error {
	return in.try(ctx, func(_ context.Context, t turn) error {
		fabric, avoid := t.loop.core.Ground()
		g := backend.Ground{Avoid: avoid, Sweeping: t.loop.core.State() == controller.Sweeping}
		if fabric != nil {
			g.View = view.Of(fabric)
		}
		return f(g)
	})
}

// peerClaims records, between two actions, that the other forsd is taking over.
func (in *inbox) peerClaims(ctx context.Context, claim uint64) error {
	return in.between(ctx, func(ctx context.Context, t turn) { t.stand(ctx, standby.Asked{Claim: claim}) })
}

// Drain drains parts or gives them back.
func (in *inbox) Drain(ctx context.Context, all ...exclusions.Event) error {
	return in.try(ctx, func(ctx context.Context, t turn) error {
		if err := t.mayLead(); err != nil {
			return err
		}
		for _, e := range all {
			t.stepDrains(ctx, e)
		}
		return nil
	})
}

// rollback must run between two events.
func (l *loop) rollback(n uint64) error {
	if err := l.mayLead(); err != nil {
		return err
	}
	if s := l.core.State(); s != controller.Idle {
		return fmt.Errorf("a change is being worked on (%s): try again when it has settled", s)
	}
	v, tables := l.state.Now().Latest, l.desk.InSwitches()
	if fabric, _ := l.core.Ground(); v == nil || tables == nil || v.Kind == controller.OwnRoutes && (fabric == nil || v.ID != fabric.ID) {
		return fmt.Errorf("the tables in force are not known yet")
	}
	old, err := l.store.Disk.Epochs.Load(n)
	if err != nil {
		return err
	}
	if err := v.Carries(tables, old.Plan, l.core.Held()); err != nil {
		return err
	}
	report := old.Report
	report.TopologyHash = v.Fabric.Hash()
	return l.store.Publish(l.store.Disk.Numbers.Next(), state.Plan{Proposal: state.Known{Plan: old.Plan, About: report, Warnings: old.Warnings},
		About: store.EpochInfo{Fabric: v.ID, What: []string{fmt.Sprintf("rollback to epoch %d", n)}, RollbackOf: n}})
}

// accept must run between two events.
func (l *loop) accept(ctx context.Context) error {
	if err := l.mayLead(); err != nil {
		return err
	}
	v := l.state.Now().Latest
	if v == nil {
		return errors.New("OpenSM has not written a usable dump yet")
	}
	// An action under way was planned for the old numbers and would store them; a fabric
	// that is not believed must not become the baseline.
	if s := l.core.State(); l.core.Busy() || s == controller.Suspect {
		return fmt.Errorf("a change is being worked on (%s): try again when it has settled", s)
	}
	base, err := topology.Recognise(v.Fabric)
	if err != nil {
		return err
	}
	fresh, err := view.New(v.Fabric, base, &l.settings.Now().Planning)
	if err != nil {
		return err
	}
	fresh = l.excluder.without(fresh)
	if err := l.store.AcceptBaseline(fresh.Tree.Baseline); err != nil {
		return err
	}
	fresh.SeenAt, fresh.Complete, fresh.Why = time.Now(), v.Complete, "the fabric was accepted as the baseline"
	l.show(ctx, fresh, true)
	return nil
}

// inbox carries messages and requests from other goroutines to the loop. It is the loop as the API
// sees it (backend.Loop).
type inbox struct {
	snapshots chan opensm.Snapshot
	plugin    chan plugin.Event
	questions chan question
	answers   chan controller.Event // answers to the controller's actions, and other events for it
	calls     chan func(context.Context, *loop)
	stopped   chan struct{} // closed when the loop ends
}

// eventsAhead is how many events of the plugin may wait for the loop.
const eventsAhead = 256

func newInbox() *inbox {
	return &inbox{snapshots: make(chan opensm.Snapshot, 1), plugin: make(chan plugin.Event, eventsAhead), questions: make(chan question),
		answers: make(chan controller.Event), calls: make(chan func(context.Context, *loop)), stopped: make(chan struct{})}
}

// dumped passes a dump of the manager on.
func (in *inbox) dumped(ctx context.Context, s opensm.Snapshot) {
	select {
	case in.snapshots <- s:
	case <-ctx.Done():
	}
}

// pluginEvent passes an event of the plugin on.
func (in *inbox) pluginEvent(e plugin.Event) {
	select {
	case in.plugin <- e:
	case <-in.stopped:
	}
}

// tell passes an event to the controller.
func (in *inbox) tell(e controller.Event) {
	select {
	case in.answers <- e:
	case <-in.stopped:
	}
}

// call lets the loop run f between two events, with the loop's own context, and waits for
// it.
func (in *inbox) call(ctx context.Context, f func(context.Context, *loop)) error {
	done := make(chan struct{})
	select {
	case in.calls <- func(ctx context.Context, l *loop) { f(ctx, l); close(done) }:
	case <-in.stopped:
		return backend.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done // the loop runs every call that it has received
	return nil
}

// try is between for an f that may fail.
func (in *inbox) try(ctx context.Context, f func(context.Context, turn) error) (err error) {
	if cerr := in.between(ctx, func(ctx context.Context, t turn) { err = f(ctx, t) }); cerr != nil {
		return cerr
	}
	return err
}

// between lets the loop run f between two actions, and waits for it. On an error, f does
// not run: ctx has ended or the daemon is shutting down.
func (in *inbox) between(ctx context.Context, f func(context.Context, turn)) error {
	var claimed atomic.Bool // by the loop, or by a caller that has stopped waiting
	done := make(chan struct{})
	run := func(ctx context.Context, t turn) {
		if claimed.CompareAndSwap(false, true) {
			f(ctx, t)
			t.loop.showPeer() // before the caller continues
			close(done)
		}
	}
	if err := in.call(ctx, func(_ context.Context, l *loop) { l.waiting = append(l.waiting, run) }); err != nil {
		return err
	}
	var err error
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err = fmt.Errorf("wait for the change under way: %w", ctx.Err())
	case <-in.stopped:
		err = backend.ErrStopping
	}
	if claimed.CompareAndSwap(false, true) {
		return err
	}
	<-done // the loop has just started it
	return nil
}
