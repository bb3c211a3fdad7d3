package daemon

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
)

// This file is the second way beside OpenSM: its plugin. While it is connected it
// leads: what it tells takes the place of the dump, and tables go to it when it
// asks. The files are written all the same, for a sweep that forsd does not answer.

// asked is a request for tables on its way to the loop, which answers with the ID
// of the fabric, or why it cannot be used.
type asked struct {
	plugin.Request
	reply chan<- named
}

type named struct {
	fabric string
	err    error
}

// eventsAhead is how many events of the plugin the loop may be late by.
const eventsAhead = 256

// tablesAsked answers the plugin. The fabric goes through the loop first: it may be
// news, and then plan and tables are made for it while the plugin waits.
func (d *Daemon) tablesAsked(ctx context.Context, q plugin.Request) (*lft.Tables, error) {
	reply := make(chan named, 1)
	select {
	case d.pluginAsks <- asked{q, reply}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case n := <-reply:
		if n.err != nil {
			d.desk.Missed()
			return nil, n.err
		}
		return d.desk.Serve(ctx, n.fabric)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tablesWanted takes in the fabric that the plugin asks tables for. Only a master
// asks.
func (d *Daemon) tablesWanted(ctx context.Context, q asked) {
	if d.core.Standby() {
		d.stand(ctx, standby.Manager{Master: true})
	}
	v, err := d.sight(ctx, linkstate.Shown{Fabric: plugin.Settled(q.Fabric)})
	if err != nil {
		q.reply <- named{err: err}
		return
	}
	d.take(ctx, v, false)
	switch {
	case d.core.Doubts():
		d.desk.Decline(v.ID, "most servers are missing from it")
	case v.Kind == controller.OwnRoutes:
		d.desk.Decline(v.ID, v.Reason)
	}
	q.reply <- named{fabric: v.ID}
}

// pluginSays takes in an event of the plugin.
func (d *Daemon) pluginSays(ctx context.Context, e plugin.Event) {
	switch e := e.(type) {
	case plugin.Connected:
		d.pluginCame(ctx, e)
	case plugin.Disconnected:
		d.pluginLeft(ctx, e)
	case plugin.Mastership:
		d.mastership(ctx, e.State)
	case plugin.Trap:
		if e.Number == plugin.TrapLinkState {
			d.observe(ctx, linkstate.Trap{LID: e.LID, At: e.At})
		}
	case plugin.SweepStart:
		d.observe(ctx, linkstate.SweepBegan{At: e.At})
		d.desk.SweepStarted()
	case plugin.Discovered:
		d.sighted(ctx, e.Sight, false)
	case plugin.Outcome:
		d.answerUsed(e)
	case plugin.RoutingDone:
		d.desk.Routed()
		d.tablesLoaded(ctx, e)
	case plugin.SubnetUp:
		d.sighted(ctx, e.Sight, d.desk.SweepEnded())
	}
}

// pluginCame begins a connection: from now on the plugin leads.
func (d *Daemon) pluginCame(ctx context.Context, e plugin.Connected) {
	d.desk.PluginCame()
	d.manager.PluginCame(e)
	d.observe(ctx, linkstate.SweepsUntold{})
	d.work.Go(func() { d.manager.Look(ctx) })
}

// pluginLeft ends a connection: from now on the files lead. What was under way is
// looked at again when OpenSM dumps.
func (d *Daemon) pluginLeft(ctx context.Context, e plugin.Disconnected) {
	d.desk.PluginLeft()
	d.manager.PluginLeft(e)
	d.observe(ctx, linkstate.SweepsUntold{})
	d.health.Clear(pluginUnused)
	d.work.Go(func() { d.manager.Look(ctx) })
	if d.peer.is() {
		d.stand(ctx, standby.Manager{}) // the other manager may take over
	}
	d.step(ctx, controller.TablesDoubted{})
}

// mastership takes note of the manager's state. One that is discovering is about to
// become either.
func (d *Daemon) mastership(ctx context.Context, s plugin.State) {
	d.manager.SetState(s)
	switch s {
	case plugin.Master:
		d.stand(ctx, standby.Manager{Master: true})
	case plugin.Standby:
		d.stand(ctx, standby.Manager{})
	}
}

// sighted takes in the fabric in OpenSM's memory, at the end of discovery or of the
// sweep. In between newcomers get their LIDs: what cannot be used before is no
// news.
func (d *Daemon) sighted(ctx context.Context, s plugin.Sight, swept bool) {
	err := s.Err
	var v *view.View
	if err == nil {
		f := s.Fabric
		if !swept {
			f = plugin.Settled(f)
		}
		v, err = d.sight(ctx, linkstate.Shown{Fabric: f, Swept: swept})
	}
	switch {
	case err == nil:
		d.take(ctx, v, swept)
	case swept:
		d.step(ctx, controller.Refused{Reason: err.Error()})
	default:
		d.log.Debug("the fabric at the end of discovery cannot be used", zap.Error(err))
	}
}

// answerUsed takes note of what became of an answer.
func (d *Daemon) answerUsed(e plugin.Outcome) {
	if e.Result == plugin.Installed {
		return
	}
	d.desk.Missed()
	if e.Result == plugin.Declined && d.board.OwnRoutes() {
		d.health.Clear(pluginUnused) // that is how OpenSM comes to make its own
		return
	}
	text := map[plugin.Result]string{
		plugin.Late:     fmt.Sprintf("forsd's tables were not there within %v; if this lasts, raise the option deadline of event_plugin_options in opensm.conf", d.manager.Deadline()),
		plugin.Declined: "forsd had no tables for the fabric as it is",
		plugin.Wrong:    "forsd's tables do not fit the fabric in OpenSM's memory: " + e.Text,
	}[e.Result]
	d.health.Raise(pluginUnused, text+"; OpenSM loads the table file instead, and is told to sweep again where that is not enough", time.Now())
}

// tablesLoaded takes note of how a sweep was routed.
func (d *Daemon) tablesLoaded(ctx context.Context, e plugin.RoutingDone) {
	switch {
	case e.Own || d.board.OwnRoutes():
		d.health.Clear(pluginUnused)
		d.health.Clear(opensm.EngineFallback)
	case e.Engine != "file" && e.Engine != "":
		d.health.Raise(opensm.EngineFallback, fmt.Sprintf("OpenSM has made tables by its engine %q", e.Engine), time.Now())
		d.step(ctx, controller.TablesDoubted{})
	}
}

// seenAgain shows the controller the fabric once more that the last sweep has left: it
// was not ready for the end of that sweep when it came.
func (d *Daemon) seenAgain() {
	v := *d.board.Latest()
	d.take(d.life, &v, true)
}
