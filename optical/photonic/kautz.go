package photonic

import (
	"context"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// mesh is a sequence of topologies of any kind, with a path for each flow on one
// of them.
type mesh struct {
	n, k  int
	next  [][]int32 // [topology][link] the GPU there; GPU u has links u·k, …, u·k+k−1
	paths []way     // [source·n + destination]
	load  [][]int   // [topology][link] flows over it
}

// way is a path on one topology.
type way struct {
	topology int32
	links    []int32
}

// kautz is the generalised Kautz graph (Imase and Itoh, IEEE Trans. Comput. C-32,
// 1983), the paper's second base: GPU u has links to −(k·u + r) mod n, r = 1..k.
// It returns [GPU·k + r−1]: links, which permutations assigns to switches.
func kautz(n, k int) []int32 {
	next := make([]int32, n*k)
	for u := range n {
		for r := range k {
			next[u*k+r] = int32((n - (k*u+r+1)%n) % n)
		}
	}
	return next
}

// permutations assigns the links of a regular topology to the switches by edge colouring.
// It returns the GPUs joined by each, [switch][GPU], and the switch of each link.
func permutations(ctx context.Context, n, k int, next []int32) (rows [][]int32, switches []uint16, err error) {
	switches = make([]uint16, n*k)
	var c bipartite.Colourer
	if err := c.Colours(ctx, n, k, next, switches); err != nil {
		return nil, nil, err
	}
	rows = make([][]int32, k)
	for s := range rows {
		rows[s] = make([]int32, n)
	}
	for link, s := range switches {
		rows[s][link/k] = next[link]
	}
	return rows, switches, nil
}

// newMesh starts with one topology and shortest paths on it.
func newMesh(n, k int, next []int32) *mesh {
	m := &mesh{n: n, k: k, paths: make([]way, n*n)}
	m.add(next)
	return m
}

// add adds a topology; flows that have a shorter path there move to it.
func (m *mesh) add(next []int32) {
	at := int32(len(m.next))
	m.next, m.load = append(m.next, next), append(m.load, make([]int, m.n*m.k))
	from := make([]int32, m.n) // [GPU] the link by which it is reached
	for src := range m.n {
		m.reach(next, src, from)
		for dst := range m.n {
			old := &m.paths[src*m.n+dst]
			if dst == src || from[dst] < 0 {
				continue
			}
			hops := 0
			for v := dst; v != src; v = int(from[v]) / m.k {
				hops++
			}
			if old.links != nil && len(old.links) <= hops {
				continue
			}
			links := make([]int32, hops)
			for v := dst; v != src; v = int(from[v]) / m.k {
				hops--
				links[hops] = from[v]
			}
			m.reroute(src*m.n+dst, way{at, links})
		}
	}
}

// reroute replaces the path of a flow.
func (m *mesh) reroute(flow int, w way) {
	old := m.paths[flow]
	for _, l := range old.links {
		m.load[old.topology][l]--
	}
	for _, l := range w.links {
		m.load[w.topology][l]++
	}
	m.paths[flow] = w
}

// reach is a breadth-first search of a topology from a source.
func (m *mesh) reach(next []int32, src int, from []int32) {
	for v := range from {
		from[v] = -1
	}
	queue := []int32{int32(src)}
	for len(queue) > 0 {
		u := int(queue[0])
		queue = queue[1:]
		for s := range m.k {
			link := u*m.k + s
			if v := next[link]; from[v] < 0 && int(v) != src {
				from[v] = int32(link)
				queue = append(queue, v)
			}
		}
	}
}

// busiest is the sum over all topologies of the load of the busiest link: the hop sum
// that a pipelined schedule comes close to.
func (m *mesh) busiest() int {
	sum := 0
	for _, load := range m.load {
		sum += slices.Max(load)
	}
	return sum
}

// contract adds a topology that joins the ends of the longest paths: k permutations with
// the largest sum of hops, each a linear assignment. It reports false if every flow has a
// direct link.
func (m *mesh) contract() (bool, error) {
	cost := make([]int64, m.n*m.n)
	longest := 0
	for i, w := range m.paths {
		cost[i] = -int64(len(w.links))
		if i/m.n == i%m.n {
			cost[i] = int64(m.n) // a link to itself is of no use
		}
		longest = max(longest, len(w.links))
	}
	if longest <= 1 {
		return false, nil
	}
	next := make([]int32, m.n*m.k)
	var assigner bipartite.Assigner
	for s := range m.k {
		column, _, err := assigner.Assign(m.n, cost)
		if err != nil {
			return false, err
		}
		for u, v := range column {
			next[u*m.k+s] = v
			cost[u*m.n+int(v)] = 0
		}
	}
	m.add(next)
	return true, nil
}

// spread lowers the load of the busiest links of the first topology step by step: a flow
// over one of them takes the shortest detour around all links that are as busy, of the
// least load among equals, until no flow finds a detour.
func (m *mesh) spread(ctx context.Context) error {
	load := m.load[0]
	for {
		top := slices.Max(load)
		for flow, w := range m.paths {
			if !slices.ContainsFunc(w.links, func(l int32) bool { return load[l] >= top }) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if links := m.around(flow/m.n, flow%m.n, top-1); links != nil {
				m.reroute(flow, way{0, links})
			}
		}
		if slices.Max(load) == top {
			return nil
		}
	}
}

// around is the cheapest path from a source over links with room below a load.
func (m *mesh) around(src, dst, room int) []int32 {
	const hop = 1 << 20
	next, load := m.next[0], m.load[0]
	cost := make([]int, m.n)
	from := make([]int32, m.n)
	for v := range cost {
		cost[v] = far << 20
	}
	cost[src] = 0
	queue := []int32{int32(src)}
	for len(queue) > 0 {
		u := int(queue[0])
		queue = queue[1:]
		for l := u * m.k; l < (u+1)*m.k; l++ {
			if v := next[l]; load[l] < room && cost[u]+hop+load[l] < cost[v] {
				cost[v], from[v] = cost[u]+hop+load[l], int32(l)
				queue = append(queue, v)
			}
		}
	}
	if cost[dst] == far<<20 {
		return nil
	}
	var links []int32
	for v := dst; v != src; v = int(from[v]) / m.k {
		links = append(links, from[v])
	}
	slices.Reverse(links)
	return links
}
