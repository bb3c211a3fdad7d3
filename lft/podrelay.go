package lft

import "github.com/forsd/forsd/topology"

// Relays on three levels.
//
// If a leaf has lost its cable to a mid, no up-then-down path leads to it from the mid,
// from the tops above it and from the mids below these. Plans do not use such paths, but
// packets of these switches themselves would be lost, such as responses to monitoring; and
// all of them would have to change their tables. So the mid sends packets for the leaf down
// to the next leaf R of the pod, which goes on over another mid, and the other switches
// keep their tables.
//
// The channel dependency graph of all entries together has no cycle, because only mids of
// one index i within their pods relay:
//
//  1. A cycle has a channel down to a switch and then one up from it. Packets turn up again
//     at leaves R alone, after a mid of index i, and go on over a mid of another index.
//  2. Every switch adjacent to a mid of index i is a leaf, or only has cables to mids of
//     index i (alone). So from a mid of another index, a mid of index i is only reached over
//     a leaf that the packet has come down to, where only the packets of 1 turn, and they
//     turn to mids of another index. No second such turn follows the first, so no cycle
//     exists.

// arrival is how the mids of a plane come down to a leaf.
type arrival struct {
	port  uint8               // of the mid in the leaf's pod
	state topology.CableState // of the cable; Missing over a relay, NoCable without a path
}

// arrive finds the arrivals at a leaf: by the cable of the plane at full rate, by another
// one of the same mid, by one at a lower rate, and over a relay.
func (b *podBuilder) arrive(l int) {
	home := &b.Leaves[l]
	for j := range b.down {
		best := arrival{NoPath, topology.NoCable}
		for _, x := range b.ofMid[b.MidOf[j]] {
			if c := &home.Cables[x]; c.Usable() && (c.State > best.state || c.State == best.state && x == j) {
				best = arrival{c.SpinePort, c.State}
			}
		}
		if best.state == topology.NoCable && b.MidOf[j] == b.relay {
			if port := b.relayTo(l); port != NoPath {
				best = arrival{port, topology.Missing}
			}
		}
		b.down[j] = best
	}
}

// relayTo returns the port of the mid that relays to a leaf: it leads to the next leaf of
// the pod from which another mid leads on, at full rate all the way. NoPath if there is
// none, or if the leaf has not lost its cables to the relaying mid of its pod.
func (b *podBuilder) relayTo(l int) uint8 {
	home, n := &b.Leaves[l], len(b.Leaves)
	if !b.lost(l, b.relay) {
		return NoPath
	}
	for i := 1; i < n; i++ {
		r := &b.Leaves[(l+i)%n]
		if r.Pod != home.Pod || r.Node == topology.None {
			continue
		}
		port, on := NoPath, false
		for j := range b.Planes {
			switch {
			case r.Cables[j].State != topology.Full:
			case b.MidOf[j] == b.relay:
				port = r.Cables[j].SpinePort
			default:
				on = on || home.Cables[j].State == topology.Full
			}
		}
		if port != NoPath && on {
			return port
		}
	}
	return NoPath
}

// lost reports whether a leaf has lost all its cables to the mid of an index, and the mid
// is present.
func (b *podBuilder) lost(l, index int) bool {
	home, missing := &b.Leaves[l], false
	for _, j := range b.ofMid[index] {
		if home.Cables[j].Usable() {
			return false
		}
		missing = missing || home.Cables[j].State == topology.Missing
	}
	return missing && home.Node != topology.None && b.Mids[home.Pod*b.MidsPerPod()+index].Node != topology.None
}

// relaying returns the index of the mids that relay: the allowed index that most leaves have
// lost, the first of equals, or −1.
func (b *podBuilder) relaying() int {
	best, most := -1, 0
	for i := range b.ofMid {
		count := 0
		for l := range b.Leaves {
			if b.lost(l, i) {
				count++
			}
		}
		if count > most && b.alone(i) {
			best, most = i, count
		}
	}
	return best
}

// alone reports whether every switch adjacent to a mid of an index is a leaf, or only has
// cables to mids of this index.
func (b *podBuilder) alone(index int) bool {
	f := b.Fabric
	mids, leaves := make([]bool, len(f.Nodes)), make([]bool, len(f.Nodes))
	for p := range b.Pods {
		if node := b.Mids[p*b.MidsPerPod()+index].Node; node != topology.None {
			mids[node] = true
		}
	}
	for l := range b.Leaves {
		if node := b.Leaves[l].Node; node != topology.None {
			leaves[node] = true
		}
	}
	// beside calls ok for each switch adjacent to node until ok returns false.
	beside := func(node int32, ok func(int32) bool) bool {
		for p := range f.Nodes[node].Ports {
			if port := &f.Nodes[node].Ports[p]; port.Up() && f.Nodes[port.Peer].Kind == topology.Switch && !ok(port.Peer) {
				return false
			}
		}
		return true
	}
	for node := range mids {
		if mids[node] && !beside(int32(node), func(next int32) bool {
			return leaves[next] || beside(next, func(far int32) bool { return mids[far] })
		}) {
			return false
		}
	}
	return true
}
