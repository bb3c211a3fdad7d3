package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/portcounters"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/withheld"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// This file makes the plan follow the health of the cables.

// care is the loop when it follows the health of the cables.
type care struct{ *loop }

// cableDecisions is the name under which decisions about cables are kept.
const cableDecisions = "cables"

// counters returns a reader of the counters at the cables' ends. It reads while this
// forsd leads or watches.
func (d *Daemon) counters() *portcounters.Reader {
	fabric := func() *topology.Fabric {
		if v := d.board.Latest(); v != nil {
			return v.Fabric
		}
		return nil
	}
	r := portcounters.New(string(d.cfg.OpenSM.Umad), fabric)
	r.Every, r.Log = d.cfg.Cables.Every, d.log
	r.Want = func() []portcounters.Switch {
		if d.board.StandsBy() && !d.watches() {
			return nil
		}
		v := d.board.Latest()
		if v == nil {
			return nil
		}
		return cables.Want(v.Tree)
	}
	r.Told = func(ctx context.Context, round portcounters.Round) {
		// A round is lost only if the daemon is shutting down.
		_ = d.call(ctx, func(_ context.Context, l *loop) { care{l}.read(round) })
	}
	return r
}

// seen shows the cables of a fabric to the room that follows their health.
func (l care) seen(v *view.View) {
	if l.cfg.Cables.Mode != cablehealth.Off {
		l.cables.Seen(time.Now(), v.Tree)
	}
}

// unrest is the time during which the plan and the tables did not fit the fabric after a
// change. Counters are read by LID, over the tables in the switches. While these do not
// fit the cables, and while LIDs move, another switch may answer.
type unrest struct {
	from, until time.Time
	open        bool // it has not ended
}

// unnoticed is how long a change of the fabric may go unnoticed, except for lost traps.
const unnoticed = time.Second

// begins records that the fabric has changed.
func (u *unrest) begins(now time.Time) {
	if u.from.IsZero() {
		u.from = now
	}
	u.until, u.open = now, true
}

// goesOn records the time, and whether the plan and the tables fit the fabric again.
func (u *unrest) goesOn(now time.Time, idle bool) {
	if u.open {
		u.until, u.open = now, !idle
	}
}

// read handles a round of counters, except readings made during a change.
func (l care) read(round portcounters.Round) {
	if l.core.Standby() && !l.watches() {
		return
	}
	now := time.Now()
	l.unrest.goesOn(now, false)
	round.Forget(l.unrest.from.Add(-unnoticed), l.unrest.until)
	if l.unrest.open {
		l.unrest.from = now
	} else {
		l.unrest = unrest{}
	}
	v := l.board.Latest()
	var plan *phasetable.View
	if e := l.board.Current(); e != nil && v.TwoLevels() != nil {
		plan = e.Plan
	}
	l.cables.Traffic(v.TwoLevels(), plan, round)
	drained := func(c withheld.Cable) bool { return l.book.Has(withheld.Drained, c) }
	l.carryOut(l.cables.Round(time.Now(), round, drained))
}

// carryOut schedules decisions about cables for the next turn.
func (l care) carryOut(o cables.Orders) {
	l.waiting = append(l.waiting, func(ctx context.Context, t turn) { t.carryOut(ctx, o) })
}

// carryOut stores decisions about cables and carries them out.
func (t turn) carryOut(ctx context.Context, o cables.Orders) {
	if t.MayLead() == nil {
		t.keepCables()
	}
	if o.Withhold {
		t.withhold(ctx, withheld.Isolated, o.Cables, o.Text)
	}
	if o.Weigh != nil {
		care(t).weigh(ctx, *o.Weigh)
	}
}

// keepCables stores the decisions about cables.
func (t turn) keepCables() {
	var what any
	if kept := t.cables.Keep(time.Now()); kept != nil {
		what = kept
	}
	t.store.NotStored(t.store.Decide(cableDecisions, what))
}

// weigh determines the cost of isolating a cable, concurrently with the loop.
func (l care) weigh(ctx context.Context, c withheld.Cable) {
	v := l.board.Latest()
	lane, others, isolated := l.weighing(v, c)
	l.work.Go(func() {
		cost := cables.Cost{Refuse: "the fabric does not have it any more"}
		if lane != nil {
			cost = l.costs.Of(ctx, v, *lane, others, isolated)
		}
		// The cost is lost only if the daemon is shutting down.
		_ = l.call(ctx, func(_ context.Context, l *loop) { care{l}.carryOut(l.cables.Weighed(time.Now(), c, cost)) })
	})
}

// weighing returns the lane of a cable, nil if the fabric does not have it, the lanes
// that are held back for other reasons than isolation, and the isolated lanes.
func (l care) weighing(v *view.View, c withheld.Cable) (lane *controller.Lane, others, isolated []controller.Lane) {
	if v == nil || v.Tree == nil {
		return nil, nil, nil
	}
	for _, x := range withheld.Links(v.Tree) {
		if x.Cable == c {
			lane = &x.Lane
		}
	}
	return lane, slices.Concat(l.core.Bouncing(), l.book.Lanes(v.Tree, withheld.Drained)), l.book.Lanes(v.Tree, withheld.Isolated)
}

// release puts an isolated cable on probation. The decision is stored when it returns.
func (t turn) release(ctx context.Context, name string) error {
	o, err := t.cables.Release(time.Now(), name)
	if err == nil {
		t.carryOut(ctx, o)
	}
	return err
}

// resume resumes from the decisions of this forsd or of the other one.
func (l care) resume() {
	var kept cables.Kept
	if err := l.store.Decision(cableDecisions, &kept); err != nil {
		l.health.Raise(stateDamaged, err.Error(), time.Now())
	}
	l.cables.Resume(time.Now(), kept)
	l.book.Set(withheld.Isolated, l.cables.Withheld())
}
