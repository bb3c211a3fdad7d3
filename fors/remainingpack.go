package fors

import (
	"context"
	"math"

	"github.com/forsd/forsd/bipartite"
)

// packing packs pairs into phases, as the frame of the exact planner packs
// transfers of leaves, with servers in place of bins. Servers are vertices on
// both sides, pairs edges, phases colours. With c_A = ⌈inter-leaf transfers of
// leaf A / Φ⌉, n_A − c_A dummies on either side keep as many servers of the leaf
// from sending, and from receiving, over its lanes in each phase. Edges between
// idle ends fill the rest, so that the graph is Φ-regular and has a colouring
// with Φ colours (König).
type packing struct {
	bipartite.Frame
	vertex []int32 // [server] on either side
	first  []int32 // [leaf] its first vertex, its servers' before its dummies'
}

// pack puts all pairs into so many new phases, no fewer than their bound, without lanes yet.
// Leaves have more transfers than lanes in some of them, as same-leaf pairs take their servers
// in others.
func (m *mender) pack(ctx context.Context, demand *pairDemands, phases int) error {
	if m.left.Len() == 0 {
		return nil
	}
	w := packing{Frame: bipartite.Frame{Degree: int32(phases), Left: &bipartite.Side{}, Right: &bipartite.Side{}}}
	w.layOut(m.tree, demand, m.left.List())
	w.fill(m.tree)
	n := len(w.Left.Of)
	match := make([]int32, n*phases)
	if err := w.Colour(ctx, &m.colourer, match); err != nil {
		return err
	}
	for c := range phases {
		m.plan.addPhase()
		to, _ := m.plan.Row(Phase(m.plan.Phases - 1))
		for u, v := range match[c*n:][:n] {
			s, d := Server(w.Left.Of[u]), Server(w.Right.Of[v])
			if s != Idle && d != Idle && m.left.Remove(s, d) { // no filler
				to[s] = d
			}
		}
	}
	return nil
}

// layOut makes the vertices, and the edges of pairs.
func (w *packing) layOut(t *Tree, demand *pairDemands, pairs []Pair) {
	local := make([]int, len(t.Slots)) // pairs
	for _, x := range pairs {
		if A := demand.leaf[x.Src]; A == demand.leaf[x.Dst] {
			local[A]++
		}
	}
	add := func(s Server) int32 {
		w.Left.Add(int32(s), w.Degree)
		return w.Right.Add(int32(s), w.Degree)
	}
	for A, slots := range t.Slots {
		w.first = append(w.first, int32(len(w.Left.Of)))
		for range slots {
			w.vertex = append(w.vertex, add(Server(len(w.vertex))))
		}
		remote, phases := max(demand.load(outward, A), demand.load(inward, A)), int(w.Degree)
		busy := ceilDiv(remote, phases) // c_A
		busy = min(len(slots), max(busy, min(demand.up[A].Size(), ceilDiv(remote+local[A], phases))))
		for range len(slots) - busy {
			add(Idle)
		}
	}
	w.first = append(w.first, int32(len(w.Left.Of)))
	for _, x := range pairs {
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

// lateWork is how long pairs without a place look for one; see Pack.
const lateWork = 1 << 20

// placeLate puts pairs that have found no place into phases, in place of others that find one.
func (m *mender) placeLate(pairs []Pair) {
	p, b := m.plan, m.board
	choice := func(s, d Server, k Lane) Choice {
		if k == Local {
			return Choice{Cables: NoCables, Way: int16(k)}
		}
		return Choice{Cables: Cables{b.leaf[s]*int32(b.lanes) + int32(k), (int32(b.leaves)+b.leaf[d])*int32(b.lanes) + int32(k), -1, -1}, Way: int16(k)}
	}
	var ways []Choice
	k := Pack{Servers: p.Servers, Cables: 2 * b.leaves * b.lanes, Work: min(lateWork, 64*p.Servers*p.Servers), Choices: func(leaf int, to int32) []Choice {
		s, d := Server(leaf), Server(to)
		if ways = ways[:0]; b.leaf[s] == b.leaf[d] {
			return append(ways, choice(s, d, Local))
		}
		for k := range Lane(b.lanes) {
			if b.usable(s, d, k) {
				ways = append(ways, choice(s, d, k))
			}
		}
		return ways
	}}
	k.Begin(max(p.Phases, m.bounds.LowerBound), 1)
	for i, d := range p.To {
		if s := i % p.Servers; d != Idle {
			c := choice(Server(s), d, p.Lane[i])
			k.Fits(i/p.Servers, s, int32(d), &c)
		}
	}
	var late []Late
	for _, x := range pairs {
		late = append(late, Late{int(x.Src), int32(x.Dst)})
	}
	k.Place(late)
	m.plan = NewPlan(Exact, p.Servers, k.Blocks)
	for i, d := range k.To {
		m.plan.To[i], m.plan.Lane[i] = Server(d), Lane(k.Way[i])
	}
}
