package photonic

import (
	"context"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// kautz is the generalised Kautz graph (Imase and Itoh, IEEE Trans. Comput. C-32,
// 1983): GPU u is joined to −(k·u + r) mod n, r = 1..k. An edge colouring assigns
// the links to switches.
type kautz struct {
	in    *Instance
	links []int32   // [GPU·k + switch] the GPU there
	paths [][]int32 // [source·n + destination] links
	load  []int     // [link] paths over it
}

// join makes the graph, with shortest paths.
func (m *kautz) join(ctx context.Context) error {
	n, k := m.in.GPUs, m.in.Degree
	graph, switches := make([]int32, n*k), make([]uint16, n*k)
	for link := range graph {
		u, r := link/k, link%k+1
		graph[link] = int32((n - (k*u+r)%n) % n)
	}
	var c bipartite.Colourer
	if err := c.Colours(ctx, n, k, graph, switches); err != nil {
		return err
	}
	m.links, m.paths, m.load = make([]int32, n*k), make([][]int32, n*n), make([]int, n*k)
	for link, s := range switches {
		m.links[link/k*k+int(s)] = graph[link]
	}
	for src := range n {
		for dst := range n {
			if dst != src {
				m.reroute(src*n+dst, m.around(src, dst, n*n))
			}
		}
	}
	return nil
}

// legs returns the paths.
func (m *kautz) legs() (legs []leg) {
	for flow, links := range m.paths {
		if len(links) > 0 {
			legs = append(legs, leg{flow: int32(flow), links: links})
		}
	}
	return legs
}

func (m *kautz) reroute(flow int, links []int32) {
	for _, l := range m.paths[flow] {
		m.load[l]--
	}
	for _, l := range links {
		m.load[l]++
	}
	m.paths[flow] = links
}

// spread lowers the load of the busiest links step by step: a flow over one of them takes
// the shortest detour around all links that are as busy, of the least load among equals,
// until no flow finds a detour.
func (m *kautz) spread(ctx context.Context) error {
	for {
		top := slices.Max(m.load)
		for flow, links := range m.paths {
			if !slices.ContainsFunc(links, func(l int32) bool { return m.load[l] >= top }) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if links := m.around(flow/m.in.GPUs, flow%m.in.GPUs, top-1); links != nil {
				m.reroute(flow, links)
			}
		}
		if slices.Max(m.load) == top {
			return nil
		}
	}
}

// around is the cheapest path from a source over links with room below a load.
func (m *kautz) around(src, dst, room int) []int32 {
	const hop = 1 << 20
	k := m.in.Degree
	cost := make([]int, m.in.GPUs)
	from := make([]int32, m.in.GPUs)
	for v := range cost {
		cost[v] = far << 20
	}
	cost[src] = 0
	queue := []int32{int32(src)}
	for len(queue) > 0 {
		u := int(queue[0])
		queue = queue[1:]
		for l := u * k; l < (u+1)*k; l++ {
			if v := m.links[l]; m.load[l] < room && cost[u]+hop+m.load[l] < cost[v] {
				cost[v], from[v] = cost[u]+hop+m.load[l], int32(l)
				queue = append(queue, v)
			}
		}
	}
	if cost[dst] == far<<20 {
		return nil
	}
	var links []int32
	for v := dst; v != src; v = int(from[v]) / k {
		links = append(links, from[v])
	}
	slices.Reverse(links)
	return links
}
