package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
)

// This file carries out the decisions of internal/exclusions about drains: it makes the fabric's
// view and the controller follow, looks for remaining uses of a part, and stores the drains.

// The names of the decisions in the store.
const (
	cableDecisions = "cables"
	drainsDecided  = "drains"
)

// drainLook is how often the uses of draining parts are examined, in addition to when a
// change has settled.
const drainLook = 2 * time.Second

// excluder keeps bad cables and drained parts out of the plan. Only the loop's goroutine may use
// it.
type excluder struct {
	*components
	loop     *loop
	excluded exclusions.Set // cables withheld from the plan by decisions
	costs    cables.Costs   // of isolating cables
	drains   *exclusions.Drains
	changed  bool   // a change has settled since the drains were last examined
	unrest   unrest // since the last round of counters
}

// resume resumes from the decisions of this forsd or of the other one, which leads if led is set.
func (x *excluder) resume(led bool) {
	var kept cables.Kept
	var stored []exclusions.Drain
	noCables, noDrains := x.store.Decision(cableDecisions, &kept), x.store.Decision(drainsDecided, &stored)
	if err := errors.Join(noCables, noDrains); err != nil {
		x.health.Raise(stateDamaged, err.Error(), time.Now())
	}
	x.cables.Resume(time.Now(), kept)
	x.excluded.Replace(exclusions.Isolated, x.cables.Withheld())
	if noDrains == nil {
		x.drains.Step(time.Now(), exclusions.Load{Drains: stored, Led: led}) // the next view follows the drains
		if len(stored) == 0 {
			x.excluded.Replace(exclusions.Drained, nil)
		}
	}
	x.showDrains()
}

// stepDrains passes an event to the machine and carries out the actions.
func (t turn) stepDrains(ctx context.Context, e exclusions.Event) {
	t.obeyDrains(ctx, t.loop.excluder.drains.Step(time.Now(), e))
}

// obeyDrains carries out actions of the machine.
func (t turn) obeyDrains(ctx context.Context, actions []exclusions.Action) {
	keep, look, follow := false, false, []string(nil)
	for _, a := range actions {
		switch a := a.(type) {
		case exclusions.Keep:
			keep = true
		case exclusions.Follow:
			keep, follow = true, append(follow, a.Why)
		case exclusions.Look:
			look = true
		case exclusions.Tell:
			t.log.Info("drain "+a.What, zap.String("part", a.Drain.Name), zap.String("reason", a.Drain.Reason), zap.Strings("uses", a.Drain.Uses))
			t.state.Emit(api.KindDrain, api.DrainEvent{What: a.What, Drain: a.Drain.APIView()})
		}
	}
	t.loop.excluder.showDrains()
	if keep {
		t.store.NotStored(t.store.Decide(drainsDecided, t.loop.excluder.drains.List()))
	}
	if follow != nil { // this may begin an action, so it comes last
		t.followDrains(ctx, strings.Join(follow, "; "))
	}
	if look {
		t.lookAtDrains(ctx)
	}
}

// showDrains publishes the drains.
func (x *excluder) showDrains() {
	list := x.drains.List()
	x.state.ShowDrains(list)
	var texts []string
	for i := range list {
		if d := &list[i]; d.Active() {
			texts = append(texts, d.Text())
		}
	}
	if len(texts) == 0 {
		x.health.Clear(exclusions.DrainedWarning)
		return
	}
	x.health.Raise(exclusions.DrainedWarning, strings.Join(texts, "; "), time.Now())
}

// followDrains makes the plan and the tables follow the drains. Hosts of drained leaves
// leave the view, and cables are withheld.
func (t turn) followDrains(ctx context.Context, why string) {
	seen := t.state.Now().Latest
	if seen == nil || seen.Tree == nil {
		return
	}
	next, err := t.loop.fit(seen.Fabric)
	if err != nil {
		t.log.Warn("the fabric with what is drained cannot be used", zap.Error(err))
		return
	}
	drained := exclusions.DrainedCables(exclusions.Links(next.Tree), t.loop.excluder.drains.List())
	if next.ID == seen.ID {
		t.loop.excluder.withhold(ctx, exclusions.Drained, drained, why)
		return
	}
	t.loop.excluder.excluded.Replace(exclusions.Drained, drained)
	next.SeenAt, next.Complete, next.Why = time.Now(), seen.Complete, why
	t.loop.showAgain(ctx, next)
}

