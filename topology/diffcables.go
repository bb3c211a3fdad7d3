package topology

import (
	"cmp"
	"iter"
	"slices"
)

// cable is a cable that is up, its end nearer to the hosts first: an adapter
// before a leaf, a leaf before a spine.
type cable struct {
	near, far PortRef
	a, b      CableEnd // near and far
}

// liveEnds yields both ends of the cables that are up: switches' before the others', by
// node and port. Links between a switch and its own aggregation node are left out.
func (f *half) liveEnds() iter.Seq[PortRef] {
	return func(yield func(PortRef) bool) {
		for _, i := range switchesFirst(f.Fabric) {
			for p := range f.Nodes[i].Ports {
				if end := (PortRef{i, uint8(p)}); f.cableUp(end) && !f.inside(end) && !yield(end) {
					return
				}
			}
		}
	}
}

// inside reports whether a cable joins an aggregation node.
func (f *half) inside(r PortRef) bool {
	return f.Nodes[r.Node].Role == AggregationNode || f.Nodes[f.At(r).Peer].Role == AggregationNode
}

// cable returns the cable at its nearer end.
func (f *half) cable(near PortRef) cable {
	far := f.far(near)
	return cable{near, far, f.end(near), f.end(far)}
}

// far returns the other end of the cable at r.
func (f *Fabric) far(r PortRef) PortRef { return PortRef{f.At(r).Peer, f.At(r).PeerPort} }

func compareEnds(a, b CableEnd) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port))
}

// isNear reports whether an end of a cable is nearer to the hosts than the other.
func (f *half) isNear(r PortRef) bool {
	far := f.far(r)
	c := cmp.Compare(f.depth(r.Node), f.depth(far.Node))
	return c < 0 || c == 0 && compareEnds(f.end(r), f.end(far)) <= 0
}

// depth returns the distance of a node from the hosts: 0 if it is not a switch in the
// latest fabric that has it, 1 for a switch with hosts in either fabric, 2 for the others.
func (f *half) depth(node int32) int {
	twin := f.twin[node]
	if !f.later && twin != None {
		f, node, twin = f.other, twin, node
	}
	switch {
	case f.Nodes[node].Kind != Switch:
		return 0
	case f.hasHosts(node) || twin != None && f.other.hasHosts(twin):
		return 1
	}
	return 2
}

// hasHosts reports whether a node is a switch with a cable that is up to a node other than
// a switch or an aggregation node.
func (f *half) hasHosts(node int32) bool {
	n := &f.Nodes[node]
	return n.Kind == Switch && slices.ContainsFunc(n.Ports, func(p Port) bool {
		return p.Up() && f.Nodes[p.Peer].Kind != Switch && f.Nodes[p.Peer].Role != AggregationNode
	})
}

// twinEnd returns the end of the very same cable in the other fabric, if it is up there.
func (f *half) twinEnd(r PortRef) (twin PortRef, ok bool) {
	far := f.far(r)
	twin = PortRef{f.twin[r.Node], r.Port}
	if twin.Node == None || int(r.Port) >= len(f.other.Nodes[twin.Node].Ports) || !f.other.cableUp(twin) {
		return twin, false
	}
	return twin, f.other.far(twin) == PortRef{f.twin[far.Node], far.Port}
}

// cables reports cables that went down, came up, moved or changed their rate,
// between nodes that are live in both fabrics.
func (d *differ) cables() {
	d.rates()
	lost, gained := d.moves(d.old.lacking(), d.new.lacking())
	for i := range lost {
		c := &lost[i]
		d.add(ChangeCableDown, c.a, c.b, "%s – %s went down", d.portLabel(d.old, c.near), d.portLabel(d.old, c.far))
	}
	for i := range gained {
		c := &gained[i]
		d.add(ChangeCableUp, c.a, c.b, "%s – %s came up", d.portLabel(d.new, c.near), d.portLabel(d.new, c.far))
	}
}

// lacking lists the cables that the other fabric lacks.
func (f *half) lacking() (list []cable) {
	for end := range f.liveEnds() {
		if _, both := f.twinEnd(end); !both && f.isNear(end) && f.stays(end.Node) && f.stays(f.far(end).Node) {
			list = append(list, f.cable(end))
		}
	}
	return list
}

// rates reports cables that run at another rate than before.
func (d *differ) rates() {
	for end := range d.new.liveEnds() {
		twin, both := d.new.twinEnd(end)
		if !both {
			continue
		}
		was, is := d.old.At(twin).Rate, d.new.At(end).Rate
		if was == is { // the ends can differ where a tool reads them apart
			was, is = d.old.At(d.old.far(twin)).Rate, d.new.At(d.new.far(end)).Rate
		}
		if was != is && d.new.isNear(end) {
			c := d.new.cable(end)
			d.add(ChangeCableRate, c.a, c.b, "%s – %s now runs at %s (was %s)", d.portLabel(d.new, c.near), d.portLabel(d.new, c.far), is, was)
		}
	}
}

// moves pairs lost with gained cables, reports each pair as a move, and returns
// the rest. Cables that keep both nodes and one port are paired first, then
// those that keep both nodes, then those that keep one port.
func (d *differ) moves(lost, gained []cable) (down, up []cable) {
	sameNodes := func(x, y *cable) bool { return x.a.Node == y.a.Node && x.b.Node == y.b.Node }
	samePort := func(x, y *cable) bool { return x.a == y.a || x.b == y.b || x.a == y.b || x.b == y.a }
	for _, moved := range []func(x, y *cable) bool{
		func(x, y *cable) bool { return sameNodes(x, y) && samePort(x, y) }, sameNodes, samePort,
	} {
		for i := 0; i < len(lost); i++ {
			j := slices.IndexFunc(gained, func(c cable) bool { return moved(&lost[i], &c) })
			if j < 0 {
				continue
			}
			d.move(&lost[i], &gained[j], sameNodes(&lost[i], &gained[j]))
			lost, gained = slices.Delete(lost, i, i+1), slices.Delete(gained, j, j+1)
			i--
		}
	}
	return lost, gained
}

// move reports that the cable was is now the cable is.
func (d *differ) move(was, is *cable, sameNodes bool) {
	if sameNodes {
		d.add(ChangeCableMoved, is.a, is.b, "%s – %s moved from port %d/%d to port %d/%d",
			d.label(&d.new.Nodes[is.near.Node]), d.label(&d.new.Nodes[is.far.Node]), was.a.Port, was.b.Port, is.a.Port, is.b.Port)
		return
	}
	// One port is kept: say which, and where its other end went.
	kept, from, to := is.near, was.far, is.far
	switch {
	case was.a == is.a:
	case was.b == is.b:
		kept, from, to = is.far, was.near, is.near
	case was.a == is.b:
		kept, from, to = is.far, was.far, is.near
	default:
		kept, from, to = is.near, was.near, is.far
	}
	d.add(ChangeCableMoved, is.a, is.b, "%s moved from %s to %s", d.portLabel(d.new, kept), d.portLabel(d.old, from), d.portLabel(d.new, to))
}
