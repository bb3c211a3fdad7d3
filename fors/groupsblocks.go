package fors

import (
	"context"

	"github.com/forsd/forsd/bipartite"
)

// blockGraph is the graph whose edges are the units and whose colours are the blocks. Its
// vertices are bins of Φ units, one in each block: the lanes of a leaf's end are packed
// into bins, so that a lane carries one unit in a block, and same-leaf units fill the rest.
// If a leaf has more bins than it may have units in a block, a dummy on the other side
// keeps one of them idle.
type blockGraph struct {
	*grouping
	bipartite.Frame
	outs, ins side
}

// setBlocks colours the graph, and turns its edges into units.
func (x *grouping) setBlocks(ctx context.Context, y []int32) error {
	g := &blockGraph{grouping: x}
	g.Frame = bipartite.Frame{Degree: int32(x.blocks), Left: &g.outs.Side, Right: &g.ins.Side}
	load := linkLoads(x.net, y)
	g.pack(&g.outs, load[outward])
	g.pack(&g.ins, load[inward])
	g.connect(y)
	for A := range x.leaves {
		g.connectOwn(A)
	}
	n := g.Even()
	match := make([]int32, n*x.blocks)
	if err := g.Colour(ctx, &bipartite.Colourer{Workers: x.workers}, match); err != nil {
		return err
	}
	g.read(n, match, y)
	x.from = x.index(func(u *unit) int32 { return u.A })
	x.to = x.index(func(u *unit) int32 { return u.B })
	return nil
}

// pack packs the lanes of each leaf, and adds bins until the leaf's own units fit as well.
func (g *blockGraph) pack(s *side, load []int32) {
	for A := range g.leaves {
		pack(s, load[A*g.lanes:][:g.lanes], g.Degree)
		own := g.own(A)
		for _, room := range s.Room[s.first[A]:] {
			own -= int(room)
		}
		for ; own > 0; own -= g.blocks {
			s.Add(int32(A), g.Degree)
		}
	}
	s.first = append(s.first, int32(len(s.Of)))
}

// own returns the number of units that a leaf has with itself.
func (g *blockGraph) own(A int) int { return g.net.units[A] * g.size[A] }

// connect makes the arcs of the units between leaves.
func (g *blockGraph) connect(y []int32) {
	g.Arcs = make([]bipartite.Arc, 0, len(y))
	for A := range g.leaves {
		for B := range g.leaves {
			for k, count := range y[(A*g.leaves+B)*g.lanes:][:g.lanes] {
				if count > 0 {
					g.Arcs = append(g.Arcs, bipartite.Arc{Left: g.outs.of[A*g.lanes+k], Right: g.ins.of[B*g.lanes+k], Count: count})
				}
			}
		}
	}
}

// connectOwn makes the arcs of a leaf's own units. In a block its groups have at
// most g destinations each and its servers one sender each: dummies hold the
// bins beyond these numbers.
func (g *blockGraph) connectOwn(A int) {
	u, uEnd := g.outs.first[A], g.outs.first[A+1]
	v, vEnd := g.ins.first[A], g.ins.first[A+1]
	g.Pour(u, uEnd, v, vEnd, int32(g.own(A)))
	for range int(uEnd-u) - g.net.units[A]*g.g {
		dummy := g.Dummy(g.Right)
		g.Pour(u, uEnd, dummy, dummy+1, g.Degree)
	}
	for range int(vEnd-v) - g.size[A] {
		dummy := g.Dummy(g.Left)
		g.Pour(dummy, dummy+1, v, vEnd, g.Degree)
	}
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
			A, B := g.outs.Of[u], g.ins.Of[v]
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
