package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
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
	return in.try(ctx, func(ctx context.Context, t turn) error { return t.release(ctx, name) })
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
