package daemon

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/plans"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/standby/replica"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/topology"
)

// watchdogEvery is how often systemd is told that the loop turns: several times
// within the unit's WatchdogSec.
const watchdogEvery = 5 * time.Second

// loop turns events into events of the state machines and carries out their actions. Only
// its goroutine may use it. Other goroutines reach it through the inbox.
type loop struct {
	*components
	core     *controller.Controller
	links    *linkstate.Links
	standby  *standby.Machine
	actions  *actions
	excluder *excluder

	giveUp   context.CancelFunc            // ends the read-back or the planning under way
	waiting  []func(context.Context, turn) // run when no action is under way
	said     *replica.Replica              // the other forsd's last answer
	bouncing []controller.Lane             // as the link state knows them
	jobs     []*state.Job                  // whose plans the tables follow
	own      *view.View                    // the last fabric shown by its own manager, while that is the master
	sent     *topology.Fabric              // by the plugin, last
	raw      *topology.Fabric              // the last believed fabric, without the names and roles from the settings
	weighed  string                        // ID of the view for which a better plan was last sought
}

// run works until ctx ends. The controller ensures that at most one action is under way.
func (l *loop) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	watchdog := time.NewTicker(watchdogEvery)
	defer watchdog.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-l.inbox.snapshots:
			l.dumpSeen(ctx, s)
		case e := <-l.inbox.plugin:
			l.pluginSays(ctx, e)
		case q := <-l.inbox.questions:
			l.tablesWanted(ctx, q)
		case s := <-l.probe.Discovered:
			l.dumpSeen(ctx, s)
		case e := <-l.probe.Events:
			l.observe(ctx, e)
		case a := <-l.probe.Answers:
			l.switchesSaid(ctx, a)
		case e := <-l.inbox.answers:
			l.step(ctx, e)
		case call := <-l.inbox.calls:
			call(ctx, l)
		case <-timer.C:
			l.observe(ctx, linkstate.Tick{})
			l.step(ctx, controller.Tick{})
		case <-watchdog.C:
			l.notify("WATCHDOG=1")
			if !l.core.Busy() {
				l.store.LookAtDisk()
				go plans.Release()
			}
		}
		l.giveTurns(ctx)
		l.showPeer()
		if wake := l.wake(); !wake.IsZero() {
			timer.Reset(max(0, time.Until(wake)))
		}
	}
}

// wake returns when the loop has something to do without an event; zero means never.
func (l *loop) wake() time.Time {
	due := []time.Time{l.core.Wake(), l.links.Wake()}
	if !l.core.Busy() { // otherwise these wait until the action has ended
		due = append(due, l.state.Now().LeaseDue(), l.store.RestoreDue(), l.standby.Wake(), l.excluder.due())
	}
	due = slices.DeleteFunc(due, time.Time.IsZero)
	if len(due) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(due, time.Time.Compare)
}

// verified reports whether an event implies that the plan in force holds on all tables that
// the switches may hold.
func verified(e controller.Event) bool {
	planned, _ := e.(controller.Planned)
	published, is := e.(controller.Published)
	return planned.Same && planned.Err == "" || is && published.Err == ""
}

// step passes an event to the controller and carries out its actions.
func (l *loop) step(ctx context.Context, e controller.Event) {
	now := time.Now()
	actions := l.core.Step(now, e)
	l.excluder.unrest.goesOn(now, l.core.State() == controller.Idle)
	if verified(e) && !l.core.Standby() {
		l.nowReady()
	}
	for _, a := range actions {
		l.log.Debug("action", zap.Stringer("action", a), zap.Stringer("state", l.core.State()))
		switch a := a.(type) {
		case controller.Warn:
			text := a.Text
			if a.Code == controller.CableHeld {
				text = l.excluder.heldCables()
			}
			l.health.Raise(a.Code, text, now)
		case controller.Clear:
			l.health.Clear(a.Code)
		case controller.Settled:
			l.settled(ctx, a)
		default:
			act, stop := context.WithCancel(ctx)
			l.giveUp = stop
			l.work.Go(func() {
				e := l.actions.carryOut(ctx, act, a)
				stop()
				select {
				case l.inbox.answers <- e:
				case <-ctx.Done():
				}
			})
		}
	}
	l.state.Show(l.core.State(), l.core.Held(), l.core.Standby())
	if bouncing := l.core.Bouncing(); !slices.Equal(bouncing, l.bouncing) {
		l.bouncing = bouncing
		l.heldBack(ctx, bouncing)
	}
}
