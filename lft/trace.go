package lft

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Hop is a node on a packet's path.
type Hop struct {
	Node int32 // index in the fabric
	In   uint8 // port that the packet comes in by; 0 at the source
	Out  uint8 // port that it leaves by; 0 at the destination
}

// Trace walks a packet with destination lid through the tables, from an adapter port, or
// from a switch itself if from is its port 0. The hops are all nodes from the source to the
// owner of the LID. On an error they are the nodes up to the place that it names: a switch
// without a table or an entry, a port that is down, a loop, or a port that does not own the
// LID.
func (t *Tables) Trace(f *topology.Fabric, from topology.PortRef, lid ib.LID) ([]Hop, error) {
	at := topology.PortRef{Node: from.Node}
	var hops []Hop
	if port := f.At(from); f.Nodes[from.Node].Kind != topology.Switch {
		hops = append(hops, Hop{Node: from.Node, Out: from.Port})
		if owns(port, lid) {
			hops[0].Out = 0
			return hops, nil
		}
		if !port.Up() {
			return hops, fmt.Errorf("%s is down", f.PortLabel(from))
		}
		at = topology.PortRef{Node: port.Peer, Port: port.PeerPort}
	}
	passed := make(map[int32]bool)
	for f.Nodes[at.Node].Kind == topology.Switch {
		n := &f.Nodes[at.Node]
		hops = append(hops, Hop{Node: at.Node, In: at.Port})
		if passed[at.Node] {
			return hops, fmt.Errorf("LID 0x%04x goes round in a loop through switch %s", lid, n.Label())
		}
		passed[at.Node] = true
		i := t.Find(n.GUID)
		if i < 0 {
			return hops, fmt.Errorf("there is no table for switch %s", n)
		}
		out := t.Port(i, lid)
		switch {
		case out == NoPath:
			return hops, fmt.Errorf("switch %s has no entry for LID 0x%04x", n.Label(), lid)
		case out == 0 && len(n.Ports) > 0 && owns(&n.Ports[0], lid):
			return hops, nil
		case out == 0:
			return hops, fmt.Errorf("switch %s takes LID 0x%04x for its own", n.Label(), lid)
		case int(out) >= len(n.Ports):
			return hops, fmt.Errorf("switch %s sends LID 0x%04x to port %d: it has %d ports", n.Label(), lid, out, len(n.Ports)-1)
		case !n.Ports[out].Up():
			return hops, fmt.Errorf("switch %s sends LID 0x%04x to port %d, which is down", n.Label(), lid, out)
		}
		hops[len(hops)-1].Out = out
		at = topology.PortRef{Node: n.Ports[out].Peer, Port: n.Ports[out].PeerPort}
	}
	hops = append(hops, Hop{Node: at.Node, In: at.Port})
	if !owns(f.At(at), lid) {
		return hops, fmt.Errorf("LID 0x%04x is delivered to %s, which does not own it", lid, f.PortLabel(at))
	}
	return hops, nil
}

// owns reports whether the port owns lid.
func owns(p *topology.Port, lid ib.LID) bool {
	return p.LID != 0 && int(lid) >= int(p.LID) && int(lid) < int(p.LID)+1<<p.LMC
}
