package fors

import (
	"math"

	"github.com/forsd/forsd/bipartite"
)

// frame is the graph whose edges are the inter-leaf transfers and whose colours are the
// phases. The lanes of a leaf are packed into bins of at most Φ transfers, out-bins being
// left vertices and in-bins right ones: transfers in one bin are in different phases. With
// c_A = ⌈transfers of A / Φ⌉, dummy vertices keep all but c_A bins of a leaf idle in each
// phase, and edges from its out-bins to its in-bins, phases in which its servers may send
// to each other, fill the rest, so that the graph is Φ-regular.
type frame struct {
	*net
	bipartite.Frame
	bins [2]binning // of the out-bins, in-bins
}

// side is the bins of one end of the leaves, each of a number of transfers, and dummies.
type side struct {
	bipartite.Side         // of leaves
	first          []int32 // [leaf] its first bin, one more at the end
	of             []int32 // [leaf·lanes + lane] bin, −1 if unused
}

// pack puts the lanes of the next leaf into bins, each into the first with room.
func pack[I int | int32](s *side, load []I, degree int32) {
	A, first := int32(len(s.first)), int32(len(s.Of))
	s.first = append(s.first, first)
	for _, x := range load {
		bin := int32(-1)
		if x > 0 {
			bin = s.Fit(first, int32(x), A, degree)
		}
		s.of = append(s.of, bin)
	}
}

// binning is a side whose bins know their lanes. The vertices of a leaf are its bins, then
// the dummies of the other end.
type binning struct {
	side
	count []int32 // [leaf] bins
	lane  []int32 // [vertex] the first of its lanes
	after []int32 // [leaf·lanes + lane] the next lane of its vertex, −1 if none
	only  []Lane  // [vertex] its lane, −1 if it has several
}

// linkLoads sums a spread up by links out of the leaves and into them.
func linkLoads(n *net, y []int32) (load [2][]int32) {
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
	return load
}

func newFrame(n *net, phases int, y []int32, arcs []bipartite.Arc) *frame {
	g := &frame{net: n}
	outs, ins := &g.bins[outward], &g.bins[inward]
	g.Frame = bipartite.Frame{Degree: int32(phases), Left: &outs.Side, Right: &ins.Side, Arcs: arcs}
	load := linkLoads(n, y)
	for A := range n.leaves {
		for end := range g.bins {
			b := &g.bins[end]
			pack(&b.side, load[end][A*n.lanes:][:n.lanes], g.Degree)
			b.name(A, n.lanes)
		}
		busy := ceilDiv(n.out(A), phases) // c_A
		for range int(ins.count[A]) - busy {
			g.Dummy(&outs.Side)
		}
		for range int(outs.count[A]) - busy {
			g.Dummy(&ins.Side)
		}
	}
	end := int32(len(outs.Of))
	outs.first, ins.first = append(outs.first, end), append(ins.first, end)
	g.connect(y)
	return g
}

// name lists the lanes of the bins of a leaf.
func (b *binning) name(A, lanes int) {
	b.count = append(b.count, int32(len(b.Of))-b.first[A])
	for len(b.lane) < len(b.Of) {
		b.lane, b.only = append(b.lane, -1), append(b.only, -1)
	}
	for k, v := range b.of[A*lanes:] {
		if b.after = append(b.after, -1); v < 0 {
			continue
		}
		if b.only[v] = -1; b.lane[v] < 0 {
			b.only[v] = Lane(k)
		}
		b.after[A*lanes+k], b.lane[v] = b.lane[v], int32(k)
	}
}

// connect makes the arcs.
func (g *frame) connect(y []int32) {
	outs, ins := &g.bins[outward], &g.bins[inward]
	count := make([]int32, len(ins.Of))
	var reached []int32
	for A := range g.leaves {
		u, uEnd, v, vEnd := outs.first[A], outs.first[A]+outs.count[A], ins.first[A], ins.first[A]+ins.count[A]
		g.Pour(uEnd, outs.first[A+1], v, vEnd, math.MaxInt32)
		for u := u; u < uEnd; u++ {
			reached = g.transfers(A, u, y, count, reached[:0])
		}
		g.Pour(u, uEnd, vEnd, ins.first[A+1], math.MaxInt32)
		g.Pour(u, uEnd, v, vEnd, math.MaxInt32)
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
		g.Arcs = append(g.Arcs, bipartite.Arc{Left: u, Right: v, Count: count[v]})
		count[v] = 0
	}
	return reached
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
