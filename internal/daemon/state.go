package daemon

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
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
	v, err := l.view(l.observe(ctx, linkstate.Shown{Fabric: s.Fabric, Swept: s.Swept, Seen: s.SeenAt}))
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
		l.excluder.unrest.begins(time.Now())
	}
	l.state.Remember(v)
	snapshot := *v.Snapshot()
	snapshot.Lost = v.Lost(l.state.Now().Epoch, l.state.Now().Baseline)
	snapshot.Withheld = l.excluder.seen(v)
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
	l.health.Set("fabric", exclusions.WithoutDrained(v.Tree, l.excluder.drains.List(), v.Findings()), time.Now())
}

// showAgain shows the controller the last fabric after a decision about it.
func (l *loop) showAgain(ctx context.Context, v *view.View) {
	own := l.own
	l.show(ctx, v, false)
	l.own = own
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
	if v = l.excluder.without(v); l.state.Now().Epoch != nil && !l.core.Standby() { // at a start there is time
		v = v.After(l.state.Now().Latest, func(t *topology.FatTree) []controller.Lane { return l.excluder.excluded.Lanes(t, exclusions.Any) })
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
				_ = l.inbox.between(ctx, func(ctx context.Context, t turn) { t.improve(ctx, v, better) })
			}
		})
	}
	l.excluder.changed = true
	if a.Planless || was.Epoch != nil && was.Epoch.Report.UnreachablePairs > 0 {
		if len(l.cables.Withheld()) > 0 { // they are looked at again: they may be needed
			l.excluder.carryOut(l.cables.Short(time.Now()))
		}
	}
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
	if t.loop.weighed = v.ID; better != nil && t.state.Now().Latest.ID == v.ID && !t.state.Now().Standby {
		t.loop.showAgain(ctx, better)
	}
}

// nowReady records that a verified plan is in force.
func (l *loop) nowReady() {
	if l.state.GetReady() {
		l.log.Info("ready", zap.Uint64("epoch", l.state.Now().EpochNumber()))
	}
}
