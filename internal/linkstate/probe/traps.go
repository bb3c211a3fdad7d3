package probe

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/opensm/umad"
)

// WatchTraps takes traps from the subnet administrator while the plugin does not deliver
// them.
func (p *Probe) WatchTraps(ctx context.Context) error {
	if p.Config.Traps == config.TrapsOff || p.Config.Umad == config.UmadOff {
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
		if !p.wantsTraps() {
			p.State.Health.Clear(TrapsMissing)
			continue
		}
		if err := p.subscribe(ctx); errors.Is(err, umad.ErrNotBuiltIn) {
			p.Log.Info("traps are not taken from the subnet administrator", zap.Error(err))
			return nil
		} else if err != nil {
			p.missTraps(err.Error())
		}
	}
}

// Subscribed reports whether traps are received from the subnet administrator.
func (p *Probe) Subscribed() bool { return p.subscribed.Load() }

// wantsTraps reports whether a subscription is needed and possible. The local port is
// known only after the fabric was seen.
func (p *Probe) wantsTraps() bool { return !p.Manager.BringsTraps() && p.State.Now().Latest != nil }

func (p *Probe) missTraps(why string) {
	p.State.Health.Raise(TrapsMissing, why+"; a dead cable is noticed when OpenSM has swept", time.Now())
}

// subscribe keeps a subscription to traps. While the plugin delivers traps, its events are
// ignored. It is kept nevertheless: the plugin may disconnect, and umad2sim of ibsim
// crashes if a port is closed while a datagram is on its way to it.
func (p *Probe) subscribe(ctx context.Context) error {
	reader, err := p.Reader().Reader(p.State.Now().Latest.Fabric)
	if err != nil {
		return err
	}
	events, err := reader.Subscribe(ctx, umad.Subscription{})
	if err != nil {
		return err
	}
	defer p.subscribed.Store(false)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	trouble := ""
	for {
		select {
		case e, open := <-events:
			if !open {
				return nil
			}
			trouble = e.Err
			p.subscribed.Store(trouble == "")
			if p.wantsTraps() {
				p.notified(ctx, e)
			}
		case <-tick.C:
		}
		if trouble != "" && p.wantsTraps() {
			p.missTraps(trouble)
		} else {
			p.State.Health.Clear(TrapsMissing)
		}
	}
}

// notified handles an event of the subscription.
func (p *Probe) notified(ctx context.Context, e umad.Event) {
	switch {
	case e.Manager != 0:
		p.Log.Info("traps are taken from the subnet administrator", zap.Uint16("lid", uint16(e.Manager)))
		p.tell(ctx, linkstate.Noticed{}) // traps may have been missed before
	case e.Notice != nil && e.Notice.Trap == umad.TrapLinkState:
		p.tell(ctx, linkstate.Trap{LID: e.Notice.Subject, At: time.Now()})
	case e.Notice != nil:
		p.tell(ctx, linkstate.Noticed{})
	}
}
