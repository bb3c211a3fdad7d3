package fors

import (
	"context"

	"github.com/forsd/forsd/bipartite"
)

// packing packs pairs into new phases, as the frame of the exact planner packs
// transfers of leaves, with servers in place of bins. Servers are vertices on
// both sides, pairs edges, phases colours. With c_A = ⌈inter-leaf transfers of
// leaf A / Φ⌉, n_A − c_A dummies on either side keep as many servers of the leaf
// from sending, and from receiving, over its lanes in each phase. Edges between
// idle ends fill the rest, so that the graph is Φ-regular and has a colouring
// with Φ colours (König).
type packing struct {
	colourer bipartite.Colourer
	phases   int
	vertex   []int32    // [server] on either side
	first    []int32    // [leaf] its first vertex, its servers' before its dummies'
	server   []Server   // [vertex] Idle for a dummy
	room     [2][]int32 // [end][vertex] of Φ
	arcs     [][]bipartite.Arc
	flat     []bipartite.Arc
	match    []int32
}

// pack puts the remaining pairs into new phases, without lanes yet. No leaf has more
// transfers in a phase than lanes. Same-leaf pairs are packed as far as the idle ends leave
// room; if all is set, all of them are, and the leaves may then exceed their lanes in some
// phases.
func (m *mender) pack(ctx context.Context, all bool) error {
	if m.left.Len() == 0 {
		return nil
	}
	w := &m.packing
	rest := m.left.list()
	demand, err := newPairDemands(ctx, m.tree, rest)
	if err != nil {
		return err
	}
	if w.phases, _, err = demand.bound(ctx); err != nil {
		return err
	}
	w.layOut(m.tree, demand, rest, all)
	w.fill(m.tree)
	n := len(w.server)
	w.match, w.flat = grow(w.match, n*w.phases), w.flat[:0]
	for _, arcs := range w.arcs {
		w.flat = append(w.flat, arcs...)
	}
	if err := w.colourer.Arcs(ctx, n, w.phases, w.flat, w.match); err != nil {
		return err
	}
	for c := range w.phases {
		m.plan.addPhase()
		to, _ := m.plan.Row(Phase(m.plan.Phases - 1))
		for u, v := range w.match[c*n:][:n] {
			s, d := w.server[u], w.server[v]
			if s != Idle && d != Idle && m.left.Remove(s, d) { // no filler
				to[s] = d
			}
		}
	}
	return nil
}

// layOut makes the vertices, and the edges of pairs: of those between leaves, and
// of same-leaf pairs all or as many as find room.
func (w *packing) layOut(t *Tree, demand *pairDemands, pairs []Pair, all bool) {
	leaves := len(t.Slots)
	local := make([]int, leaves) // pairs
	for _, x := range pairs {
		if A := demand.leaf[x.Src]; A == demand.leaf[x.Dst] {
			local[A]++
		}
	}
	w.vertex, w.first, w.server = w.vertex[:0], w.first[:0], w.server[:0]
	for A, slots := range t.Slots {
		w.first = append(w.first, int32(len(w.server)))
		for range slots {
			w.vertex = append(w.vertex, int32(len(w.server)))
			w.server = append(w.server, Server(len(w.vertex)-1))
		}
		remote := max(demand.load(outward, A), demand.load(inward, A))
		busy := ceilDiv(remote, w.phases) // c_A
		busy = min(len(slots), max(busy, min(demand.up[A].Size(), ceilDiv(remote+local[A], w.phases))))
		for range len(slots) - busy {
			w.server = append(w.server, Idle)
		}
		if !all {
			local[A] = min(local[A], busy*w.phases-remote)
		}
	}
	w.first = append(w.first, int32(len(w.server)))
	for end := range w.room {
		w.room[end] = grow(w.room[end], len(w.server))
		for v := range w.room[end] {
			w.room[end][v] = int32(w.phases)
		}
	}
	w.arcs = grow(w.arcs, len(w.server))
	for u := range w.arcs {
		w.arcs[u] = w.arcs[u][:0]
	}
	for _, x := range pairs {
		if A := demand.leaf[x.Src]; A == demand.leaf[x.Dst] {
			if local[A] == 0 {
				continue
			}
			local[A]--
		}
		w.join(w.vertex[x.Src], w.vertex[x.Dst], 1)
	}
}

// join makes edges.
func (w *packing) join(u, v, count int32) {
	w.arcs[u] = append(w.arcs[u], bipartite.Arc{Left: u, Right: v, Count: count})
	w.room[outward][u] -= count
	w.room[inward][v] -= count
}

// fill makes the graph regular: each leaf's dummies first, whose edges lead to
// servers of the leaf, then servers of any leaves.
func (w *packing) fill(t *Tree) {
	for A, slots := range t.Slots {
		first, last := w.first[A], w.first[A+1]
		servers := first + int32(len(slots))
		w.pour(first, servers, servers, last)
		w.pour(servers, last, first, servers)
		w.pour(servers, last, servers, last)
	}
	w.pour(0, int32(len(w.server)), 0, int32(len(w.server)))
}

// pour joins left vertices u…uEnd−1 to right vertices v…vEnd−1 as far as both
// have room, corner-wise.
func (w *packing) pour(u, uEnd, v, vEnd int32) {
	for u < uEnd && v < vEnd {
		x := min(w.room[outward][u], w.room[inward][v])
		if x > 0 {
			w.join(u, v, x)
		}
		if w.room[outward][u] == 0 {
			u++
		} else {
			v++
		}
	}
}
