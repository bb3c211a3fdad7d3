package lft

import (
	"slices"
	"sort"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// link is a usable cable between a leaf and an upper switch.
type link struct {
	leafPort, upPort uint8
	full             bool
	index            int // of its lane among the spine's lanes, −1 without a lane
}

// upper is a switch above the leaves: a spine of the baseline, or a new switch
// that has cables to leaves only and no lanes yet.
type upper struct {
	node         int32 // None while it is absent
	first, lanes int   // its lanes; none for a new switch
}

// end is a range of LIDs and where it leaves the tree: a port of a leaf or of an upper
// switch.
type end struct {
	lid         ib.LID
	n           int   // LIDs
	leaf, upper int   // one of them is −1
	port        uint8 // of that switch; 0 for the switch's own LID
	alpha       int
}

// network is the fat tree in the form that the table builder needs.
type network struct {
	*topology.FatTree
	k       int // lanes, at least 1
	upperAt []int
	uppers  []upper
	links   []link   // by leaf, then upper, then lane; cables without a lane last
	first   []int32  // [leaf·uppers+upper] first link of the pair, and one more
	reach   []uint64 // [leaf·words…] the upper switches that a leaf has links to
	words   int
	relay   int   // the relay leaf, −1 without one
	ends    []end // on leaves by leaf, then on upper switches
	steps   []int // the numbers below k−1 that are coprime to it, at least 1
}

func newNetwork(t *topology.FatTree) *network {
	n := &network{FatTree: t, k: max(1, t.Lanes), upperAt: filled(len(t.Fabric.Nodes))}
	for s := range t.Spines {
		spine := &t.Spines[s]
		if spine.Node != topology.None {
			n.upperAt[spine.Node] = s
		}
		n.uppers = append(n.uppers, upper{spine.Node, spine.First, spine.Cables})
	}
	for _, node := range t.NewSpines {
		n.upperAt[node] = len(n.uppers)
		n.uppers = append(n.uppers, upper{node: node})
	}
	n.join()
	n.chooseRelay()
	n.collectEnds()
	for s := 1; s < max(2, n.k-1); s++ {
		if gcd(s, n.k-1) == 1 {
			n.steps = append(n.steps, s)
		}
	}
	return n
}

func filled(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = -1
	}
	return s
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// join lists the usable cables of every leaf with every upper switch.
func (n *network) join() {
	n.words = (len(n.uppers) + 63) / 64
	n.reach = make([]uint64, len(n.Leaves)*n.words)
	var extra [][]link
	for l := range n.Leaves {
		extra = n.withoutLane(l, extra)
		for u := range n.uppers {
			start := len(n.links)
			n.first = append(n.first, int32(start))
			for i := range n.uppers[u].lanes {
				if c := n.Leaves[l].Cables[n.uppers[u].first+i]; c.Usable() && n.Leaves[l].Node != topology.None {
					n.links = append(n.links, link{c.LeafPort, c.SpinePort, c.State == topology.Full, i})
				}
			}
			n.links = append(n.links, extra[u]...)
			if len(n.links) > start {
				n.reach[l*n.words+u/64] |= 1 << (u % 64)
			}
		}
	}
	n.first = append(n.first, int32(len(n.links)))
}

// withoutLane lists the cables of leaf l that have no lane, [upper]: surplus ones, and
// those to new switches. It reuses the memory of the previous result.
func (n *network) withoutLane(l int, extra [][]link) [][]link {
	if extra == nil {
		extra = make([][]link, len(n.uppers))
	}
	for u := range extra {
		extra[u] = extra[u][:0]
	}
	if n.Leaves[l].Node == topology.None {
		return extra
	}
	var laned [256]bool
	for _, c := range n.Leaves[l].Cables {
		if c.Usable() {
			laned[c.LeafPort] = true
		}
	}
	ports := n.Fabric.Nodes[n.Leaves[l].Node].Ports
	for p := range ports {
		if !ports[p].Up() || laned[p] {
			continue
		}
		if u := n.upperAt[ports[p].Peer]; u >= 0 {
			extra[u] = append(extra[u], link{uint8(p), ports[p].PeerPort, false, -1})
		}
	}
	return extra
}

// between returns the usable cables of leaf l to upper switch u.
func (n *network) between(l, u int) []link {
	i := l*len(n.uppers) + u
	return n.links[n.first[i]:n.first[i+1]]
}

func (n *network) reaches(l, u int) bool { return n.reach[l*n.words+u/64]>>(u%64)&1 != 0 }

// meet reports whether some upper switch has usable cables to both leaves.
func (n *network) meet(a, b int) bool {
	for w := range n.words {
		if n.reach[a*n.words+w]&n.reach[b*n.words+w] != 0 {
			return true
		}
	}
	return false
}

// chooseRelay chooses the leaf that reaches the most upper switches, the first among
// equals. If hosts need a relay because their leaves do not meet, it is the first of the leaves
// that meet the most others and reach at least half as many upper switches as any: the entries
// for these hosts change with the relay, and a dead cable seldom changes this one.
func (n *network) chooseRelay() {
	reach, met, apart := make([]int, len(n.Leaves)), make([]int, len(n.Leaves)), false
	for l := range n.Leaves {
		for u := range n.uppers {
			if n.reaches(l, u) {
				reach[l]++
			}
		}
		for d := range n.Leaves {
			if n.meet(l, d) {
				met[l]++
			} else if reach[l] > 0 && n.meet(d, d) {
				apart = true
			}
		}
	}
	n.relay = -1
	best, most := 0, slices.Max(append(reach, 0))
	for l, rank := range reach {
		if apart && rank > 0 {
			rank = 2*met[l] + min(1, 2*rank/most)
		}
		if rank > best {
			n.relay, best = l, rank
		}
	}
}

// collectEnds lists every LID range attached to the tree. A switch's own LID has the
// switch's number as its index, to spread them.
func (n *network) collectEnds() {
	for l := range n.Leaves {
		n.addSwitch(n.Leaves[l].Node, end{leaf: l, upper: -1, alpha: l})
	}
	for u := range n.uppers {
		n.addSwitch(n.uppers[u].node, end{leaf: -1, upper: u, alpha: u})
		if n.uppers[u].lanes == 0 {
			n.addHosts(u)
		}
	}
	for _, hosts := range [][]topology.Host{n.Hosts, n.Routed} {
		for i := range hosts {
			h := &hosts[i]
			n.add(end{lid: h.LID, n: 1 << h.LMC, leaf: h.Leaf, upper: h.Spine, port: h.At.Port, alpha: h.Alpha + h.First})
		}
	}
	sort.SliceStable(n.ends, func(a, b int) bool { return uint(n.ends[a].leaf) < uint(n.ends[b].leaf) })
}

func (n *network) add(e end) {
	if e.lid != 0 {
		n.ends = append(n.ends, e)
	}
}

// addSwitch adds the switch's own LID at the place at.
func (n *network) addSwitch(node int32, at end) {
	if node == topology.None {
		return
	}
	if ports := n.Fabric.Nodes[node].Ports; len(ports) > 0 {
		at.lid, at.n = ports[0].LID, 1<<ports[0].LMC
		n.add(at)
	}
}

// addHosts adds the hosts on an upper switch that the baseline does not know.
func (n *network) addHosts(u int) {
	ports := n.Fabric.Nodes[n.uppers[u].node].Ports
	for p := range ports {
		if !ports[p].Up() || n.Fabric.Nodes[ports[p].Peer].Kind == topology.Switch {
			continue
		}
		host := n.Fabric.At(topology.PortRef{Node: ports[p].Peer, Port: ports[p].PeerPort})
		n.add(end{lid: host.LID, n: 1 << host.LMC, leaf: -1, upper: u, port: uint8(p), alpha: p})
	}
}
