package daemon

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
)

// watchdogEvery is how often systemd is told that the loop turns: several times
// within the unit's WatchdogSec.
const watchdogEvery = 5 * time.Second

// loop owns the controller: it turns what happens into events, carries out the
// actions that come back, and ends with ctx. One action at a time is under way;
// the controller sees to that.
func (d *Daemon) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	watchdog := time.NewTicker(watchdogEvery)
	defer watchdog.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-d.snapshots:
			d.dumpSeen(ctx, s)
		case e := <-d.pluginEvents:
			d.pluginSays(ctx, e)
		case q := <-d.pluginAsks:
			d.tablesWanted(ctx, q)
		case s := <-d.probe.Discovered:
			d.dumpSeen(ctx, s)
		case e := <-d.probe.Events:
			d.observe(ctx, e)
		case a := <-d.probe.Answers:
			d.switchesSaid(ctx, a)
		case e := <-d.answers:
			d.step(ctx, e)
		case call := <-d.calls:
			call()
		case <-timer.C:
			d.observe(ctx, linkstate.Tick{})
			d.step(ctx, controller.Tick{})
		case <-watchdog.C:
			d.notify("WATCHDOG=1")
			if !d.core.Busy() {
				d.store.LookAtDisk()
			}
		}
		d.calmNow()
		if wake := d.wake(); !wake.IsZero() {
			timer.Reset(max(0, time.Until(wake)))
		}
	}
}

// wake is when the loop has something to do though nothing happens; zero for never.
func (d *Daemon) wake() time.Time {
	due := []time.Time{d.core.Wake(), d.links.Wake()}
	if !d.core.Busy() { // else these wait until the action has ended
		due = append(due, d.jobs.LeaseDue(), d.store.RestoreDue(), d.peer.machine.Wake())
	}
	due = slices.DeleteFunc(due, time.Time.IsZero)
	if len(due) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(due, time.Time.Compare)
}

// step gives the controller an event and carries out what it answers.
func (d *Daemon) step(ctx context.Context, e controller.Event) {
	now := time.Now()
	for _, a := range d.core.Step(now, e) {
		d.log.Debug("action", zap.Stringer("action", a), zap.Stringer("state", d.core.State()))
		switch a := a.(type) {
		case controller.Warn:
			text := a.Text
			if a.Code == controller.CableHeld {
				text = d.heldCables()
			}
			d.health.Raise(a.Code, text, now)
		case controller.Clear:
			d.health.Clear(a.Code)
		case controller.Settled:
			d.settled(ctx, a)
		default:
			act, stop := context.WithCancel(ctx)
			d.giveUp = func() {}
			switch a.(type) {
			case controller.ReadBack, controller.Plan, controller.Publish:
				d.giveUp = stop
			}
			d.work.Go(func() {
				e := d.carryOut(act, a)
				stop()
				select {
				case d.answers <- e:
				case <-ctx.Done():
				}
			})
		}
	}
	held := d.core.Held()
	if d.board.Show(d.core.State(), held, d.core.Standby()) {
		d.heldBack(ctx, held)
	}
}

// carryOut does what the controller asked for and says how it went.
func (d *Daemon) carryOut(ctx context.Context, a controller.Action) controller.Event {
	switch a := a.(type) {
	case controller.Plan:
		if !a.Final && !a.Ahead {
			d.desk.Changing()
		}
		e := d.press.Plan(ctx, a)
		d.look(ctx, a)
		return e
	case controller.Publish:
		return controller.Published{Err: controller.Text(d.press.Publish(ctx))}
	case controller.Write:
		changed, err := d.press.Write(ctx, a)
		return controller.Written{Changed: changed, Err: controller.Text(err)}
	case controller.Signal:
		return controller.Signalled{Err: controller.Text(d.signal(ctx))}
	case controller.ReadBack:
		return d.readBack(ctx, a)
	}
	panic("daemon: the controller asked for something unknown: " + a.String())
}

// dumped passes a dump of the manager to the loop.
func (d *Daemon) dumped(ctx context.Context, s opensm.Snapshot) {
	select {
	case d.snapshots <- s:
	case <-ctx.Done():
	}
}

// pluginEvent passes an event of the plugin to the loop.
func (d *Daemon) pluginEvent(e plugin.Event) {
	select {
	case d.pluginEvents <- e:
	case <-d.stopped:
	}
}

// tell gives the controller an event from outside the loop.
func (d *Daemon) tell(e controller.Event) {
	select {
	case d.answers <- e:
	case <-d.stopped:
	}
}

// call runs f between two events, so that it sees the daemon at rest, and waits
// for it.
func (d *Daemon) call(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case d.calls <- func() { f(); close(done) }:
	case <-d.stopped:
		return backend.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done // the loop runs what it has taken
	return nil
}
