package fors

import "github.com/forsd/forsd/bipartite"

// frame is the graph whose edges are the inter-leaf transfers and whose colours are the
// phases. The lanes of a leaf are packed into bins of at most Φ transfers, out-bins being
// left vertices and in-bins right ones: transfers in one bin are in different phases. With
// c_A = ⌈transfers of A / Φ⌉, dummy vertices keep all but c_A bins of a leaf idle in each
// phase, and edges from its out-bins to its in-bins, phases in which its servers may send
// to each other, fill the rest, so that the graph is Φ-regular.
type frame struct {
	*net
	phases int
	bins   [2]binning // of the out-bins, in-bins
	n      int        // vertices of either side
	arcs   []bipartite.Arc
}

// binning packs the lanes of one end into bins. The vertices of a leaf are its bins, then
// the dummies of the other end.
type binning struct {
	side
	count []int32 // [leaf] bins
	lane  []int32 // [vertex] the first of its lanes
	after []int32 // [leaf·lanes + lane] the next lane of its vertex, −1 if none
	only  []Lane  // [vertex] its lane, −1 if it has several
}

func newFrame(n *net, phases int, y []int32) *frame {
	g := &frame{net: n, phases: phases}
	var load [2][]int32
	for end := range load {
		load[end] = make([]int32, n.leaves*n.lanes)
	}
	for A := range n.leaves {
		for B := range n.leaves {
			for k, count := range y[(A*n.leaves+B)*n.lanes:][:n.lanes] {
				load[outward][A*n.lanes+k] += count
				load[inward][B*n.lanes+k] += count
			}
		}
	}
	for end := range g.bins {
		g.bins[end].of, g.bins[end].after = make([]int32, n.leaves*n.lanes), make([]int32, n.leaves*n.lanes)
	}
	for A := range n.leaves {
		for end := range g.bins {
			g.pack(&g.bins[end], A, load[end][A*n.lanes:][:n.lanes])
		}
		busy := ceilDiv(n.out(A), phases) // c_A
		for range int(g.bins[inward].count[A]) - busy {
			g.bins[outward].Add(-1, int32(phases))
		}
		for range int(g.bins[outward].count[A]) - busy {
			g.bins[inward].Add(-1, int32(phases))
		}
	}
	for end := range g.bins {
		b := &g.bins[end]
		b.first = append(b.first, int32(len(b.Of)))
	}
	g.n = len(g.bins[outward].Of)
	return g
}

// pack puts the lanes of a leaf into bins, each into the first that has room.
func (g *frame) pack(b *binning, A int, load []int32) {
	first := len(b.Of)
	b.first = append(b.first, int32(first))
	of, after := b.of[A*g.lanes:][:g.lanes], b.after[A*g.lanes:][:g.lanes]
	for k, x := range load {
		of[k] = -1
		if x == 0 {
			continue
		}
		v := b.Fit(int32(first), x, int32(A), int32(g.phases))
		b.name()
		of[k], after[k], b.lane[v] = v, b.lane[v], int32(k)
		if b.only[v] = Lane(k); after[k] >= 0 {
			b.only[v] = -1
		}
	}
	b.count = append(b.count, int32(len(b.Of)-first))
}

// name allocates the lanes of added vertices.
func (b *binning) name() {
	for len(b.lane) < len(b.Of) {
		b.lane, b.only = append(b.lane, -1), append(b.only, -1)
	}
}

// connect makes the arcs, ordered by left vertex. Room is filled corner-wise,
// by dummies first.
func (g *frame) connect(y []int32) {
	outs, ins := &g.bins[outward], &g.bins[inward]
	count := make([]int32, g.n) // [right]
	var reached []int32
	var ofDummies []bipartite.Arc
	for A := range g.leaves {
		bins, end := outs.first[A]+outs.count[A], outs.first[A+1]
		v := ins.first[A]
		mark := len(g.arcs)
		for u := bins; u < end; u++ {
			v = g.pour(A, u, v)
		}
		ofDummies = append(ofDummies[:0], g.arcs[mark:]...)
		g.arcs = g.arcs[:mark]
		v = ins.next(A, ins.first[A]+ins.count[A]-1)
		for u := outs.first[A]; u < bins; u++ {
			reached = g.transfers(A, u, y, count, reached[:0])
			v = g.pour(A, u, v)
		}
		g.arcs = append(g.arcs, ofDummies...)
	}
}

// transfers makes the arcs of an out-bin to the other leaves' in-bins. All of
// count is 0 before and after; reached is scratch memory.
func (g *frame) transfers(A int, u int32, y, count, reached []int32) []int32 {
	outs, ins := &g.bins[outward], &g.bins[inward]
	for k := int(outs.lane[u]); k >= 0; k = int(outs.after[A*g.lanes+k]) {
		for B := range g.leaves {
			x := y[(A*g.leaves+B)*g.lanes+k]
			if x == 0 {
				continue
			}
			v := ins.of[B*g.lanes+k]
			if count[v] == 0 {
				reached = append(reached, v)
			}
			count[v] += x
		}
	}
	for _, v := range reached {
		g.arcs = append(g.arcs, bipartite.Arc{Left: u, Right: v, Count: count[v]})
		count[v] = 0
	}
	return reached
}

// pour fills the room of a left vertex with edges to right vertices of its leaf,
// from v on, and returns the first that has room left.
func (g *frame) pour(A int, u, v int32) int32 {
	outs, ins := &g.bins[outward], &g.bins[inward]
	for outs.Room[u] > 0 {
		if x := min(outs.Room[u], ins.Room[v]); x > 0 {
			g.arcs = append(g.arcs, bipartite.Arc{Left: u, Right: v, Count: x})
			outs.Room[u] -= x
			ins.Room[v] -= x
		}
		if ins.Room[v] == 0 {
			v = ins.next(A, v)
		}
	}
	return v
}

// next returns the vertex after v among those of a leaf, cyclically.
func (b *binning) next(A int, v int32) int32 {
	if v++; v >= b.first[A+1] {
		return b.first[A]
	}
	return v
}

// pickLane takes a transfer from A to B between two bins out of y, and returns its lane.
func (g *frame) pickLane(A, B int, u, v int32, y []int32) Lane {
	after := g.bins[outward].after[A*g.lanes:][:g.lanes]
	k := g.bins[outward].lane[u]
	left, of := y[(A*g.leaves+B)*g.lanes:][:g.lanes], g.bins[inward].of[B*g.lanes:][:g.lanes]
	for left[k] == 0 || of[k] != v {
		k = after[k]
	}
	left[k]--
	return Lane(k)
}
