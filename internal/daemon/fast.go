package daemon

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// This file is the fast path: a trap names a switch, whose ports are read at once.
// What is down there is taken out of the plan before OpenSM has begun to sweep. Only
// losses of cables between switches are believed; that a cable is back is the
// sweep's to say, for OpenSM has yet to bring it up.

// probeTimeout bounds the reading of a switch. The sweep tells in the end.
const probeTimeout = 500 * time.Millisecond

// probe is a switch that is being read.
type probe struct{ again bool } // another trap has come meanwhile

// probed is what a switch said of some of its ports.
type probed struct {
	node    topology.GUID
	numbers []uint8         // of those asked for
	ports   []umad.PortInfo // [port]
	err     error
	trapped time.Time // when the trap came
	asked   time.Time
}

// loss is a cable that is down, as a switch said before a sweep did.
type loss struct {
	node  topology.GUID
	port  uint8
	asked time.Time // when the switch was asked
}

// trapped has the switch read that a trap names, by LID.
func (d *Daemon) trapped(ctx context.Context, lid topology.LID, at time.Time) {
	v := d.latest()
	if d.cfg.OpenSM.Traps == config.TrapsOff || v == nil || lid == 0 {
		return
	}
	for i := range v.tree.Fabric.Nodes {
		if n := &v.tree.Fabric.Nodes[i]; n.Kind == topology.Switch && n.LID() == lid {
			d.probe(ctx, umad.Node{GUID: n.GUID, LID: lid}, at)
			return
		}
	}
}

// probe has a switch read. One that is being read is read again: a port may have
// changed after it was asked.
func (d *Daemon) probe(ctx context.Context, n umad.Node, trapped time.Time) {
	if p := d.probes[n.GUID]; p != nil {
		p.again = true
		return
	}
	f := d.latest().tree.Fabric
	r := probed{node: n.GUID, numbers: d.cables(f, n.GUID), trapped: trapped, asked: time.Now()}
	if len(r.numbers) == 0 {
		return
	}
	d.probes[n.GUID] = &probe{}
	d.work.Go(func() {
		limited, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		var reader *umad.Reader
		if reader, r.err = d.reader().Reader(f); r.err == nil {
			r.ports, r.err = reader.Ports(limited, n, r.numbers...)
		}
		select {
		case d.probed <- r:
		case <-ctx.Done():
		}
	})
}

// readBeside adds what other switches have said by now: with a dead spine, all leaves
// speak at once.
func (d *Daemon) readBeside(r probed) []probed {
	all := []probed{r}
	for {
		select {
		case r := <-d.probed:
			all = append(all, r)
		default:
			return all
		}
	}
}

// portsRead takes in what switches said. A cable that is down there is out of the
// fabric from now on.
func (d *Daemon) portsRead(ctx context.Context, all ...probed) {
	all = slices.DeleteFunc(all, func(r probed) bool { return !d.portsHeard(ctx, r) })
	if len(all) == 0 {
		return
	}
	first := slices.MinFunc(all, func(a, b probed) int { return a.trapped.Compare(b.trapped) })
	fresh, err := d.fit(d.without(d.shown))
	if err != nil {
		d.log.Debug("the fabric without what a trap told of cannot be used", zap.Error(err))
		return
	}
	fresh.seenAt, fresh.complete = first.trapped, time.Now()
	d.take(ctx, fresh, false)
}

// portsHeard notes what a switch said, and tells whether that is news.
func (d *Daemon) portsHeard(ctx context.Context, r probed) bool {
	again := d.probes[r.node].again
	delete(d.probes, r.node)
	f := d.latest().tree.Fabric
	node := f.Find(r.node)
	if again && node != topology.None {
		d.probe(ctx, umad.Node{GUID: r.node, LID: f.Nodes[node].LID()}, r.trapped)
	}
	if r.err != nil || node == topology.None {
		d.log.Debug("the switch that a trap names was not read", zap.Stringer("switch", r.node), zap.Error(r.err))
		return false
	}
	back := slices.ContainsFunc(d.losses, func(l loss) bool { return r.revokes(l) })
	d.losses = slices.DeleteFunc(d.losses, r.revokes)
	known := len(d.losses)
	for _, p := range r.numbers {
		if r.says(p, topology.Down) && leadsUp(f, node, p) && !d.lostTo(f, f.Nodes[node].Ports[p]) {
			d.losses = append(d.losses, loss{r.node, p, r.asked})
		}
	}
	return back || len(d.losses) > known
}

