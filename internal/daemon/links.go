package daemon

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// This file carries out what the link state asks for: it reads switches, and has the
// fabric discovered.

// readTimeout bounds the reading of a switch's ports. The sweep tells in the end.
const readTimeout = 500 * time.Millisecond

func linkSettings(c *config.Config) linkstate.Settings {
	s := linkstate.Settings{Reads: c.OpenSM.Traps != config.TrapsOff && c.OpenSM.Umad != config.UmadOff}
	if len(c.OpenSM.DiscoverCommand) > 0 {
		s.DiscoverEvery = c.OpenSM.DiscoverEvery
	}
	return s
}

// observe tells the link state what happened and begins what it asks for. It returns
// the fabric to believe from now on, nil where that is as before.
func (d *Daemon) observe(ctx context.Context, e linkstate.Event) (believe *linkstate.Believe) {
	for _, a := range d.links.Step(time.Now(), e) {
		d.log.Debug("links", zap.Stringer("action", a))
		switch a := a.(type) {
		case linkstate.Believe:
			believe = &a
		case linkstate.Read:
			d.readPorts(ctx, a)
		case linkstate.Discover:
			d.discover(ctx, a)
		}
	}
	return believe
}

// readPorts asks a switch for its ports.
func (d *Daemon) readPorts(ctx context.Context, a linkstate.Read) {
	f := d.links.Shown()
	d.work.Go(func() {
		answer := linkstate.Answer{Switch: a.Switch}
		limited, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		reader, err := d.reader().Reader(f)
		var ports []umad.PortInfo
		if err == nil {
			ports, err = reader.Ports(limited, umad.Node{GUID: a.Switch, LID: a.LID}, a.Ports...)
		}
		if err != nil {
			d.log.Debug("a switch was not read", zap.Stringer("switch", a.Switch), zap.Error(err))
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
		case d.portsRead <- answer:
		case <-ctx.Done():
		}
	})
}

// switchesSaid takes in what switches said: with a dead spine, all leaves speak at once.
func (d *Daemon) switchesSaid(ctx context.Context, first linkstate.Answer) {
	said := linkstate.Said{Answers: []linkstate.Answer{first}}
	for more := true; more; {
		select {
		case a := <-d.portsRead:
			said.Answers = append(said.Answers, a)
		default:
			more = false
		}
	}
	b := d.observe(ctx, said)
	if b == nil {
		return
	}
	v, err := d.fit(b.Fabric)
	if err != nil {
		d.log.Debug("the fabric without what a trap told of cannot be used", zap.Error(err))
		return
	}
	v.SeenAt, v.Complete = b.Seen, time.Now()
	d.take(ctx, v, false)
}

// heldBack tells the link state at which switches there are cables that are held back.
func (d *Daemon) heldBack(ctx context.Context, lanes []controller.Lane) {
	var e linkstate.HeldBack
	for _, c := range d.cablesAt(lanes) {
		e.Switches = append(e.Switches, c.leaf.GUID, c.spine.GUID)
	}
	d.observe(ctx, e)
}

// cable is one between a leaf and a spine.
type cable struct {
	leaf  *topology.Leaf
	spine *topology.Spine
	port  uint8 // of the leaf
}

// cablesAt lists the cables of lanes in the fabric seen last, as far as that is a tree
// that has them.
func (d *Daemon) cablesAt(lanes []controller.Lane) (all []cable) {
	v := d.board.Latest()
	if v == nil || v.Tree == nil {
		return nil
	}
	for _, l := range lanes {
		if l.Leaf < len(v.Tree.Leaves) && l.Lane < v.Tree.Lanes {
			leaf := &v.Tree.Leaves[l.Leaf]
			all = append(all, cable{leaf, &v.Tree.Spines[v.Tree.LaneOf[l.Lane]], leaf.Cables[l.Lane].LeafPort})
		}
	}
	return all
}

// sight is the view of the fabric to believe, where a sweep shows one.
func (d *Daemon) sight(ctx context.Context, e linkstate.Shown) (*view.View, error) {
	b := d.observe(ctx, e)
	v, err := d.fit(b.Fabric)
	if err != nil {
		return nil, err
	}
	v.SeenAt, v.Complete = b.Seen, time.Now()
	return v, nil
}

// remote tells whether OpenSM runs on another host.
func (d *Daemon) remote() bool { return len(d.cfg.OpenSM.DiscoverCommand) > 0 }

// discover has the fabric discovered, and shows it to the loop.
func (d *Daemon) discover(ctx context.Context, a linkstate.Discover) {
	c := &d.cfg.OpenSM
	d.work.Go(func() {
		at := time.Now()
		f, err := opensm.Discover(ctx, c.DiscoverCommand, c.ReadbackTimeout)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d.health.Raise(discoveryFailed, err.Error(), time.Now())
		} else {
			d.health.Clear(discoveryFailed)
			select {
			case d.snapshots <- opensm.Snapshot{Fabric: f, SeenAt: at, CompleteAt: time.Now(), Swept: a.Swept}:
			case <-ctx.Done():
			}
		}
		d.toLinks(ctx, linkstate.Looked{})
	})
}

// toLinks tells the link state of something, by way of the loop.
func (d *Daemon) toLinks(ctx context.Context, e linkstate.Event) {
	select {
	case d.linkEvents <- e:
	case <-ctx.Done():
	}
}
