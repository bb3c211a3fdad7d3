package topology

import (
	"cmp"
	"slices"
)

// cable is a cable that is up, its end nearer to the hosts first: an adapter
// before a leaf, a leaf before a spine.
type cable struct {
	near, far PortRef
	a, b      CableEnd // near and far
}

// liveCables lists the cables that are up, in ascending order of their near
// ends, switches' before the others'. depth is each node's distance from the
// hosts; it decides which end is near.
func (f *Fabric) liveCables(depth map[GUID]int) []cable {
	var list []cable
	for _, i := range switchesFirst(f) {
		for p := range f.Nodes[i].Ports {
			near := PortRef{i, uint8(p)}
			if !f.cableUp(near) {
				continue
			}
			far := PortRef{f.At(near).Peer, f.At(near).PeerPort}
			a, b := f.end(near), f.end(far)
			if c := cmp.Compare(depth[a.Node], depth[b.Node]); c < 0 || c == 0 && compareEnds(a, b) <= 0 {
				list = append(list, cable{near, far, a, b})
			}
		}
	}
	return list
}

func compareEnds(a, b CableEnd) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port))
}

// depths tells how far a node is from the hosts in either fabric: 0 for what is
// no switch, 1 for a switch with hosts, 2 for the others.
func depths(fabrics ...*Fabric) map[GUID]int {
	depth := make(map[GUID]int, len(fabrics[0].Nodes))
	for _, f := range fabrics {
		for i, n := range f.neighbours() {
			guid := f.Nodes[i].GUID
			switch {
			case f.Nodes[i].Kind != Switch:
				depth[guid] = 0
			case n.hosts > 0:
				depth[guid] = 1
			case depth[guid] == 0:
				depth[guid] = 2
			}
		}
	}
	return depth
}

// cables reports cables that went down, came up, moved or changed their rate,
// between nodes that are live in both fabrics.
func (d *differ) cables() {
	depth := depths(d.old, d.new)
	was, is := d.old.liveCables(depth), d.new.liveCables(depth)
	before := make(map[[2]CableEnd]*cable, len(was))
	for i := range was {
		before[[2]CableEnd{was[i].a, was[i].b}] = &was[i]
	}
	var lost, gained []cable
	for i := range is {
		key := [2]CableEnd{is[i].a, is[i].b}
		if old, ok := before[key]; ok {
			d.rate(old, &is[i])
			delete(before, key)
		} else if d.stays(1, is[i].near.Node) && d.stays(1, is[i].far.Node) {
			gained = append(gained, is[i])
		}
	}
	for _, c := range was {
		if before[[2]CableEnd{c.a, c.b}] != nil && d.stays(0, c.near.Node) && d.stays(0, c.far.Node) {
			lost = append(lost, c)
		}
	}
	lost, gained = d.moves(lost, gained)
	for i := range lost {
		c := &lost[i]
		d.add(ChangeCableDown, c.a, c.b, "%s – %s went down", d.portLabel(d.old, c.near), d.portLabel(d.old, c.far))
	}
	for i := range gained {
		c := &gained[i]
		d.add(ChangeCableUp, c.a, c.b, "%s – %s came up", d.portLabel(d.new, c.near), d.portLabel(d.new, c.far))
	}
}

// rate reports a cable that runs at another rate than before.
func (d *differ) rate(old, new *cable) {
	was, is := d.old.At(old.near).Rate, d.new.At(new.near).Rate
	if was == is { // the ends can differ where a tool reads them apart
		was, is = d.old.At(old.far).Rate, d.new.At(new.far).Rate
	}
	if was != is {
		d.add(ChangeCableRate, new.a, new.b, "%s – %s now runs at %s (was %s)", d.portLabel(d.new, new.near), d.portLabel(d.new, new.far), is, was)
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

// move reports that the cable old is now new.
func (d *differ) move(old, new *cable, sameNodes bool) {
	if sameNodes {
		d.add(ChangeCableMoved, new.a, new.b, "%s – %s moved from port %d/%d to port %d/%d",
			d.label(&d.new.Nodes[new.near.Node]), d.label(&d.new.Nodes[new.far.Node]), old.a.Port, old.b.Port, new.a.Port, new.b.Port)
		return
	}
	// One port is kept: say which, and where its other end went.
	kept, from, to := new.near, old.far, new.far
	switch {
	case old.a == new.a:
	case old.b == new.b:
		kept, from, to = new.far, old.near, new.near
	case old.a == new.b:
		kept, from, to = new.far, old.far, new.near
	default:
		kept, from, to = new.near, old.near, new.far
	}
	d.add(ChangeCableMoved, new.a, new.b, "%s moved from %s to %s", d.portLabel(d.new, kept), d.portLabel(d.old, from), d.portLabel(d.new, to))
}
