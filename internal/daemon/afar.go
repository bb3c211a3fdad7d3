package daemon

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/umad"
)

// This file works from afar: traps by a subscription, wherever OpenSM runs; and
// where that is another host, the fabric by a discovery of our own, and the tables
// by a command that brings the file there.

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
	return !d.link.connected && (away > pluginPatience || d.plugin == nil) && d.board.Latest() != nil
}

// subscribed takes traps until the plugin brings them.
func (d *Daemon) subscribed(ctx context.Context) error {
	reader, err := d.reader().Reader(d.board.Latest().Fabric)
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
		d.toLinks(ctx, linkstate.Noticed{}) // something may have been missed before
	case e.Notice != nil && e.Notice.Trap == umad.TrapLinkState:
		d.toLinks(ctx, linkstate.Trap{LID: e.Notice.Subject, At: time.Now()})
	case e.Notice != nil:
		d.toLinks(ctx, linkstate.Noticed{})
	}
}

func (d *Daemon) setSubscribed(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscription = on
}

// install brings the table file to the host of the manager. Without a command for
// that, forsd gives advice: somebody else may bring it there.
func (d *Daemon) install(ctx context.Context) error {
	c := &d.cfg.OpenSM
	if len(c.InstallCommand) > 0 {
		if err := opensm.Install(ctx, c.InstallCommand, c.LFTsFile, c.SweepTimeout); err != nil {
			return err
		}
	}
	d.toLinks(ctx, linkstate.SweepOrdered{})
	return nil
}
