package fors

import (
	"context"

	"github.com/forsd/forsd/bipartite"
)

// shedding takes out of each phase what leaves have there beyond their living lanes.
type shedding struct {
	m    *mender
	most int      // transfers taken of a server
	lost [2][]int // [end][server] transfers taken
	flow bipartite.Flow
	arcs []int32 // [source] of the flow, −1 if none
}

// shed takes out of each phase what leaves have there beyond their living lanes. One transfer
// less is one less at both of its leaves, which counts twice if both have too many (maximum
// flow). A server loses at most one for each new phase, as
// evenly over the old ones as possible, and those on dead lanes first.
func (m *mender) shed(ctx context.Context) {
	n, old := m.pairs.Servers(), m.plan.Phases
	x := shedding{m: m, most: m.bounds.LowerBound - old, arcs: make([]int32, n)}
	x.lost[outward], x.lost[inward] = make([]int, n), make([]int, n)
	for ph := 0; ph < old && ctx.Err() == nil; ph++ {
		x.phase(ph, 1+x.most*ph/old)
	}
}

// phase takes transfers out of a phase. Only if these do not suffice, a server loses more
// than limit in all.
func (x *shedding) phase(ph, limit int) {
	to, lane := x.m.plan.Row(Phase(ph))
	b := x.m.board
	n := int32(b.leaves)
	source, sink := 2*n, 2*n+1
	if !x.excess(to, source, sink) {
		return
	}
	for _, c := range []struct {
		dead bool
		most int
	}{{true, limit}, {false, limit}, {false, x.most}} {
		for s, d := range to {
			if d == Idle || b.leaf[s] == b.leaf[d] || x.arcs[s] >= 0 || max(x.lost[outward][s], x.lost[inward][d]) >= c.most ||
				c.dead && lane[s] >= 0 && int(lane[s]) < b.lanes && b.usable(Server(s), d, lane[s]) {
				continue
			}
			x.arcs[s] = x.flow.Arc(b.leaf[s], n+b.leaf[d], 0, 1)
		}
		x.flow.Maximum(source, sink)
	}
	for s, arc := range x.arcs {
		if arc >= 0 && x.flow.Carried(arc) > 0 {
			x.lost[outward][s]++
			x.lost[inward][to[s]]++
			x.m.left.Add(Server(s), to[s])
			to[s], lane[s] = Idle, Local
		}
	}
}

// excess begins the flow of a phase: from the source to each leaf, and from each leaf as a
// destination to the sink, as much as the leaf has beyond its living lanes. It reports
// whether there is any.
func (x *shedding) excess(to []Server, source, sink int32) bool {
	n := source / 2
	over := make([]int, 2*n)
	for A, up := range x.m.tree.Up {
		over[A] = -commonLanes(up, up)
	}
	copy(over[n:], over)
	for s, d := range to {
		x.arcs[s] = -1
		if A := x.m.board.leaf[s]; d != Idle && A != x.m.board.leaf[d] {
			over[A]++
			over[n+x.m.board.leaf[d]]++
		}
	}
	x.flow.Reset(int(sink) + 1)
	out, in := 0, 0
	for A := range n {
		out, in = max(out, over[A]), max(in, over[n+A])
		x.flow.Arc(source, A, 0, max(0, over[A]))
		x.flow.Arc(n+A, sink, 0, max(0, over[n+A]))
	}
	return min(out, in) > 0
}
