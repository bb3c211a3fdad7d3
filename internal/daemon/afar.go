package daemon

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// This file works from afar: traps by a subscription, wherever OpenSM runs; and
// where that is another host, the fabric by a discovery of our own, and the tables
// by a command that brings the file there.

// trap is a switch that said that its links have changed.
type trap struct {
	lid topology.LID
	at  time.Time
}

// pluginPatience is how long the plugin may take to come, or to come back, before
// traps are taken by a subscription.
const pluginPatience = 3 * time.Second

// watchTraps takes traps from the subnet administrator while the plugin does not
// bring them.
func (d *Daemon) watchTraps(ctx context.Context) error {
	if d.cfg.OpenSM.Traps == config.TrapsOff || d.cfg.OpenSM.Umad == config.UmadOff {
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !d.wantsTraps() {
			d.health.Clear(trapsMissing)
			continue
		}
		if err := d.subscribed(ctx); errors.Is(err, umad.ErrNotBuiltIn) {
			d.log.Info("traps are not taken from the subnet administrator", zap.Error(err))
			return nil
		} else if err != nil {
			d.health.Raise(trapsMissing, err.Error()+"; a dead cable is noticed when OpenSM has swept", time.Now())
		}
	}
}

// wantsTraps tells whether a subscription is needed, and can be made: which local
// port is in the fabric is known when that has been seen.
func (d *Daemon) wantsTraps() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	away := max(time.Since(d.started), 0)
	if !d.link.since.IsZero() {
		away = time.Since(d.link.since)
	}
	return !d.link.connected && (away > pluginPatience || d.plugin == nil) && len(d.views) > 0
}

// subscribed takes traps until the plugin brings them.
func (d *Daemon) subscribed(ctx context.Context) error {
	reader, err := d.reader().Reader(d.latest().tree.Fabric)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := reader.Subscribe(ctx, umad.Subscription{})
	if err != nil {
		return err
	}
	defer d.setSubscribed(false)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case e, open := <-events:
			if !open {
				return nil
			}
			d.notified(ctx, e)
		case <-tick.C:
			if !d.wantsTraps() {
				cancel() // the channel is closed when the subscription is taken back
			}
		}
	}
}

// notified takes in what the subscription has to tell.
func (d *Daemon) notified(ctx context.Context, e umad.Event) {
	switch {
	case e.Err != "":
		d.setSubscribed(false)
		d.health.Raise(trapsMissing, e.Err+"; a dead cable is noticed when OpenSM has swept", time.Now())
	case e.Manager != 0:
		d.log.Info("traps are taken from the subnet administrator", zap.Uint16("lid", uint16(e.Manager)))
		d.setSubscribed(true)
		d.health.Clear(trapsMissing)
		d.discoverFor(forTrap) // something may have been missed before
	case e.Notice != nil:
		if e.Notice.Trap == umad.TrapLinkState {
			select {
			case d.traps <- trap{e.Notice.Subject, time.Now()}:
			case <-ctx.Done():
			}
		}
		d.discoverFor(forTrap)
	}
}

func (d *Daemon) setSubscribed(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscription = on
}

// remote tells whether OpenSM runs on another host.
func (d *Daemon) remote() bool { return len(d.cfg.OpenSM.DiscoverCommand) > 0 }

// discovery is what a discovery is for.
type discovery uint8

const (
	forTrap  discovery = iota // something has changed, and OpenSM has yet to sweep
	forSweep                  // OpenSM has swept, or had the time for it
)

// discoverFor has the fabric discovered, where that is not left to OpenSM next door.
// One discovery answers for all that come before it, as one after a sweep if any does.
func (d *Daemon) discoverFor(what discovery) {
	if !d.remote() {
		return
	}
	for {
		select {
		case d.look <- what:
			return
		default: // one is to come
		}
		if what == forTrap {
			return
		}
		select {
		case <-d.look:
		default:
		}
	}
}

// discover discovers the fabric at every trap and now and then.
func (d *Daemon) discover(ctx context.Context) error {
	c := &d.cfg.OpenSM
	what := forSweep
	for {
		at := time.Now()
		f, err := opensm.Discover(ctx, c.DiscoverCommand, c.ReadbackTimeout)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			d.health.Raise(discoveryFailed, err.Error(), time.Now())
		} else {
			d.health.Clear(discoveryFailed)
			select {
			case d.snapshots <- opensm.Snapshot{Fabric: f, SeenAt: at, CompleteAt: time.Now(), Swept: what == forSweep}:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case what = <-d.look:
		case <-time.After(c.DiscoverEvery):
			what = forSweep
		case <-ctx.Done():
			return nil
		}
	}
}

// sweepDelay is the time that a manager on another host is given to sweep once it
// has the tables.
const sweepDelay = time.Second

// install brings the table file to the host of the manager. Without a command for
// that, forsd gives advice: somebody else may bring it there.
func (d *Daemon) install(ctx context.Context) error {
	c := &d.cfg.OpenSM
	if len(c.InstallCommand) > 0 {
		if err := opensm.Install(ctx, c.InstallCommand, c.LFTsFile, c.SweepTimeout); err != nil {
			return err
		}
	}
	d.work.Go(func() {
		select {
		case <-time.After(sweepDelay):
			d.discoverFor(forSweep)
		case <-d.stopped:
		}
	})
	return nil
}