// lostTo tells whether the cable of a port is among those that the switch at its other
// end has lost.
func (d *Daemon) lostTo(f *topology.Fabric, p topology.Port) bool {
	far := f.Nodes[p.Peer].GUID
	return slices.ContainsFunc(d.losses, func(l loss) bool { return l.node == far && l.port == p.PeerPort })
}

// revokes tells whether a cable that was lost is not down any more.
func (r probed) revokes(l loss) bool {
	return l.node == r.node && slices.Contains(r.numbers, l.port) && !r.says(l.port, topology.Down)
}

// says tells whether a port that was asked for is in a state.
func (r probed) says(port uint8, s topology.PortState) bool {
	return int(port) < len(r.ports) && r.ports[port].State == s
}

// cables lists the ports of a switch that lead to switches, or did until a loss.
func (d *Daemon) cables(f *topology.Fabric, g topology.GUID) (numbers []uint8) {
	node := f.Find(g)
	if node == topology.None {
		return nil
	}
	for p := range f.Nodes[node].Ports {
		lost := slices.ContainsFunc(d.losses, func(l loss) bool { return l.node == g && int(l.port) == p })
		if lost || leadsUp(f, node, uint8(p)) {
			numbers = append(numbers, uint8(p))
		}
	}
	return numbers
}

// leadsUp tells whether a port is up and leads to a switch.
func leadsUp(f *topology.Fabric, node int32, p uint8) bool {
	if int(p) >= len(f.Nodes[node].Ports) {
		return false
	}
	port := &f.Nodes[node].Ports[p]
	return port.Up() && f.Nodes[port.Peer].Kind == topology.Switch
}

// settle forgets the losses that a fabric says all about, which a sweep has found that
// began at some time, or nobody knows when (zero): those that it lacks as well, and
// those that it knows better of, because it began later. Where it contradicts and
// that is not known, the switch is asked again.
func (d *Daemon) settle(ctx context.Context, f *topology.Fabric, began time.Time) {
	d.losses = slices.DeleteFunc(d.losses, func(l loss) bool {
		node := f.Find(l.node)
		if node == topology.None || !leadsUp(f, node, l.port) || began.After(l.asked) {
			return true
		}
		if began.IsZero() {
			d.probe(ctx, umad.Node{GUID: l.node, LID: f.Nodes[node].LID()}, time.Now())
		}
		return false
	})
}

// without is a fabric without the cables that were lost.
func (d *Daemon) without(f *topology.Fabric) *topology.Fabric {
	if len(d.losses) == 0 {
		return f
	}
	f = f.Clone()
	for _, l := range d.losses {
		if node := f.Find(l.node); node != topology.None && leadsUp(f, node, l.port) {
			f.Disconnect(topology.PortRef{Node: node, Port: l.port})
		}
	}
	return withoutStranded(f)
}

// withoutStranded is the fabric without the switches that have no cable, as a sweep
// would find it.
func withoutStranded(f *topology.Fabric) *topology.Fabric {
	keep := make([]topology.Node, 0, len(f.Nodes))
	place := make([]int32, len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Kind == topology.Switch && !slices.ContainsFunc(n.Ports, func(p topology.Port) bool { return p.Connected() }) {
			continue
		}
		place[i] = int32(len(keep))
		keep = append(keep, *n)
	}
	if len(keep) == len(f.Nodes) {
		return f
	}
	for i := range keep {
		for p := range keep[i].Ports {
			if port := &keep[i].Ports[p]; port.Connected() {
				port.Peer = place[port.Peer]
			}
		}
	}
	return &topology.Fabric{Nodes: keep, SM: f.SM}
}

// sight is the view of a fabric that the manager shows, found by a sweep that began at
// some time, or nobody knows when (zero).
func (d *Daemon) sight(ctx context.Context, f *topology.Fabric, began time.Time) (*view, error) {
	d.shown = f
	d.settle(ctx, f, began)
	f = d.without(f)
	return d.fit(f)
}

// fit is the view of a fabric through the baseline in force, or a new one while there
// is none.
func (d *Daemon) fit(f *topology.Fabric) (*view, error) {
	base, err := d.baselineFor(f)
	if err != nil {
		return nil, err
	}
	return newView(f, base, d.cfg.Planning.Exclude)
}
