package fors

import (
	"context"

	"github.com/forsd/forsd/bipartite"
)

// side is one side of the graph whose edges are the units and whose colours are the blocks.
// Its vertices are bins of Φ units, one in each block: the lanes of a leaf's end are packed
// into bins, so that a lane carries one unit in a block, and same-leaf units fill the rest.
// If a leaf has more bins than it may have units in a block, a dummy on the other side
// keeps one of them idle.
type side struct {
	bins
	of []int32 // [leaf·lanes + lane] bin, −1 if unused
}

// bins are the vertices of a side.
type bins struct {
	first []int32 // [leaf] its first bin, one more at the end
	leaf  []int32 // [vertex] −1 for a dummy
	room  []int32 // [vertex] of Φ
}

// add appends a vertex and returns it.
func (b *bins) add(leaf, room int) int32 {
	b.leaf, b.room = append(b.leaf, int32(leaf)), append(b.room, int32(room))
	return int32(len(b.leaf) - 1)
}

// fit returns the first vertex from first on with room for a load, or a new vertex of the
// leaf.
func (b *bins) fit(first int32, load int32, leaf, room int) int32 {
	v := first
	for int(v) < len(b.leaf) && b.room[v] < load {
		v++
	}
	if int(v) == len(b.leaf) {
		v = b.add(leaf, room)
	}
	b.room[v] -= load
	return v
}

// blockGraph is that graph.
type blockGraph struct {
	*grouping
	outs, ins side
	arcs      []bipartite.Arc
}

// setBlocks colours the graph, and turns its edges into units.
func (x *grouping) setBlocks(ctx context.Context, y []int32) error {
	g := &blockGraph{grouping: x}
	g.pack(&g.outs, func(A, B, k int) int32 { return y[(A*x.leaves+B)*x.lanes+k] })
	g.pack(&g.ins, func(B, A, k int) int32 { return y[(A*x.leaves+B)*x.lanes+k] })
	g.connect(y)
	for A := range x.leaves {
		g.connectOwn(A)
	}
	n := g.regulate()
	match := make([]int32, n*x.blocks)
	colourer := bipartite.Colourer{Workers: x.workers}
	if err := colourer.Arcs(ctx, n, x.blocks, bipartite.ByLeft(n, g.arcs), match); err != nil {
		return err
	}
	g.read(n, match, y)
	x.from = x.indexBy(func(u *unit) int32 { return u.A })
	x.to = x.indexBy(func(u *unit) int32 { return u.B })
	return nil
}

// pack puts the lanes of each leaf into bins, each into the first with room, and adds bins
// until the leaf's own units fit as well. units returns how many units a leaf has with a
// peer on a lane.
func (g *blockGraph) pack(s *side, units func(leaf, peer, lane int) int32) {
	s.of = make([]int32, g.leaves*g.lanes)
	for A := range g.leaves {
		first, own := len(s.leaf), g.own(A)
		s.first = append(s.first, int32(first))
		for k := range g.lanes {
			load := int32(0)
			for B := range g.leaves {
				load += units(A, B, k)
			}
			s.of[A*g.lanes+k] = -1
			if load == 0 {
				continue
			}
			s.of[A*g.lanes+k] = s.fit(int32(first), load, A, g.blocks)
		}
		for _, room := range s.room[first:] {
			own -= int(room)
		}
		for ; own > 0; own -= g.blocks {
			s.add(A, g.blocks)
		}
	}
	s.first = append(s.first, int32(len(s.leaf)))
}

// own returns the number of units that a leaf has with itself.
func (g *blockGraph) own(A int) int { return g.net.units[A] * g.size[A] }

// addDummies appends dummies and returns the first, and the vertex after the last.
func (s *side) addDummies(count, blocks int) (first, end int) {
	first = len(s.leaf)
	for range count {
		s.add(-1, blocks)
	}
	return first, len(s.leaf)
}