// lookAtDrains determines the uses of drained parts, concurrently with the loop. During a
// change they are unknown, and are determined after it.
func (t turn) lookAtDrains(ctx context.Context) {
	now, on := t.state.Now(), t.desk.Possible()
	v, e := now.Latest, now.Epoch
	match, _ := t.desk.Match()
	if v == nil || v.Tree == nil || e == nil || !match || slices.Contains(on, nil) || t.loop.core.State() != controller.Idle {
		return
	}
	plans, list, held := t.loop.excluder.plans(), t.loop.excluder.drains.List(), t.loop.core.Held()
	t.work.Go(func() {
		uses := exclusions.Uses(v.Tree, on, plans, list)
		err := t.inbox.between(ctx, func(ctx context.Context, t turn) {
			if now := t.state.Now(); now.Latest.ID == v.ID && now.Epoch == e && slices.Equal(t.desk.Possible(), on) && slices.Equal(t.loop.core.Held(), held) && t.loop.core.State() == controller.Idle {
				t.stepDrains(ctx, exclusions.Looked{Uses: uses})
			}
		})
		if err != nil && ctx.Err() == nil {
			t.log.Debug("what uses drained parts", zap.Error(err))
		}
	})
}

// recall makes drained parts unsafe to pull if tables lead over them that OpenSM is to load, or
// that the switches hold.
func (x *actions) recall(ctx context.Context, v *view.View, tables *lft.Tables) {
	if uses := exclusions.Recalled(v.Tree, tables, x.state.Now().Drains); len(uses) > 0 {
		_ = x.inbox.call(ctx, func(_ context.Context, l *loop) {
			actions := l.excluder.drains.Step(time.Now(), exclusions.Looked{Uses: uses})
			l.excluder.showDrains()
			l.waiting = append(l.waiting, func(ctx context.Context, t turn) { t.obeyDrains(ctx, actions) })
		})
	}
}

// plans lists all plans by which programs may communicate now.
func (x *excluder) plans() []exclusions.Plan {
	now := x.state.Now()
	out := []exclusions.Plan{{Name: "the plan", View: now.Epoch.Plan}}
	if now.Base != nil {
		out = append(out, exclusions.Plan{Name: "the plan for base LIDs", View: now.Base.Plan})
	}
	for _, j := range now.Jobs {
		out = append(out, exclusions.Plan{Name: j.Label(), View: j.Plan, Members: j.Guids()})
		if j.Base != nil && j.Bases.Current() != nil {
			out = append(out, exclusions.Plan{Name: "the plan of " + j.Label() + " for base LIDs", View: j.Base, Members: []ib.GUID{}})
		}
	}
	return out
}

// due returns when a drain needs attention; zero means never.
func (x *excluder) due() time.Time {
	if x.state.Now().Standby {
		return time.Time{} // the leading daemon handles them
	}
	return x.drains.Wake()
}

// dueDrains does the work on drains that is due.
func (t turn) dueDrains(ctx context.Context, now time.Time) {
	due := t.loop.excluder.due()
	switch {
	case t.state.Now().Standby:
	case t.loop.excluder.changed:
		t.loop.excluder.changed = false
		t.stepDrains(ctx, exclusions.Settled{})
	case !due.IsZero() && !now.Before(due):
		t.stepDrains(ctx, exclusions.Tick{})
	}
}

// without returns a view without the drained parts, and with the present jobs.
func (x *excluder) without(v *view.View) *view.View {
	return v.Without(exclusions.DrainedLeaves(x.drains.List())).WithJobs(x.state.Now().Planning())
}

// withhold makes the plan and the tables follow a decision about cables, which replaces the
// previous one for the same cause. text describes the decision.
func (x *excluder) withhold(ctx context.Context, cause exclusions.Cause, cables []ib.End, text string) {
	v := x.state.Now().Latest
	before := x.inUse(v)
	x.excluded.Replace(cause, cables)
	if v == nil {
		return
	}
	if !slices.Equal(x.inUse(v), before) {
		x.state.Decided(v, text)
	}
	again := *v
	x.loop.showAgain(ctx, &again)
}

// inUse lists the lanes of a fabric that are withheld and would be in use otherwise.
func (x *excluder) inUse(v *view.View) []controller.Lane {
	if v == nil || v.Tree == nil {
		return nil
	}
	bouncing := x.loop.core.Bouncing()
	return slices.DeleteFunc(x.excluded.Lanes(v.Tree, exclusions.Any), func(lane controller.Lane) bool {
		return slices.Contains(v.Down, lane) || slices.Contains(bouncing, lane)
	})
}

// heldCables names the cables that are held back.
func (x *excluder) heldCables() string {
	var names []string
	for _, c := range x.state.Now().Latest.Cables(x.loop.core.Bouncing()) {
		names = append(names, fmt.Sprintf("%s port %d – %s", c.Lower.Name, c.Lower.Port, c.Upper.Name))
	}
	return "these cables keep bouncing and are not used for now: " + strings.Join(names, ", ")
}
