package fors

import (
	"context"
	"math"

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
	bipartite.Frame
	colourer bipartite.Colourer
	phases   int
	vertex   []int32 // [server] on either side
	first    []int32 // [leaf] its first vertex, its servers' before its dummies'
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
	n := len(w.Left.Of)
	w.match = grow(w.match, n*w.phases)
	if err := w.Colour(ctx, &w.colourer, w.match); err != nil {
		return err
	}
	for c := range w.phases {
		m.plan.addPhase()
		to, _ := m.plan.Row(Phase(m.plan.Phases - 1))
		for u, v := range w.match[c*n:][:n] {
			s, d := Server(w.Left.Of[u]), Server(w.Right.Of[v])
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
	w.vertex, w.first = w.vertex[:0], w.first[:0]
	w.Frame = bipartite.Frame{Degree: int32(w.phases), Left: &bipartite.Side{}, Right: &bipartite.Side{}}
	add := func(s Server) int32 {
		w.Left.Add(int32(s), w.Degree)
		return w.Right.Add(int32(s), w.Degree)
	}
	for A, slots := range t.Slots {
		w.first = append(w.first, int32(len(w.Left.Of)))
		for range slots {
			w.vertex = append(w.vertex, add(Server(len(w.vertex))))
		}
		remote := max(demand.load(outward, A), demand.load(inward, A))
		busy := ceilDiv(remote, w.phases) // c_A
		busy = min(len(slots), max(busy, min(demand.up[A].Size(), ceilDiv(remote+local[A], w.phases))))
		for range len(slots) - busy {
			add(Idle)
		}
		if !all {
			local[A] = min(local[A], busy*w.phases-remote)
		}
	}
	w.first = append(w.first, int32(len(w.Left.Of)))
	for _, x := range pairs {
		if A := demand.leaf[x.Src]; A == demand.leaf[x.Dst] {
			if local[A] == 0 {
				continue
			}
			local[A]--
		}
		w.Join(w.vertex[x.Src], w.vertex[x.Dst], 1)
	}
}

// fill joins each leaf's dummies to servers of the leaf.
func (w *packing) fill(t *Tree) {
	for A, slots := range t.Slots {
		first, last := w.first[A], w.first[A+1]
		servers := first + int32(len(slots))
		w.Pour(first, servers, servers, last, math.MaxInt32)
		w.Pour(servers, last, first, servers, math.MaxInt32)
		w.Pour(servers, last, servers, last, math.MaxInt32)
	}
}