// connect makes the arcs of the units between leaves.
func (g *blockGraph) connect(y []int32) {
	g.arcs = make([]bipartite.Arc, 0, len(y))
	for A := range g.leaves {
		for B := range g.leaves {
			for k, count := range y[(A*g.leaves+B)*g.lanes:][:g.lanes] {
				if count > 0 {
					g.arcs = append(g.arcs, bipartite.Arc{Left: g.outs.of[A*g.lanes+k], Right: g.ins.of[B*g.lanes+k], Count: count})
				}
			}
		}
	}
}

// connectOwn makes the arcs of a leaf's own units. In a block its groups have at
// most g destinations each and its servers one sender each: dummies hold the
// bins beyond these numbers.
func (g *blockGraph) connectOwn(A int) {
	u, uEnd := int(g.outs.first[A]), int(g.outs.first[A+1])
	v, vEnd := int(g.ins.first[A]), int(g.ins.first[A+1])
	g.pour(u, uEnd, v, vEnd, g.own(A))
	if idle := uEnd - u - g.net.units[A]*g.g; idle > 0 {
		first, end := g.ins.addDummies(idle, g.blocks)
		g.pour(u, uEnd, first, end, idle*g.blocks)
	}
	if idle := vEnd - v - g.size[A]; idle > 0 {
		first, end := g.outs.addDummies(idle, g.blocks)
		g.pour(first, end, v, vEnd, idle*g.blocks)
	}
}

// pour fills the room of left vertices from u on with edges to right vertices
// from v on, corner-wise, count of them.
func (g *blockGraph) pour(u, uEnd, v, vEnd, count int) {
	for count > 0 && u < uEnd && v < vEnd {
		if x := min(g.outs.room[u], g.ins.room[v], int32(count)); x > 0 {
			g.arcs = append(g.arcs, bipartite.Arc{Left: int32(u), Right: int32(v), Count: x})
			g.outs.room[u] -= x
			g.ins.room[v] -= x
			count -= int(x)
		}
		if g.outs.room[u] == 0 {
			u++
		} else if g.ins.room[v] == 0 {
			v++
		}
	}
}

// regulate makes the graph regular by edges that stand for idling, and returns
// the number of vertices of either side.
func (g *blockGraph) regulate() int {
	n := max(len(g.outs.leaf), len(g.ins.leaf))
	g.outs.addDummies(n-len(g.outs.leaf), g.blocks)
	g.ins.addDummies(n-len(g.ins.leaf), g.blocks)
	g.pour(0, n, 0, n, n*g.blocks)
	return n
}

// read makes units of the matched bins, ordered by block and source leaf. Of the
// edges between two bins as many are units as there are transfers left on a lane
// of both; the others idle.
func (g *blockGraph) read(n int, match, y []int32) {
	own, total := make([]int, g.leaves), 0
	for A := range own {
		own[A] = g.own(A)
		for B := range g.leaves {
			if g.joined(A, B) {
				total += g.net.units[A] * g.size[B]
			}
		}
	}
	g.units = make([]unit, 0, total)
	for block := range g.blocks {
		for u, v := range match[block*n : (block+1)*n] {
			A, B := g.outs.leaf[u], g.ins.leaf[v]
			if A < 0 || B < 0 {
				continue
			}
			lane, wanted := Local, A == B && own[A] > 0
			if A == B {
				own[A]--
			} else {
				lane, wanted = g.pickLane(int(A), int(B), int32(u), v, y)
			}
			if wanted {
				g.units = append(g.units, unit{block: int32(block), A: A, B: B, lane: lane})
			}
		}
	}
}

// pickLane takes a unit from A to B between two bins out of y, if there is one, and
// returns its lane.
func (g *blockGraph) pickLane(A, B int, u, v int32, y []int32) (Lane, bool) {
	left := y[(A*g.leaves+B)*g.lanes:][:g.lanes]
	outs, ins := g.outs.of[A*g.lanes:][:g.lanes], g.ins.of[B*g.lanes:][:g.lanes]
	for k := range left {
		if left[k] > 0 && outs[k] == u && ins[k] == v {
			left[k]--
			return Lane(k), true
		}
	}
	return Local, false
}
