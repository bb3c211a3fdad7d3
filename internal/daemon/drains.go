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
	"github.com/forsd/forsd/internal/drains"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/withheld"
)

// This file carries out the decisions of internal/drains: it makes the fabric's view and
// the controller follow, looks for remaining uses of a part, and stores the drains.

// drainsDecided is the key of the drains in the store.
const drainsDecided = "drains"

// drainLook is how often the uses of draining parts are examined, in addition to when a
// change has settled.
const drainLook = 2 * time.Second

// upkeep is the loop when it handles drains.
type upkeep struct{ *loop }

// resume resumes from the stored drains, or from those that the other forsd has handed
// over.
func (l upkeep) resume() error {
	var stored []drains.Drain
	err := l.store.Decision(drainsDecided, &stored)
	if err == nil {
		l.drains.Step(time.Now(), drains.Load{Drains: stored}) // the next view follows the drains
		if len(stored) == 0 {
			l.book.Set(withheld.Drained, nil)
		}
	}
	l.show()
	return err
}

// stepDrains passes an event to the machine and carries out the actions.
func (t turn) stepDrains(ctx context.Context, e drains.Event) {
	keep, look, follow := false, false, []string(nil)
	for _, a := range t.drains.Step(time.Now(), e) {
		switch a := a.(type) {
		case drains.Keep:
			keep = true
		case drains.Follow:
			keep, follow = true, append(follow, a.Why)
		case drains.Look:
			look = true
		case drains.Tell:
			t.log.Info("drain "+a.What, zap.String("part", a.Drain.Name), zap.String("reason", a.Drain.Reason), zap.Strings("uses", a.Drain.Uses))
			t.board.Say(api.KindDrain, api.DrainEvent{What: a.What, Drain: a.Drain.Shown()})
		}
	}
	upkeep(t).show()
	if keep {
		t.keepDrains()
	}
	if follow != nil { // this may begin an action, so it comes last
		t.followDrains(ctx, strings.Join(follow, "; "))
	}
	if look {
		t.lookAtDrains(ctx)
	}
}

// keepDrains stores the drains.
func (t turn) keepDrains() {
	var what any
	if list := t.drains.List(); len(list) > 0 {
		what = list
	}
	if err := t.store.Decide(drainsDecided, what); err != nil {
		t.log.Error("drains are not stored", zap.Error(err))
	}
}

// show publishes the drains.
func (l upkeep) show() {
	list := l.drains.List()
	l.drained.Store(&list)
	var texts []string
	for i := range list {
		if d := &list[i]; d.Active() {
			texts = append(texts, d.Text())
		}
	}
	if len(texts) == 0 {
		l.health.Clear(drains.Drained)
		return
	}
	l.health.Raise(drains.Drained, strings.Join(texts, "; "), time.Now())
}

// followDrains makes the plan and the tables follow the drains. Hosts of drained leaves
// leave the view, and cables are withheld.
func (t turn) followDrains(ctx context.Context, why string) {
	seen := t.board.Latest()
	if seen == nil || seen.Tree == nil {
		return
	}
	next, err := t.fit(seen.Fabric)
	if err != nil {
		t.log.Warn("the fabric with what is drained cannot be used", zap.Error(err))
		return
	}
	cables := drains.Cables(next.Tree, t.drains.List())
	if next.ID == seen.ID {
		t.withhold(ctx, withheld.Drained, cables, why)
		return
	}
	t.book.Set(withheld.Drained, cables)
	next.SeenAt, next.Complete, next.Why = time.Now(), seen.Complete, why
	t.showAgain(ctx, next)
}

// lookAtDrains determines the uses of drained parts, concurrently with the loop. During a
// change they are unknown, and are determined after it.
func (t turn) lookAtDrains(ctx context.Context) {
	v, e, on := t.board.Latest(), t.board.Current(), t.desk.Possible()
	match, _ := t.desk.Match()
	if v == nil || v.Tree == nil || e == nil || !match || slices.Contains(on, nil) || t.core.State() != controller.Idle {
		return
	}
	plans, list, held := upkeep(t).plans(), t.drains.List(), t.core.Held()
	t.work.Go(func() {
		uses := drains.Uses(v.Tree, on, plans, list)
		err := t.between(ctx, func(ctx context.Context, t turn) {
			if t.board.Latest().ID == v.ID && t.board.Current() == e && slices.Equal(t.desk.Possible(), on) && slices.Equal(t.core.Held(), held) && t.core.State() == controller.Idle {
				t.stepDrains(ctx, drains.Looked{Uses: uses})
			}
		})
		if err != nil && ctx.Err() == nil {
			t.log.Debug("what uses drained parts", zap.Error(err))
		}
	})
}

// plans lists all plans by which programs may communicate now.
func (l upkeep) plans() []drains.Plan {
	out := []drains.Plan{{Name: "the plan", View: l.board.Current().Plan}}
	if base, _ := l.board.BasePlan(); base != nil && l.board.BaseLIDs() != nil {
		out = append(out, drains.Plan{Name: "the plan for base LIDs", View: base})
	}
	for _, j := range l.jobs.List() {
		out = append(out, drains.Plan{Name: j.Label(), View: j.Plan, Members: j.Guids()})
		if j.Base != nil && j.Bases.Current() != nil {
			out = append(out, drains.Plan{Name: "the plan of " + j.Label() + " for base LIDs", View: j.Base, Members: []ib.GUID{}})
		}
	}
	return out
}

// due returns when a drain needs attention; zero means never.
func (l upkeep) due() time.Time {
	if l.board.StandsBy() {
		return time.Time{} // the leading daemon handles them
	}
	return l.drains.Wake()
}

// dueDrains does the work on drains that is due.
func (t turn) dueDrains(ctx context.Context, now time.Time) {
	due := upkeep(t).due()
	switch {
	case t.board.StandsBy():
	case t.changed:
		t.changed = false
		t.stepDrains(ctx, drains.Settled{})
	case !due.IsZero() && !now.Before(due):
		t.stepDrains(ctx, drains.Tick{})
	}
}

// without returns a view without the drained parts, and with the present jobs.
func (l upkeep) without(v *view.View) *view.View {
	return v.Without(drains.Leaves(l.drains.List())).WithJobs(l.jobs.Planning())
}

// Drain drains parts or gives them back.
func (c commands) Drain(ctx context.Context, all ...drains.Event) (err error) {
	cerr := c.between(ctx, func(ctx context.Context, t turn) {
		if err = t.MayLead(); err == nil {
			for _, e := range all {
				t.stepDrains(ctx, e)
			}
		}
	})
	return errors.Join(cerr, err)
}
