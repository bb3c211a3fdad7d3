package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/standby/replica"
)

// turn is the loop between two actions: nothing that the controller asked for is under
// way. Only in a turn, or as an action, are plans, tables, numbers and the store changed.
type turn struct{ *loop }

// atRest returns the loop's turn, where no action is under way.
func (l *loop) atRest() (t turn, rests bool) { return turn{l}, !l.core.Busy() }

// giveTurns does what is to be done between two actions.
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

// routine does what is due: leases end, the other forsd is asked, what is not stored is
// stored.
func (t turn) routine(ctx context.Context, now time.Time) {
	if due := t.jobs.LeaseDue(); !due.IsZero() && !now.Before(due) {
		t.jobs.EndLeases(now)
	}
	if due := t.standby.Wake(); !due.IsZero() && !now.Before(due) {
		t.stand(ctx, standby.Tick{})
	}
	t.dueDrains(ctx, now)
	t.store.Restore(now)
	t.followJobs(ctx)
}

// followJobs has tables follow jobs whose base LIDs are routed: with other such jobs the
// fabric is another one to plan.
func (t turn) followJobs(ctx context.Context) {
	v := t.board.Latest()
	if v == nil || !t.jobs.Changed() {
		return
	}
	if next := v.WithJobs(t.jobs.Planning()); next.ID != v.ID {
		next.Why = "base LIDs of jobs take other lanes"
		t.showAgain(ctx, next)
	}
}

// stand gives the machine an event and carries out all that it answers.
func (t turn) stand(ctx context.Context, e standby.Event) {
	if t.stepStandby(ctx, e) {
		t.stand(ctx, standby.Adopted{Err: controller.Text(t.adopt(ctx))})
	}
}

// peerSays takes in an answer of the other forsd.
func (t turn) peerSays(ctx context.Context, serial uint64, r *replica.Replica, err error) {
	t.said = r
	own := standby.Numbers{Last: t.store.Last(), Epoch: t.board.EpochNumber()}
	t.stand(ctx, standby.Answered{Serial: serial, Word: r.Word(), Own: own, Err: controller.Text(err)})
}

// state returns the state that one forsd hands the other.
func (t turn) state() *replica.State {
	return &replica.State{Board: t.board, Store: t.store, Jobs: t.jobs, KeepEpochs: t.cfg.KeepEpochs}
}

// adopt takes over what the other forsd has said. A follower plans its fabric ahead. A
// daemon that takes over plans when its own manager has found the fabric, and not before.
func (t turn) adopt(ctx context.Context) error {
	r := t.said
	if own := t.store.Decisions(); t.standby.Role() == standby.TakesOver && r.Last <= t.store.Last() && r.Decisions.Serial() < own.Serial() {
		later := *r // the other one has not led since this one decided the rest
		later.Decisions = own
		r = &later
	}
	if err := t.state().Keep(r); err != nil {
		return err
	}
	care(t).resume()
	if err := upkeep(t).resume(); err != nil {
		return err
	}
	if t.standby.Role() == standby.TakesOver {
		return nil
	}
	if t.board.Current() != nil {
		t.nowReady()
	}
	if r.Fabric == nil || t.board.Baseline() == nil {
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

// forgetTables forgets what the switches held, where that is another's business.
func (t turn) forgetTables() {
	if t.board.StandsBy() {
		t.desk.Forget()
	}
}
