package topology

// The order of the switches.
//
// A packet goes up by rank and then down, so that channels wait for one another
// upwards, and then downwards, and never in a circle (Schroeder et al., Autonet, 1991:
// up*/down*). Leaves have one rank and spines, new ones among them, the next; a cable
// between two switches of one rank is not used. What hangs on the tree besides is in
// parts, each joined by cables among its switches, and lies below all leaves: no packet
// between two others passes through it.
//
// In a part every switch has a rank of its own, in the order of a breadth-first search
// from the one switch that is best attached, the highest. So all switches of a part
// reach one another, and the tree as far as it reaches the place where that switch is
// attached.

// rank fills Rank.
func (t *fitter) rank() {
	n := int32(len(t.Fabric.Nodes))
	t.Rank = make([]int32, n)
	leaf, spine := n+1, n+2
	for i := range t.Rank {
		for p := range t.Fabric.Nodes[i].Ports {
			if j := t.upperBehind(int32(i), p); j != None {
				t.Rank[i], t.Rank[j] = leaf, spine
			}
		}
	}
	t.rankParts(leaf)
}

// rankParts ranks the parts that hang on the tree, given the rank of leaves.
func (t *fitter) rankParts(leaf int32) {
	n := int32(len(t.Fabric.Nodes))
	for i := range t.Rank {
		if t.Rank[i] != 0 || t.Fabric.Nodes[i].Kind != Switch {
			continue
		}
		for at, j := range t.part(t.root(t.part(int32(i)), leaf)) {
			t.Rank[j] = n - int32(at)
		}
	}
}

// upperBehind returns the spine, old or new, that a port of a leaf leads to, or None.
func (t *fitter) upperBehind(i int32, port int) int32 {
	if t.leafAt[i] < 0 || !t.Fabric.cableUp(PortRef{i, uint8(port)}) {
		return None
	}
	if j := t.Fabric.Nodes[i].Ports[port].Peer; t.spineAt[j] >= 0 || t.newSpine[j] {
		return j
	}
	return None
}

// part lists the switches without a rank that cables among them join to i, breadth
// first.
func (t *fitter) part(i int32) []int32 {
	part, seen := []int32{i}, map[int32]bool{i: true}
	for at := 0; at < len(part); at++ {
		n := &t.Fabric.Nodes[part[at]]
		for p := range n.Ports {
			j := n.Ports[p].Peer
			if t.Fabric.cableUp(PortRef{part[at], uint8(p)}) && t.Fabric.Nodes[j].Kind == Switch && t.Rank[j] == 0 && !seen[j] {
				seen[j] = true
				part = append(part, j)
			}
		}
	}
	return part
}

// root returns the switch of a part that is best attached: to the leaf with the most cables
// to spines; without leaves, by the most cables to spines; without either, by the most
// cables. The first of equals wins.
func (t *fitter) root(part []int32, leaf int32) int32 {
	root, best := None, -1
	for _, i := range part {
		n := &t.Fabric.Nodes[i]
		score, weight := 0, len(t.Fabric.Nodes)*256
		for p := range n.Ports {
			if !t.Fabric.cableUp(PortRef{i, uint8(p)}) || t.Fabric.Nodes[n.Ports[p].Peer].Kind != Switch {
				continue
			}
			switch j := n.Ports[p].Peer; {
			case t.Rank[j] == leaf:
				score = max(score, weight*(1+len(t.near[j].switches)))
			case t.Rank[j] != 0:
				score += 256
			default:
				score++
			}
		}
		if score > best || score == best && i < root {
			root, best = i, score
		}
	}
	return root
}
