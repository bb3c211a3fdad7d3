package papers

import (
	"fmt"
	"maps"
	"slices"

	"github.com/forsd/forsd/liquid"
)

// Class is the allocations of a network that have the same number of nodes and
// the same duration Λ of an all-to-all exchange, and so the same liquid
// throughput.
type Class struct {
	Nodes       int   // in the allocation
	Duration    int   // Λ
	Allocation  []int // the lexicographically first one, [switch]
	Allocations int   // how many there are
}

// maxAllocations bounds the allocations that Classes goes through.
const maxAllocations = 1 << 24

// Classes goes through all allocations of the network, in which each switch gives
// none, some or all of its nodes, and returns the classes, sorted by nodes and
// then by liquid throughput, as the paper sorts them along its figures' axis; the
// empty allocation comes first. It fails if there are more than 2²⁴ allocations, and
// if nodes of one switch are routed in different ways, because the number on each
// switch then does not determine the duration.
func Classes(n *liquid.Network) ([]Class, error) {
	capacity := n.Capacity()
	total := 1
	for _, c := range capacity {
		if total *= c + 1; total > maxAllocations {
			return nil, fmt.Errorf("network %s has more than %d allocations: too many to go through", n.Name, maxAllocations)
		}
	}
	through, err := throughOf(n)
	if err != nil {
		return nil, err
	}
	type key struct{ nodes, duration int }
	at := make(map[key]int)
	var classes []Class
	alloc := make([]int, len(capacity))
	for range total {
		k := key{duration: through.duration(alloc)}
		for _, a := range alloc {
			k.nodes += a
		}
		i, ok := at[k]
		if !ok {
			i = len(classes)
			at[k] = i
			classes = append(classes, Class{k.nodes, k.duration, slices.Clone(alloc), 0})
		}
		classes[i].Allocations++
		for s := len(alloc) - 1; s >= 0; s-- { // the next one in lexicographic order
			if alloc[s]++; alloc[s] <= capacity[s] {
				break
			}
			alloc[s] = 0
		}
	}
	slices.SortFunc(classes, func(a, b Class) int {
		if a.Nodes != b.Nodes {
			return a.Nodes - b.Nodes
		}
		return b.Duration - a.Duration // a longer one has a lower throughput
	})
	return classes, nil
}

// through is the pairs of switches whose routes use each link between switches,
// and each switch's links to its nodes.
type through struct {
	pairs [][][2]int // [link] without nodes' own links
	self  bool       // nodes send to themselves too
}

// duration is Λ of the all-to-all exchange of an allocation.
func (t *through) duration(alloc []int) int {
	nodes := 0
	for _, a := range alloc {
		nodes += a
	}
	most := nodes // on the cable of each node
	if !t.self && nodes > 0 {
		most--
	}
	for _, pairs := range t.pairs {
		load := 0
		for _, p := range pairs {
			load += alloc[p[0]] * alloc[p[1]]
		}
		most = max(most, load)
	}
	return most
}

// throughOf finds the pairs of switches that use each link. It checks that routes
// depend only on the nodes' switches, apart from links of the source or the
// destination that no other node uses, and that each node has one of these for
// all it sends.
func throughOf(n *liquid.Network) (*through, error) {
	nodes := n.Nodes()
	t := &through{self: n.Route(0, 0) != nil}
	users := make([]map[[2]int]int, len(n.Links)) // [link] routes by pair of switches
	srcs, dsts := make([]map[int]bool, len(n.Links)), make([]map[int]bool, len(n.Links))
	for l := range users {
		users[l], srcs[l], dsts[l] = make(map[[2]int]int), make(map[int]bool), make(map[int]bool)
	}
	for src := range nodes {
		for dst := range nodes {
			route := n.Route(src, dst)
			if (route == nil) != (src == dst && !t.self) {
				return nil, fmt.Errorf("network %s: the route from node %d to node %d is missing, or is one that other nodes do not have", n.Name, src, dst)
			}
			for _, l := range route {
				users[l][[2]int{n.NodeSwitch[src], n.NodeSwitch[dst]}]++
				srcs[l][src], dsts[l][dst] = true, true
			}
		}
	}
	capacity := n.Capacity()
	own := make([]bool, nodes) // [node] it has a link that carries all it sends
	for l := range users {
		routes := 0
		for _, r := range users[l] {
			routes += r
		}
		if len(srcs[l]) == 1 {
			for src := range srcs[l] {
				own[src] = own[src] || len(dsts[l]) == routes && (routes == nodes || routes == nodes-1 && !t.self)
			}
		}
		if len(srcs[l]) <= 1 || len(dsts[l]) <= 1 {
			continue // loaded no more than a node's own link
		}
		pairs := slices.SortedFunc(maps.Keys(users[l]), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
		for _, p := range pairs {
			if users[l][p] != capacity[p[0]]*capacity[p[1]] || p[0] == p[1] {
				return nil, fmt.Errorf("network %s: nodes of switches %d and %d are joined by different routes: link %d has some and not others", n.Name, p[0], p[1], l)
			}
		}
		t.pairs = append(t.pairs, pairs)
	}
	if node := slices.Index(own, false); node >= 0 {
		return nil, fmt.Errorf("network %s: node %d has no link of its own that all its routes use", n.Name, node)
	}
	return t, nil
}
