package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/delivery"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/standby/replica"
)

// turn is the loop between two actions: no request of the controller is under way. Plans,
// tables, numbers and the store change only in a turn or as an action.
type turn struct{ *loop }

// atRest returns a turn, and whether it is valid because no action is under way.
func (l *loop) atRest() (t turn, rests bool) { return turn{l}, !l.core.Busy() }

// giveTurns does the work that waits for a turn.
func (l *loop) giveTurns(ctx context.Context) {
	for {
		t, rests := l.atRest() // a turn may begin an action
		switch {
		case !rests:
			return
		case len(l.waiting) == 0:
			t.routine(ctx, time.Now())
			return
		}
		run := l.waiting[0]
		l.waiting = l.waiting[1:]
		run(ctx, t)
	}
}

// routine does the work that is due: it ends leases, asks the other forsd, and stores the
// state that is not stored.
func (t turn) routine(ctx context.Context, now time.Time) {
	if due := t.state.Now().LeaseDue(); !due.IsZero() && !now.Before(due) {
		t.store.EndLeases(now)
	}
	if due := t.standby.Wake(); !due.IsZero() && !now.Before(due) {
		t.stand(ctx, standby.Tick{})
	}
	t.dueDrains(ctx, now)
	t.store.Restore(now)
	t.followJobs(ctx)
}

// followJobs makes the tables follow jobs whose base LIDs are routed. With different such
// jobs, the fabric must be planned as a different one.
func (t turn) followJobs(ctx context.Context) {
	now := t.state.Now()
	v := now.Latest
	if v == nil || slices.Equal(t.jobs, now.Jobs) {
		return
	}
	t.jobs = now.Jobs
	if next := v.WithJobs(now.Planning()); next.ID != v.ID {
		next.Why = "base LIDs of jobs take other lanes"
		t.showAgain(ctx, next)
	}
}

// stand passes an event to the machine and carries out all its actions.
func (t turn) stand(ctx context.Context, e standby.Event) {
	if t.stepStandby(ctx, e) {
		t.stand(ctx, standby.Adopted{Err: controller.Text(t.adopt(ctx))})
	}
}

// peerSays handles an answer of the other forsd.
func (t turn) peerSays(ctx context.Context, serial uint64, r *replica.Replica, err error) {
	t.said = r
	own := standby.Numbers{Last: t.store.Last(), Epoch: t.state.Now().EpochNumber()}
	t.stand(ctx, standby.Answered{Serial: serial, Word: r.Word(), Own: own, Err: controller.Text(err)})
}

// handover returns the state for the transfer between the two forsd.
func (t turn) handover() *replica.State {
	return &replica.State{State: t.state, Store: t.store, KeepEpochs: t.cfg.KeepEpochs}
}

// adopt adopts the state of the other forsd. A follower plans the fabric ahead. A daemon
// that takes over plans only when its own manager has found the fabric.
func (t turn) adopt(ctx context.Context) error {
	r := t.said
	if own := t.store.Decisions(); t.standby.Role() == standby.TakesOver && r.Last <= t.store.Last() && r.Decisions.Serial() < own.Serial() {
		later := *r // the other forsd has not led since this one made the later decisions
		later.Decisions = own
		r = &later
	}
	if err := t.handover().Keep(r); err != nil {
		return err
	}
	excluder(t).resume()
	if t.standby.Role() == standby.TakesOver {
		return nil
	}
	if t.state.Now().Epoch != nil {
		t.nowReady()
	}
	if r.Fabric == nil || t.state.Now().Baseline == nil {
		return nil
	}
	f, err := r.CheckedFabric()
	if err != nil {
		return err
	}
	v, err := t.believed(ctx, linkstate.Shown{Fabric: f, Swept: true, Seen: time.Now()})
	if err != nil {
		return errors.Join(errors.New("its fabric cannot be used"), err)
	}
	own := t.own
	t.show(ctx, v, true)
	t.own = own
	return nil
}

// forgetTables forgets the contents of the switches if another forsd controls them.
func (t turn) forgetTables() {
	if t.state.Now().Standby {
		t.desk.Tell(delivery.Forget{})
	}
}
