package daemon

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/delivery"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
)

// This file handles OpenSM's plugin. While it is connected, its messages replace the
// dump, and forsd gives it tables when it asks. forsd also writes the files, for sweeps
// that it does not answer.

// question is a request for tables on its way to the loop. The loop answers with the ID
// of the fabric, or the reason why it cannot be used.
type question struct {
	plugin.Request
	reply chan<- named
}

type named struct {
	fabric string
	err    error
}

// tablesAsked answers the plugin. The fabric goes through the loop first. If it is new,
// the plan and the tables are made while the plugin waits.
func (l *loop) tablesAsked(ctx context.Context, q plugin.Request) (*lft.Tables, error) {
	reply := make(chan named, 1)
	select {
	case l.inbox.questions <- question{q, reply}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case n := <-reply:
		if n.err != nil {
			l.desk.Tell(delivery.Missed{})
			return nil, n.err
		}
		return l.desk.Serve(ctx, n.fabric)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tablesWanted handles the fabric for which the plugin requests tables. Only a master
// requests them.
func (l *loop) tablesWanted(ctx context.Context, q question) {
	l.sent = q.Fabric
	l.mastership(ctx, true)
	v, err := l.view(l.observe(ctx, linkstate.Shown{Fabric: plugin.AfterSweep(q.Fabric)}))
	if err != nil {
		q.reply <- named{err: err}
		return
	}
	l.show(ctx, v, false)
	switch {
	case l.core.LossUnconfirmed():
		l.desk.Tell(delivery.Decline{Fabric: v.ID, Why: "most servers are missing from it"})
	case v.Kind == controller.OwnRoutes:
		l.desk.Tell(delivery.Decline{Fabric: v.ID, Why: v.Reason})
	}
	q.reply <- named{fabric: v.ID}
}

// pluginSays handles an event of the plugin.
func (l *loop) pluginSays(ctx context.Context, e plugin.Event) {
	switch e := e.(type) {
	case plugin.Connected:
		l.pluginCame(ctx, e)
	case plugin.Disconnected:
		l.pluginLeft(ctx, e)
	case plugin.Mastership:
		l.manager.SetState(e.State)
		if e.State == plugin.Master || e.State == plugin.Standby { // a discovering manager becomes one of these
			l.mastership(ctx, e.State == plugin.Master)
		}
	case plugin.Trap:
		if e.Number == plugin.TrapLinkState {
			l.observe(ctx, linkstate.Trap{LID: e.LID, At: e.At})
		}
	case plugin.SweepStart:
		l.observe(ctx, linkstate.SweepBegan{At: e.At})
		l.desk.Tell(delivery.SweepStarted{})
	case plugin.Discovered:
		l.fabricSent(ctx, e.Sight, false)
	case plugin.Outcome:
		l.answerUsed(e)
	case plugin.RoutingDone:
		l.desk.Tell(delivery.Routed{})
		l.tablesLoaded(ctx, e)
	case plugin.SubnetUp:
		l.fabricSent(ctx, e.Sight, l.desk.SweepEnded())
	}
}

// pluginCame handles a new connection. From now on the plugin's messages count.
func (l *loop) pluginCame(ctx context.Context, e plugin.Connected) {
	l.desk.Tell(delivery.Connected{})
	l.manager.PluginCame(e)
	l.observe(ctx, linkstate.SweepsUntold{})
	l.work.Go(func() { l.manager.Look(ctx) })
}

// pluginLeft handles the end of a connection. From now on the files are used. Work under
// way is checked when OpenSM dumps.
func (l *loop) pluginLeft(ctx context.Context, e plugin.Disconnected) {
	l.desk.Tell(delivery.Disconnected{})
	l.manager.PluginLeft(e)
	l.observe(ctx, linkstate.SweepsUntold{})
	l.health.Clear(pluginUnused)
	l.work.Go(func() { l.manager.Look(ctx) })
	if l.peer.Exists() {
		l.mastership(ctx, false) // the other manager may take over
	}
	l.step(ctx, controller.TablesDoubted{})
}

// fabricSent handles the fabric in OpenSM's memory, at the end of discovery or of the
// sweep. New hosts get their LIDs in between, and cannot be used before.
func (l *loop) fabricSent(ctx context.Context, s plugin.Sight, swept bool) {
	err := s.Err
	var v *view.View
	if err == nil {
		f := s.Fabric
		if l.sent = f; l.standby.Master() {
			l.mastership(ctx, true)
		}
		if !swept {
			f = plugin.AfterSweep(f)
		}
		v, err = l.view(l.observe(ctx, linkstate.Shown{Fabric: f, Swept: swept}))
	}
	switch {
	case err == nil:
		l.show(ctx, v, swept)
	case swept:
		l.step(ctx, controller.Refused{Reason: err.Error()})
	default:
		l.log.Debug("the fabric at the end of discovery cannot be used", zap.Error(err))
	}
}

// answerUsed records whether an answer was used.
func (l *loop) answerUsed(e plugin.Outcome) {
	if e.Result == plugin.Installed {
		return
	}
	l.desk.Tell(delivery.Missed{})
	if e.Result == plugin.Declined && l.state.Now().OwnRoutes() {
		l.health.Clear(pluginUnused) // OpenSM makes its own tables this way
		return
	}
	text := map[plugin.Result]string{
		plugin.Late:     fmt.Sprintf("forsd's tables were not there within %v; if this lasts, raise the option deadline of event_plugin_options in opensm.conf", l.manager.Deadline()),
		plugin.Declined: "forsd had no tables for the fabric as it is",
		plugin.Wrong:    "forsd's tables do not fit the fabric in OpenSM's memory: " + e.Text,
	}[e.Result]
	l.health.Raise(pluginUnused, text+"; the plugin mends the tables that it has instead, and OpenSM is told to sweep again where that is not enough", time.Now())
}

// tablesLoaded records how a sweep was routed.
func (l *loop) tablesLoaded(ctx context.Context, e plugin.RoutingDone) {
	switch {
	case e.Own || l.state.Now().OwnRoutes():
		l.health.Clear(pluginUnused)
		l.health.Clear(opensm.EngineFallback)
	case e.Engine == opensm.PluginEngine: // the plugin has mended the tables that it held
		l.step(ctx, controller.TablesDoubted{})
	case e.Engine != opensm.FileEngine && e.Engine != "":
		l.health.Raise(opensm.EngineFallback, fmt.Sprintf("OpenSM has made tables by its engine %q", e.Engine), time.Now())
		l.step(ctx, controller.TablesDoubted{})
	}
}
