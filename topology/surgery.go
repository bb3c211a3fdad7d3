package topology

import "slices"

// Trunk reports whether a live cable joins the port to a switch. It is false if the node
// lacks the port.
func (f *Fabric) Trunk(r PortRef) bool {
	if int(r.Port) >= len(f.Nodes[r.Node].Ports) {
		return false
	}
	p := f.At(r)
	return p.Up() && f.Nodes[p.Peer].Kind == Switch
}

// Trunks lists the ports of a node that live cables join to switches, in ascending
// order.
func (f *Fabric) Trunks(node int32) (ports []uint8) {
	for p := range f.Nodes[node].Ports {
		if f.Trunk(PortRef{node, uint8(p)}) {
			ports = append(ports, uint8(p))
		}
	}
	return ports
}

// Without returns f without the cables at some ports, and without the switches that are
// left with no cable, as a discovery would find it. f is not changed, and is returned
// itself if nothing is removed.
func (f *Fabric) Without(cables ...PortRef) *Fabric {
	cables = slices.DeleteFunc(slices.Clone(cables), func(r PortRef) bool { return !f.At(r).Connected() })
	if len(cables) == 0 {
		return f
	}
	c := f.Clone()
	for _, r := range cables {
		c.Disconnect(r)
	}
	return c.withoutStranded()
}

// withoutStranded is f without the switches that have no cable.
func (f *Fabric) withoutStranded() *Fabric {
	stranded := func(n Node) bool {
		return n.Kind == Switch && !slices.ContainsFunc(n.Ports, func(p Port) bool { return p.Connected() })
	}
	if !slices.ContainsFunc(f.Nodes, stranded) {
		return f
	}
	keep := make([]Node, 0, len(f.Nodes))
	place := make([]int32, len(f.Nodes))
	for i := range f.Nodes {
		if !stranded(f.Nodes[i]) {
			place[i] = int32(len(keep))
			keep = append(keep, f.Nodes[i])
		}
	}
	for i := range keep {
		for p := range keep[i].Ports {
			if port := &keep[i].Ports[p]; port.Connected() {
				port.Peer = place[port.Peer]
			}
		}
	}
	return &Fabric{Nodes: keep, SM: f.SM}
}
