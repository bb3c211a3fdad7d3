package daemon

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
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

// link is the connection with OpenSM's plugin, as the loop knows it.
type link struct {
	connected bool
	peer      plugin.Peer
	state     plugin.State
	since     time.Time
}

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

// listenPlugin binds the plugin's socket and returns what serves it, nil where it
// is switched off, or need not work.
func (d *Daemon) listenPlugin() (func(context.Context) error, error) {
	if d.cfg.OpenSM.Plugin.Enabled == config.EnabledOff || d.remote() {
		return nil, nil
	}
	s, err := plugin.Listen(plugin.Config{Path: d.cfg.OpenSM.Plugin.Socket, Tables: d.tablesAsked,
		Event: func(e plugin.Event) {
			select {
			case d.pluginEvents <- e:
			case <-d.stopped:
			}
		},
		Complain: func(err error) { d.log.Warn("OpenSM's plugin", zap.Error(err)) }})
	if err != nil && d.cfg.OpenSM.Plugin.Enabled == config.EnabledAuto {
		d.health.Raise(pluginDeaf, err.Error()+"; forsd works by OpenSM's files", time.Now())
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d.plugin = s
	return s.Serve, nil
}

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
	d.log.Info("OpenSM's plugin is connected", zap.Int("pid", e.Peer.PID), zap.String("opensm", e.Peer.Version), zap.Duration("deadline", e.Peer.Deadline))
	d.desk.PluginCame()
	d.setLink(link{connected: true, peer: e.Peer, since: e.At})
	d.observe(ctx, linkstate.SweepsUntold{})
	d.health.Clear(pluginMissing)
	d.work.Go(func() { d.lookAtManager(ctx) })
}

// pluginLeft ends a connection: from now on the files lead. What was under way is
// looked at again when OpenSM dumps.
func (d *Daemon) pluginLeft(ctx context.Context, e plugin.Disconnected) {
	d.log.Info("OpenSM's plugin has gone", zap.Error(e.Err))
	d.desk.PluginLeft()
	d.setLink(link{since: e.At})
	d.observe(ctx, linkstate.SweepsUntold{})
	d.health.Clear(pluginUnused)
	d.work.Go(func() { d.lookAtManager(ctx) })
	if d.peer.is() {
		d.stand(ctx, standby.Manager{}) // the other manager may take over
	}
	d.step(ctx, controller.TablesDoubted{})
}

// missPlugin warns where the plugin should be connected and is not. loaded tells
// whether OpenSM runs and is to load it.
func (d *Daemon) missPlugin(loaded bool) {
	how := d.cfg.OpenSM.Plugin.Enabled
	if d.plugin == nil || d.pluginLeads() || how == config.EnabledAuto && !loaded {
		d.health.Clear(pluginMissing)
		return
	}
	d.health.Raise(pluginMissing, "OpenSM's plugin has not connected to "+d.cfg.OpenSM.Plugin.Socket+"; forsd works by OpenSM's files: see OpenSM's log for "+opensm.PluginFile+", and forsctl doctor", time.Now())
}

// setLink replaces what is known of the connection.
func (d *Daemon) setLink(l link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.link = l
}

// pluginLeads tells whether the plugin is connected.
func (d *Daemon) pluginLeads() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.link.connected
}

// mastership takes note of the manager's state. One that is discovering is about to
// become either.
func (d *Daemon) mastership(ctx context.Context, s plugin.State) {
	d.mu.Lock()
	d.link.state = s
	d.mu.Unlock()
	d.log.Info("OpenSM's state", zap.Stringer("state", s))
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
		plugin.Late:     fmt.Sprintf("forsd's tables were not there within %v; if this lasts, raise the option deadline of event_plugin_options in opensm.conf", d.link.peer.Deadline),
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
