package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// This file makes the plan follow the health of the cables.

// counters returns a reader of the counters at the cables' ends. It reads while this
// forsd leads or watches.
func (d *Daemon) counters() *cables.Reader {
	fabric := func() *topology.Fabric {
		if v := d.state.Now().Latest; v != nil {
			return v.Fabric
		}
		return nil
	}
	r := cables.NewReader(string(d.cfg.OpenSM.Umad), fabric)
	r.Every, r.Log = d.cfg.Cables.Every, d.log
	r.Want = func() []cables.Switch {
		if d.state.Now().Standby && !d.cfg.Watches() {
			return nil
		}
		v := d.state.Now().Latest
		if v == nil {
			return nil
		}
		return cables.Want(v.Tree)
	}
	r.Told = func(ctx context.Context, round cables.Round) {
		// A round is lost only if the daemon is shutting down.
		_ = d.inbox.call(ctx, func(_ context.Context, l *loop) { l.excluder.read(round) })
	}
	return r
}

// seen shows a fabric to the tracker of the cables' health, and returns the lanes that decisions
// withhold there.
func (x *excluder) seen(v *view.View) []controller.Lane {
	if x.cfg.Cables.Mode != cablehealth.Off {
		x.cables.Seen(time.Now(), v.Tree)
	}
	if v.Tree == nil {
		return nil
	}
	if list := x.drains.List(); len(list) > 0 { // a drained spine's cables to new leaves are included
		x.excluded.Replace(exclusions.Drained, exclusions.DrainedCables(exclusions.Links(v.Tree), list))
	}
	return x.excluded.Lanes(v.Tree, exclusions.Any)
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
func (x *excluder) read(round cables.Round) {
	if x.loop.core.Standby() && !x.cfg.Watches() {
		return
	}
	now := time.Now()
	x.unrest.goesOn(now, false)
	round.Forget(x.unrest.from.Add(-unnoticed), x.unrest.until)
	if x.unrest.open {
		x.unrest.from = now
	} else {
		x.unrest = unrest{}
	}
	v := x.state.Now().Latest
	var plan *phasetable.View
	if e := x.state.Now().Epoch; e != nil && v.TwoLevels() != nil {
		plan = e.Plan
	}
	x.cables.Traffic(v.TwoLevels(), plan, round)
	drained := func(c ib.End) bool { return x.excluded.Has(exclusions.Drained, c) }
	x.carryOut(x.cables.Round(time.Now(), round, drained))
}

// carryOut schedules decisions about cables for the next turn.
func (x *excluder) carryOut(o cables.Orders) {
	x.loop.waiting = append(x.loop.waiting, func(ctx context.Context, t turn) { t.carryOut(ctx, o) })
}

// carryOut stores decisions about cables and carries them out.
func (t turn) carryOut(ctx context.Context, o cables.Orders) {
	if t.mayLead() == nil {
		t.store.NotStored(t.store.Decide(cableDecisions, t.cables.Keep(time.Now())))
	}
	if o.Withhold {
		t.loop.excluder.withhold(ctx, exclusions.Isolated, o.Cables, o.Text)
	}
	if o.Weigh != nil {
		t.loop.excluder.weigh(ctx, *o.Weigh)
	}
}

// weigh determines the cost of isolating a cable, concurrently with the loop.
func (x *excluder) weigh(ctx context.Context, c ib.End) {
	v := x.state.Now().Latest
	lane, others, isolated := x.weighing(v, c)
	x.work.Go(func() {
		cost := cables.Cost{Refuse: "the fabric does not have it any more"}
		if lane != nil {
			cost = x.costs.Of(ctx, v, *lane, others, isolated)
		}
		// The cost is lost only if the daemon is shutting down.
		_ = x.inbox.call(ctx, func(_ context.Context, _ *loop) { x.carryOut(x.cables.Weighed(time.Now(), c, cost)) })
	})
}

// weighing returns the lane of a cable, nil if the fabric does not have it, the lanes
// that are held back for other reasons than isolation, and the isolated lanes.
func (x *excluder) weighing(v *view.View, c ib.End) (lane *controller.Lane, others, isolated []controller.Lane) {
	if v == nil || v.Tree == nil {
		return nil, nil, nil
	}
	for _, cable := range exclusions.Links(v.Tree) {
		if cable.Lower.End == c {
			lane = &cable.Lane
		}
	}
	return lane, slices.Concat(x.loop.core.Bouncing(), x.excluded.Lanes(v.Tree, exclusions.Drained)), x.excluded.Lanes(v.Tree, exclusions.Isolated)
}
