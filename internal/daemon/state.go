package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/topology"
)

// dumpSeen handles a dump of the manager. While the plugin is connected, it has already
// reported the fabric.
func (l *loop) dumpSeen(ctx context.Context, s opensm.Snapshot) {
	if l.manager.PluginConnected() || l.peer.Exists() { // with a peer, only the plugin reports which manager is the master
		return
	}
	if l.core.Standby() { // only a master writes dumps
		l.mastership(ctx, true)
	}
	v, err := l.believed(ctx, linkstate.Shown{Fabric: s.Fabric, Swept: s.Swept, Seen: s.SeenAt})
	if err != nil {
		l.step(ctx, controller.Refused{Reason: err.Error()})
		return
	}
	v.Complete = s.CompleteAt
	l.show(ctx, v, s.Swept)
}

// show shows a view to the controller, at the end of a sweep or before.
func (l *loop) show(ctx context.Context, v *view.View, swept bool) {
	l.own = v
	if last := l.state.Now().Latest; last == nil || last.ID != v.ID {
		l.unrest.begins(time.Now())
	}
	l.state.Remember(v)
	snapshot := *v.Snapshot()
	snapshot.Lost = v.Lost(l.state.Now().Epoch, l.state.Now().Baseline)
	excluder{l}.seen(v)
	if tree := v.Tree; tree != nil {
		if list := l.drains.List(); len(list) > 0 { // a drained spine's cables to new leaves are included
			l.excluded.Replace(exclusions.Drained, exclusions.DrainedCables(exclusions.Links(tree), list))
		}
		snapshot.Withheld = l.excluded.Lanes(tree, exclusions.Any)
	}
	if swept {
		l.step(ctx, controller.Seen{Snapshot: snapshot})
	} else {
		l.step(ctx, controller.Found{Snapshot: snapshot})
	}
	if l.core.Superseded() {
		l.giveUp() // the new fabric must not wait for switches that may not answer, or for a plan of the old one
	}
	if v.Tree != nil && !l.core.LossUnconfirmed() {
		l.state.Adopt(v.Tree.Baseline) // so that the next new part does not get the index of this one
	}
	l.health.Set("fabric", exclusions.WithoutDrained(v.Tree, l.drains.List(), v.Findings()), time.Now())
}

// withhold makes the plan and the tables follow a decision about cables, which replaces the
// previous one for the same cause. text describes the decision.
func (l *loop) withhold(ctx context.Context, cause exclusions.Cause, cables []ib.End, text string) {
	v := l.state.Now().Latest
	before := excluder{l}.inUse(v)
	l.excluded.Replace(cause, cables)
	if v == nil {
		return
	}
	if !slices.Equal(excluder{l}.inUse(v), before) {
		l.state.Decided(v, text)
	}
	again := *v
	l.showAgain(ctx, &again)
}

// inUse lists the lanes of a fabric that are withheld and would be in use otherwise.
func (l excluder) inUse(v *view.View) []controller.Lane {
	if v == nil || v.Tree == nil {
		return nil
	}
	bouncing := l.core.Bouncing()
	return slices.DeleteFunc(l.excluded.Lanes(v.Tree, exclusions.Any), func(x controller.Lane) bool { return slices.Contains(v.Down, x) || slices.Contains(bouncing, x) })
}

// showAgain shows the controller the last fabric after a decision about it.
func (l *loop) showAgain(ctx context.Context, v *view.View) {
	own := l.own
	l.show(ctx, v, false)
	l.own = own
}

// heldCables names the cables that are held back.
func (l *loop) heldCables() string {
	var names []string
	for _, c := range l.state.Now().Latest.Cables(l.core.Bouncing()) {
		names = append(names, fmt.Sprintf("%s port %d – %s", c.Lower.Name, c.Lower.Port, c.Upper.Name))
	}
	return "these cables keep bouncing and are not used for now: " + strings.Join(names, ", ")
}

// fit returns the view of a fabric through the baseline in force, or a new one while there
// is none.
func (l *loop) fit(f *topology.Fabric) (*view.View, error) {
	return l.fitBy(f, &l.settings.Now().Planning)
}

// fitBy is fit with other settings than those in force.
func (l *loop) fitBy(f *topology.Fabric, by *config.Planning) (*view.View, error) {
	v, err := view.Fit(topology.Named(f, l.manager.NodeNames()), l.state.Now().Baseline, by, l.state.Now().Epoch == nil)
	if err != nil {
		return nil, err
	}
	if v = (excluder{l}).without(v); l.state.Now().Epoch != nil && !l.core.Standby() { // at a start there is time
		v = v.After(l.state.Now().Latest, func(t *topology.FatTree) []controller.Lane { return l.excluded.Lanes(t, exclusions.Any) })
	}
	return v, nil
}

// settled records that the plan and tables in force fit the fabric.
func (l *loop) settled(ctx context.Context, a controller.Settled) {
	if match, _ := l.desk.Match(); match {
		l.actions.markRead(view.Of(a.Fabric), time.Now()) // tables that had not changed are not read back
	}
	was := l.state.Settled()
	marks := was.Change
	if was.Epoch != nil && !a.Planless {
		l.notify(fmt.Sprintf("STATUS=epoch %d is in force", l.state.Now().EpochNumber()))
	}
	if v, held := was.Latest, was.Held; v != nil && v.Tree != nil {
		l.work.Go(func() {
			better := l.actions.plans.PrepareAhead(ctx, v, held)
			if v.AtOnce {
				_ = l.between(ctx, func(ctx context.Context, t turn) { t.improve(ctx, v, better) })
			}
		})
	}
	l.changed = true
	if marks.Settled {
		l.log.Info("settled again", zap.String("fabric", a.Fabric.ID), zap.Uint64("epoch", l.state.Now().EpochNumber()))
		return
	}
	l.backend.Metrics.Observe(marks)
	l.log.Info("settled", zap.String("fabric", a.Fabric.ID), zap.Uint64("epoch", l.state.Now().EpochNumber()), zap.Strings("what", marks.What),
		zap.Duration("to_plan", marks.Since(marks.Verified)), zap.Duration("to_publish", marks.Since(marks.Published)),
		zap.Duration("to_tables", marks.Since(marks.ReadBack)))
}

// improve changes to a better plan if one was found and nothing has changed.
func (t turn) improve(ctx context.Context, v, better *view.View) {
	if t.weighed = v.ID; better != nil && t.state.Now().Latest.ID == v.ID && !t.state.Now().Standby {
		t.showAgain(ctx, better)
	}
}

// nowReady records that a verified plan is in force.
func (l *loop) nowReady() {
	if l.state.GetReady() {
		l.log.Info("ready", zap.Uint64("epoch", l.state.Now().EpochNumber()))
	}
}
