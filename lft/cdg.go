package lft

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/forsd/forsd/topology"
)

// DeadlockFree checks that the channel dependency graph of the tables has no
// cycle (Dally and Seitz, 1987). A channel is one direction of a cable between
// two switches that is up; it depends on the channel that a LID in use takes
// next. Every entry counts, whether a packet can come that way or not. The error
// names the cables of a cycle in order, and for each a LID that goes on to the
// next.
func (t *Tables) DeadlockFree(f *topology.Fabric) error {
	g := t.dependencies(f)
	if cycle := g.cycle(); cycle != nil {
		return g.describe(f, cycle)
	}
	return nil
}

// LIDs lists the LIDs in use in f, in ascending order.
func LIDs(f *topology.Fabric) []topology.LID {
	var used [int(topology.MaxUnicastLID) + 1]bool
	count := 0
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if port.LID == 0 {
				continue
			}
			for lid := int(port.LID); lid < min(len(used), int(port.LID)+1<<port.LMC); lid++ {
				if !used[lid] {
					used[lid] = true
					count++
				}
			}
		}
	}
	lids := make([]topology.LID, 0, count)
	for lid, u := range used {
		if u {
			lids = append(lids, topology.LID(lid))
		}
	}
	return lids
}

// ports is a set of port numbers.
type ports [4]uint64

// graph is the channel dependency graph. Channel c = 256·i+p is output port p of
// switch i.
type graph struct {
	t    *Tables
	lids []topology.LID
	next []int32 // [channel] index of the switch that it leads to, −1 for no channel
	then []ports // [channel] the output ports there that it depends on
	node []int32 // [switch] index in the fabric
}

func (t *Tables) dependencies(f *topology.Fabric) *graph {
	n := len(t.Switches)
	g := &graph{t: t, lids: LIDs(f), next: make([]int32, 256*n), then: make([]ports, 256*n), node: make([]int32, n)}
	index := make([]int32, len(f.Nodes))
	for i := range index {
		index[i] = -1
	}
	for i := range t.Switches {
		if g.node[i] = f.Find(t.Switches[i].GUID); g.node[i] != topology.None {
			index[g.node[i]] = int32(i)
		}
	}
	for c := range g.next {
		g.next[c] = -1
		if node := g.node[c>>8]; node != topology.None && c&255 < min(len(f.Nodes[node].Ports), int(NoPath)) {
			if port := &f.Nodes[node].Ports[c&255]; port.Up() {
				g.next[c] = index[port.Peer]
			}
		}
	}
	for i := range t.Switches {
		g.dependenciesOf(i)
	}
	// Only channels can be waited for.
	for c := range g.then {
		if to := g.next[c]; to >= 0 {
			for p := range 256 {
				if g.next[int(to)<<8+p] < 0 {
					g.then[c][p>>6] &^= 1 << (p & 63)
				}
			}
		}
	}
	return g
}

// dependenciesOf adds what follows the channels of switch i.
func (g *graph) dependenciesOf(i int) {
	var tables [256][]uint8 // [port] the table of the switch behind it
	for p, to := range g.next[i<<8 : i<<8+256] {
		if to >= 0 {
			tables[p] = g.t.Switches[to].Out
		}
	}
	out, then := g.t.Switches[i].Out, g.then[i<<8:i<<8+256]
	for _, lid := range g.lids {
		if int(lid) >= len(out) {
			break
		}
		p := out[lid]
		if table := tables[p]; int(lid) < len(table) {
			q := table[lid]
			then[p][q>>6] |= 1 << (q & 63)
		}
	}
}

// cycle finds a cycle by depth-first search in the order of the channels; it is
// nil when there is none.
func (g *graph) cycle() []int32 {
	const (
		fresh = iota
		onPath
		finished
	)
	state := make([]uint8, len(g.next))
	var path []int32
	for root := range g.next {
		if g.next[root] < 0 || state[root] != fresh {
			continue
		}
		state[root] = onPath
		path = append(path[:0], int32(root))
		for len(path) > 0 {
			c := path[len(path)-1]
			d := g.follow(c)
			switch {
			case d < 0:
				state[c] = finished
				path = path[:len(path)-1]
			case state[d] == onPath:
				for i := range path {
					if path[i] == d {
						return path[i:]
					}
				}
			case state[d] == fresh:
				state[d] = onPath
				path = append(path, d)
			}
		}
	}
	return nil
}

// follow takes one dependency of channel c off its set and returns it, −1 when
// none is left.
func (g *graph) follow(c int32) int32 {
	set := &g.then[c]
	for w := range set {
		if set[w] != 0 {
			low := set[w] & -set[w]
			set[w] ^= low
			return g.next[c]<<8 + int32(w<<6) + int32(bits.TrailingZeros64(low))
		}
	}
	return -1
}

// describe puts a cycle into words.
func (g *graph) describe(f *topology.Fabric, cycle []int32) error {
	var text strings.Builder
	for i, c := range cycle {
		d := cycle[(i+1)%len(cycle)]
		label := f.CableLabel(topology.PortRef{Node: g.node[c>>8], Port: uint8(c)})
		fmt.Fprintf(&text, "%s (LID 0x%04x), then ", label, g.between(c, d))
	}
	return fmt.Errorf("packets can wait for each other in a ring: %sagain the first; rebuild the tables", text.String())
}

// between is the first LID that goes from channel c on to channel d.
func (g *graph) between(c, d int32) topology.LID {
	for _, lid := range g.lids {
		if g.t.Port(int(c>>8), lid) == uint8(c) && g.t.Port(int(d>>8), lid) == uint8(d) {
			return lid
		}
	}
	return 0
}
