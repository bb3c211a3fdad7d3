package lft

import (
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// ringByHand decides whether the channel dependency graph has a cycle by taking
// channels without successors away until none is left.
func ringByHand(t *Tables, f *topology.Fabric) bool {
	follows := map[topology.PortRef]map[topology.PortRef]bool{}
	channel := func(node int32, lid ib.LID) (topology.PortRef, bool) {
		i := t.Find(f.Nodes[node].GUID)
		if i < 0 {
			return topology.PortRef{}, false
		}
		out := t.Port(i, lid)
		if out == NoPath || int(out) >= len(f.Nodes[node].Ports) {
			return topology.PortRef{}, false
		}
		port := &f.Nodes[node].Ports[out]
		return topology.PortRef{Node: node, Port: out}, port.Up() && f.Nodes[port.Peer].Kind == topology.Switch
	}
	for _, lid := range LIDs(f) {
		for i := range f.Nodes {
			if f.Nodes[i].Kind != topology.Switch {
				continue
			}
			c, ok := channel(int32(i), lid)
			if !ok {
				continue
			}
			if d, ok := channel(f.At(c).Peer, lid); ok {
				if follows[c] == nil {
					follows[c] = map[topology.PortRef]bool{}
				}
				follows[c][d] = true
			}
		}
	}
	for removed := true; removed; {
		removed = false
		for c, next := range follows {
			for d := range next {
				if follows[d] == nil {
					delete(next, d)
				}
			}
			if len(next) == 0 {
				delete(follows, c)
				removed = true
			}
		}
	}
	return len(follows) > 0
}
