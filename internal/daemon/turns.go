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
type turn struct {
	*components
	loop *loop
}

// atRest returns a turn, and whether it is valid because no action is under way.
func (l *loop) atRest() (t turn, rests bool) { return turn{l.components, l}, !l.core.Busy() }

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
	if due := t.loop.standby.Wake(); !due.IsZero() && !now.Before(due) {
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
	if v == nil || slices.Equal(t.loop.jobs, now.Jobs) {
		return
	}
	t.loop.jobs = now.Jobs
	if next := v.WithJobs(now.Planning()); next.ID != v.ID {
		next.Why = "base LIDs of jobs take other lanes"
		t.loop.showAgain(ctx, next)
	}
}

// stand passes an event to the machine and carries out all its actions.
func (t turn) stand(ctx context.Context, e standby.Event) {
	if t.loop.stepStandby(ctx, e) {
		t.stand(ctx, standby.Adopted{Err: controller.Text(t.adopt(ctx))})
	}
}

// peerSays handles an answer of the other forsd.
func (t turn) peerSays(ctx context.Context, serial uint64, r *replica.Replica, err error) {
	t.loop.said = r
	own := standby.Numbers{Last: t.store.Disk.Numbers.Last(), Epoch: t.state.Now().EpochNumber()}
	t.stand(ctx, standby.Answered{Serial: serial, Word: r.Word(), Own: own, Err: controller.Text(err)})
}

// handover returns the state for the transfer between the two forsd.
func (t turn) handover() *replica.State {
	return &replica.State{State: t.state, Store: t.store, KeepEpochs: t.cfg.KeepEpochs, Succeeds: t.loop.standby.Role() == standby.TakesOver}
}

// adopt adopts the state of the other forsd. A follower plans the fabric ahead. A daemon
// that takes over plans only when its own manager has found the fabric.
func (t turn) adopt(ctx context.Context) error {
	r := t.loop.said
	if own := t.store.Decisions(); t.loop.standby.Role() == standby.TakesOver && r.Last <= t.store.Disk.Numbers.Last() && r.Decisions.Serial() < own.Serial() {
		later := *r // the other forsd has not led since this one made the later decisions
		later.Decisions = own
		r = &later
	}
	if err := t.handover().Keep(r); err != nil {
		return err
	}
	t.loop.excluder.resume(t.loop.standby.Role() == standby.Follows)
	if t.loop.standby.Role() == standby.TakesOver {
		return nil
	}
	if t.state.Now().Epoch != nil {
		t.loop.nowReady()
	}
	if r.Fabric == nil || t.state.Now().Baseline == nil {
		return nil
	}
	f, err := r.CheckedFabric()
	if err != nil {
		return err
	}
	v, err := t.loop.view(t.loop.observe(ctx, linkstate.Shown{Fabric: f, Swept: true, Seen: time.Now()}))
	if err != nil {
		return errors.Join(errors.New("its fabric cannot be used"), err)
	}
	own := t.loop.own
	t.loop.show(ctx, v, true)
	t.loop.own = own
	return nil
}

// forgetTables forgets the contents of the switches if another forsd controls them.
func (t turn) forgetTables() {
	if t.state.Now().Standby {
		t.desk.Tell(delivery.Forget{})
	}
}
