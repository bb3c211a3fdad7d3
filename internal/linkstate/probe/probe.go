// Package probe carries out the actions of the link state. It reads switches, and
// discovers the fabric if OpenSM runs on another host. It takes traps from the subnet
// administrator if OpenSM's plugin does not deliver them.
package probe

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/manager"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// Warning codes of the probe.
const (
	TrapsMissing    = "traps-missing"
	DiscoveryFailed = "discovery-failed"
)

// readTimeout limits the reading of a switch's ports. If it expires, a sweep shows the
// change.
const readTimeout = 500 * time.Millisecond

// Parts are the dependencies of a probe.
type Parts struct {
	Config  *config.OpenSM
	Log     *zap.Logger
	State   *state.Shared
	Manager *manager.Manager
	Reader  func() *opensm.Switches
}

// Probe carries out the actions of package linkstate concurrently with the loop, which
// receives the results from the channels.
type Probe struct {
	Parts
	Answers    chan linkstate.Answer // from switches
	Events     chan linkstate.Event  // traps and responses
	Discovered chan opensm.Snapshot

	subscribed atomic.Bool // traps come from the subnet administrator
}

// New returns a probe.
func New(parts Parts) *Probe {
	return &Probe{Parts: parts, Answers: make(chan linkstate.Answer), Events: make(chan linkstate.Event), Discovered: make(chan opensm.Snapshot)}
}

// Settings returns the settings of the link state.
func Settings(c *config.OpenSM) linkstate.Settings {
	s := linkstate.Settings{Reads: c.Traps != config.TrapsOff && c.Umad != config.UmadOff}
	if c.Remote() {
		s.DiscoverEvery = c.DiscoverEvery
	}
	return s
}

// Read reads the ports of a switch of the fabric.
func (p *Probe) Read(ctx context.Context, f *topology.Fabric, a linkstate.Read) {
	answer := linkstate.Answer{Switch: a.Switch}
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	reader, err := p.Reader().Reader(f)
	var ports []umad.PortInfo
	if err == nil {
		ports, err = reader.Ports(limited, umad.Node{GUID: a.Switch, LID: a.LID}, a.Ports...)
	}
	if err != nil {
		p.Log.Debug("a switch was not read", zap.Stringer("switch", a.Switch), zap.Error(err))
	}
	for _, n := range a.Ports {
		switch {
		case int(n) >= len(ports):
		case n == 0:
			answer.Manager = ports[0].SMLID
		default:
			answer.Ports = append(answer.Ports, linkstate.Port{Number: n, State: ports[n].State, Rate: ports[n].Rate})
		}
	}
	select {
	case p.Answers <- answer:
	case <-ctx.Done():
	}
}

// PortsRead returns first together with all answers that have arrived. When a spine dies, all
// leaves answer at the same time.
func (p *Probe) PortsRead(first linkstate.Answer) linkstate.PortsRead {
	said := linkstate.PortsRead{Answers: []linkstate.Answer{first}}
	for {
		select {
		case a := <-p.Answers:
			said.Answers = append(said.Answers, a)
		default:
			return said
		}
	}
}

// Discover discovers the fabric.
func (p *Probe) Discover(ctx context.Context, a linkstate.Discover) {
	at := time.Now()
	f, err := opensm.Discover(ctx, p.Config.DiscoverCommand, p.Config.ReadbackTimeout)
	if ctx.Err() != nil {
		return
	}
	var looked linkstate.Looked
	if err != nil {
		p.State.Health.Raise(DiscoveryFailed, err.Error(), time.Now())
	} else {
		p.State.Health.Clear(DiscoveryFailed)
		looked.Unfinished = f.BroughtUp() != nil
		select {
		case p.Discovered <- opensm.Snapshot{Fabric: f, SeenAt: at, CompleteAt: time.Now(), Swept: a.Swept}:
		case <-ctx.Done():
		}
	}
	p.tell(ctx, looked)
}

// Install copies the table file to the manager's host, and announces a sweep. Without a
// command for that, an operator may copy the file on forsd's advice.
func (p *Probe) Install(ctx context.Context) error {
	if c := p.Config; len(c.InstallCommand) > 0 {
		if err := opensm.Install(ctx, c.InstallCommand, c.LFTsFile, c.SweepTimeout); err != nil {
			return err
		}
	}
	p.tell(ctx, linkstate.SweepOrdered{})
	return nil
}

// TrapLogged passes on a line of the manager's log about a trap. It drops the line if the
// loop is busy for long: nothing depends on the log.
func (p *Probe) TrapLogged(lid ib.LID, told bool) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	p.tell(ctx, linkstate.TrapLogged{LID: lid, Told: told})
}

// tell passes an event to the link state through the loop.
func (p *Probe) tell(ctx context.Context, e linkstate.Event) {
	select {
	case p.Events <- e:
	case <-ctx.Done():
	}
}

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
