package daemon

import (
	"context"
	"errors"
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

// excluder is the loop when it follows what is excluded from the plan: bad cables and drains.
type excluder struct{ *loop }

// resume resumes from the decisions of this forsd or of the other one.
func (l excluder) resume() {
	var kept cables.Kept
	var stored []exclusions.Drain
	noCables, noDrains := l.store.Decision(cableDecisions, &kept), l.store.Decision(drainsDecided, &stored)
	if err := errors.Join(noCables, noDrains); err != nil {
		l.health.Raise(stateDamaged, err.Error(), time.Now())
	}
	l.cables.Resume(time.Now(), kept)
	l.excluded.Replace(exclusions.Isolated, l.cables.Withheld())
	if noDrains == nil {
		l.drains.Step(time.Now(), exclusions.Load{Drains: stored}) // the next view follows the drains
		if len(stored) == 0 {
			l.excluded.Replace(exclusions.Drained, nil)
		}
	}
	l.showDrains()
}

// stepDrains passes an event to the machine and carries out the actions.
func (t turn) stepDrains(ctx context.Context, e exclusions.Event) {
	keep, look, follow := false, false, []string(nil)
	for _, a := range t.drains.Step(time.Now(), e) {
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
	excluder(t).showDrains()
	if keep {
		t.store.NotStored(t.store.Decide(drainsDecided, t.drains.List()))
	}
	if follow != nil { // this may begin an action, so it comes last
		t.followDrains(ctx, strings.Join(follow, "; "))
	}
	if look {
		t.lookAtDrains(ctx)
	}
}

// showDrains publishes the drains.
func (l excluder) showDrains() {
	list := l.drains.List()
	l.state.ShowDrains(list)
	var texts []string
	for i := range list {
		if d := &list[i]; d.Active() {
			texts = append(texts, d.Text())
		}
	}
	if len(texts) == 0 {
		l.health.Clear(exclusions.DrainedWarning)
		return
	}
	l.health.Raise(exclusions.DrainedWarning, strings.Join(texts, "; "), time.Now())
}

// followDrains makes the plan and the tables follow the drains. Hosts of drained leaves
// leave the view, and cables are withheld.
func (t turn) followDrains(ctx context.Context, why string) {
	seen := t.state.Now().Latest
	if seen == nil || seen.Tree == nil {
		return
	}
	next, err := t.fit(seen.Fabric)
	if err != nil {
		t.log.Warn("the fabric with what is drained cannot be used", zap.Error(err))
		return
	}
	drained := exclusions.DrainedCables(exclusions.Links(next.Tree), t.drains.List())
	if next.ID == seen.ID {
		t.withhold(ctx, exclusions.Drained, drained, why)
		return
	}
	t.excluded.Replace(exclusions.Drained, drained)
	next.SeenAt, next.Complete, next.Why = time.Now(), seen.Complete, why
	t.showAgain(ctx, next)
}

// lookAtDrains determines the uses of drained parts, concurrently with the loop. During a
// change they are unknown, and are determined after it.
func (t turn) lookAtDrains(ctx context.Context) {
	now, on := t.state.Now(), t.desk.Possible()
	v, e := now.Latest, now.Epoch
	match, _ := t.desk.Match()
	if v == nil || v.Tree == nil || e == nil || !match || slices.Contains(on, nil) || t.core.State() != controller.Idle {
		return
	}
	plans, list, held := excluder(t).plans(), t.drains.List(), t.core.Held()
	t.work.Go(func() {
		uses := exclusions.Uses(v.Tree, on, plans, list)
		err := t.between(ctx, func(ctx context.Context, t turn) {
			if now := t.state.Now(); now.Latest.ID == v.ID && now.Epoch == e && slices.Equal(t.desk.Possible(), on) && slices.Equal(t.core.Held(), held) && t.core.State() == controller.Idle {
				t.stepDrains(ctx, exclusions.Looked{Uses: uses})
			}
		})
		if err != nil && ctx.Err() == nil {
			t.log.Debug("what uses drained parts", zap.Error(err))
		}
	})
}

// plans lists all plans by which programs may communicate now.
func (l excluder) plans() []exclusions.Plan {
	now := l.state.Now()
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
func (l excluder) due() time.Time {
	if l.state.Now().Standby {
		return time.Time{} // the leading daemon handles them
	}
	return l.drains.Wake()
}

// dueDrains does the work on drains that is due.
func (t turn) dueDrains(ctx context.Context, now time.Time) {
	due := excluder(t).due()
	switch {
	case t.state.Now().Standby:
	case t.changed:
		t.changed = false
		t.stepDrains(ctx, exclusions.Settled{})
	case !due.IsZero() && !now.Before(due):
		t.stepDrains(ctx, exclusions.Tick{})
	}
}

// without returns a view without the drained parts, and with the present jobs.
func (l excluder) without(v *view.View) *view.View {
	return v.Without(exclusions.DrainedLeaves(l.drains.List())).WithJobs(l.state.Now().Planning())
}

// Drain drains parts or gives them back.
func (r *components) Drain(ctx context.Context, all ...exclusions.Event) error {
	return r.try(ctx, func(ctx context.Context, t turn) error {
		if err := t.MayLead(); err != nil {
			return err
		}
		for _, e := range all {
			t.stepDrains(ctx, e)
		}
		return nil
	})
}
