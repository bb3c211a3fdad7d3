package bipartite

// walkCap is the most steps that a random walk makes before a search takes over.
// Expected walks are short; on skewed graphs some are not.
const walkCap = 400

// seed makes the random numbers of a part of the graph a function of that part.
func (w *worker) seed(first, degree int) {
	w.random = uint64(first)<<32 ^ uint64(degree)*0x9e3779b97f4a7c15
}

// below returns a random number of 0…n−1.
func (w *worker) below(n int32) int32 {
	w.random = w.random*6364136223846793005 + 1442695040888963407
	return int32(w.random >> 32 * uint64(n) >> 32)
}

// adjacency is a regular graph by left vertices: arcs start[u] … end[u]−1 are
// those of u.
type adjacency struct {
	degree     int32
	start, end []int32
	arcs       []Arc
}

// perfect finds a perfect matching, which every regular graph has. The edge of
// left vertex u is then of arc w.pick[u].
func (w *worker) perfect(n int, g *adjacency) {
	owner := grow(&w.owner, n)
	for v := range owner {
		owner[v] = -1
	}
	grow(&w.pick, n)
	grow(&w.exit, n)
	copy(grow(&w.look, n), g.start[:n])
	open := w.open[:0]
	for u := range int32(n) {
		if i := w.free(g, u); i >= 0 {
			w.pick[u], owner[g.arcs[i].Right] = i, u
		} else {
			w.pick[u] = -1
			open = append(open, u)
		}
	}
	w.open = open
	for _, u := range open {
		if !w.walk(g, u) {
			w.search(n, g, u)
		}
	}
}

// free returns the first place of u whose right vertex is not matched, or −1. A
// right vertex once matched stays so, and no place is looked at twice.
func (w *worker) free(g *adjacency, u int32) int32 {
	end := g.end[u]
	for i := w.look[u]; i < end; i++ {
		if w.owner[g.arcs[i].Right] < 0 {
			w.look[u] = i + 1
			return i
		}
	}
	w.look[u] = end
	return -1
}

// walk looks for an augmenting path from u: over a random edge to the right and
// back over a matched one, until a vertex has a free neighbour. It gives up after
// walkCap steps.
func (w *worker) walk(g *adjacency, first int32) bool {
	u := first
	for range walkCap {
		i := w.sample(g, u)
		w.exit[u] = i
		u = w.owner[g.arcs[i].Right]
		if i = w.free(g, u); i >= 0 {
			w.exit[u] = i
			w.retrace(g, first)
			return true
		}
	}
	return false
}

// sample returns the arc of a random edge of u.
func (w *worker) sample(g *adjacency, u int32) int32 {
	i := g.start[u]
	for r := w.below(g.degree) - g.arcs[i].Count; r >= 0; r -= g.arcs[i].Count {
		i++
	}
	return i
}

// retrace matches along a walk from u. Each vertex keeps its last way out, which
// leaves the walk's loops out.
func (w *worker) retrace(g *adjacency, u int32) {
	for u >= 0 {
		i := w.exit[u]
		v := g.arcs[i].Right
		w.pick[u] = i
		w.owner[v], u = u, w.owner[v]
	}
}

// search finds an augmenting path from u breadth first and matches along it.
func (w *worker) search(n int, g *adjacency, root int32) {
	from := grow(&w.from, n) // [right] the place that it was reached by, −1 if none
	for v := range from {
		from[v] = -1
	}
	by := grow(&w.by, n) // [right] the left vertex of that place
	w.queue = append(w.queue[:0], root)
	queue := w.queue
	defer func() { w.queue = queue }()
	for head := 0; head < len(queue); head++ {
		u := queue[head]
		for i := g.start[u]; i < g.end[u]; i++ {
			v := g.arcs[i].Right
			if from[v] >= 0 {
				continue
			}
			from[v], by[v] = i, u
			if w.owner[v] < 0 {
				w.augment(g, v, root)
				return
			}
			queue = append(queue, w.owner[v])
		}
	}
}

// augment matches along the path that search found to v.
func (w *worker) augment(g *adjacency, v, root int32) {
	for {
		u := w.by[v]
		before := w.pick[u]
		w.pick[u], w.owner[v] = w.from[v], u
		if u == root {
			return
		}
		v = g.arcs[before].Right
	}
}

// takeFromArcs finds a perfect matching of arcs, copies it to match and appends
// the arcs without it to rest.
func (w *worker) takeFromArcs(n, degree int, arcs []Arc, match []int32, rest []Arc) []Arc {
	g := adjacency{degree: int32(degree), start: grow(&w.start, n), end: grow(&w.end, n), arcs: arcs}
	u := int32(-1)
	for i, arc := range arcs {
		if arc.Left != u {
			u = arc.Left
			g.start[u] = int32(i)
		}
		g.end[u] = int32(i + 1)
	}
	w.perfect(n, &g)
	for i, arc := range arcs {
		if w.pick[arc.Left] == int32(i) {
			match[arc.Left] = arc.Right
			arc.Count--
		}
		if arc.Count > 0 {
			rest = append(rest, arc)
		}
	}
	return rest
}
