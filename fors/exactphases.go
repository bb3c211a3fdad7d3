package fors

import (
	"fmt"
	"slices"

	"forsd/bipartite"
)

// timetable turns a spread into a plan.
type timetable struct {
	*net
	phases  int
	workers int
	start   []int32 // [leaf] its first transfer, in both orders
	// Transfers by source leaf and phase.
	out []departure
	// Transfers by destination leaf and phase.
	inPhase  []Phase
	inSender []Server
}

// departure is a transfer of a leaf whose sender is not known yet.
type departure struct {
	phase Phase
	to    int32 // leaf
	slot  int32 // among the arrivals
	lane  Lane
}

// timetable sets the rows of an idle plan to a complete exchange, given a spread
// for its number of phases.
func (n *net) timetable(plan *Plan, y []int32, workers int) error {
	x := &timetable{net: n, phases: plan.Phases, workers: workers, start: make([]int32, n.leaves+1)}
	for A, size := range n.size {
		x.start[A+1] = x.start[A] + int32(n.out(A)+size*(size-1))
	}
	transfers := x.start[n.leaves]
	x.out = make([]departure, transfers)
	x.inPhase, x.inSender = make([]Phase, transfers), make([]Server, transfers)
	if err := x.setPhases(y); err != nil {
		return err
	}
	if err := x.eachLeaf(func(w *seater, A int) error { return w.seatSenders(A, plan) }); err != nil {
		return err
	}
	return x.eachLeaf(func(w *seater, B int) error { return w.seatReceivers(B, plan) })
}

// frame is the graph whose edges are the inter-leaf transfers and whose colours
// are the phases. Lanes of a leaf are packed into bins of at most Φ transfers,
// out-bins being left vertices and in-bins right ones: what shares a bin shares
// no phase. With c_A = ⌈transfers of A / Φ⌉, dummy vertices keep all but c_A
// bins of a leaf idle in each phase, and edges from its out-bins to its in-bins,
// phases in which its servers may send to each other, fill the rest, so that the
// graph is Φ-regular.
type frame struct {
	*net
	phases int
	bins   [2]binning // of the out-bins, in-bins
	n      int        // vertices of either side
	arcs   []bipartite.Arc
}

// binning packs the lanes of one end into bins. The vertices of a leaf are its
// bins, then the dummies of the other end's.
type binning struct {
	first []int32  // [leaf] its first vertex, one more at the end
	count []int32  // [leaf] bins
	of    []int32  // [leaf·lanes + lane] vertex, −1 where nothing travels
	lanes [][]Lane // [vertex] in it
	leaf  []int32  // [vertex] −1 for a dummy
	room  []int32  // [vertex] of Φ
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
		g.bins[end].of = make([]int32, n.leaves*n.lanes)
	}
	for A := range n.leaves {
		for end := range g.bins {
			g.pack(&g.bins[end], A, load[end][A*n.lanes:][:n.lanes])
		}
		busy := ceilDiv(n.out(A), phases) // c_A
		for range int(g.bins[inward].count[A]) - busy {
			g.bins[outward].add(-1, phases)
		}
		for range int(g.bins[outward].count[A]) - busy {
			g.bins[inward].add(-1, phases)
		}
	}
	for end := range g.bins {
		b := &g.bins[end]
		b.first = append(b.first, int32(len(b.leaf)))
	}
	g.n = len(g.bins[outward].leaf)
	return g
}

// pack puts the lanes of a leaf into bins, each into the first that has room.
func (g *frame) pack(b *binning, A int, load []int32) {
	first := len(b.leaf)
	b.first = append(b.first, int32(first))
	for k, x := range load {
		v := -1
		if x > 0 {
			for v = first; v < len(b.leaf) && b.room[v] < x; v++ {
			}
			if v == len(b.leaf) {
				b.add(A, g.phases)
			}
			b.room[v] -= x
			b.lanes[v] = append(b.lanes[v], Lane(k))
		}
		b.of[A*g.lanes+k] = int32(v)
	}
	b.count = append(b.count, int32(len(b.leaf)-first))
}

// add appends a vertex with room for a transfer in each phase.
func (b *binning) add(leaf, phases int) {
	b.leaf, b.room, b.lanes = append(b.leaf, int32(leaf)), append(b.room, int32(phases)), append(b.lanes, nil)
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
	ins := &g.bins[inward]
	for _, k := range g.bins[outward].lanes[u] {
		for B := range g.leaves {
			x := y[(A*g.leaves+B)*g.lanes+int(k)]
			if x == 0 {
				continue
			}
			v := ins.of[B*g.lanes+int(k)]
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
	for outs.room[u] > 0 {
		if x := min(outs.room[u], ins.room[v]); x > 0 {
			g.arcs = append(g.arcs, bipartite.Arc{Left: u, Right: v, Count: x})
			outs.room[u] -= x
			ins.room[v] -= x
		}
		if ins.room[v] == 0 {
			v = ins.next(A, v)
		}
	}
	return v
}

// next is the vertex after v among those of a leaf, round and round.
func (b *binning) next(A int, v int32) int32 {
	if v++; v >= b.first[A+1] {
		return b.first[A]
	}
	return v
}

// setPhases colours the frame and lists the transfers of each leaf, out and in,
// phase by phase. Same-leaf transfers go to the first phases in which servers of
// the leaf are left.
func (x *timetable) setPhases(y []int32) error {
	if x.phases == 0 {
		return nil
	}
	g := newFrame(x.net, x.phases, y)
	g.connect(y)
	match := make([]int32, g.n*x.phases)
	colourer := bipartite.Colourer{Workers: x.workers}
	if err := colourer.Arcs(g.n, x.phases, g.arcs, match); err != nil {
		return fmt.Errorf("set the phases of a spread: %w", err)
	}
	x.list(g, y, match)
	return nil
}

// list reads the transfers off the phases. It takes them out of y.
func (x *timetable) list(g *frame, y, match []int32) {
	outs, ins := &g.bins[outward], &g.bins[inward]
	departed, arrived := slices.Clone(x.start), slices.Clone(x.start)
	local := make([]int, x.leaves) // same-leaf transfers to come
	for A, size := range x.size {
		local[A] = size * (size - 1)
	}
	add := func(phase, A, B int, lane Lane) {
		slot := arrived[B]
		x.out[departed[A]] = departure{Phase(phase), int32(B), slot, lane}
		x.inPhase[slot] = Phase(phase)
		departed[A]++
		arrived[B]++
	}
	for phase := range x.phases {
		row := match[phase*g.n : (phase+1)*g.n]
		for A := range x.leaves {
			free := x.size[A]
			first := outs.first[A]
			for i, v := range row[first : first+outs.count[A]] {
				if B := int(ins.leaf[v]); B >= 0 && B != A {
					add(phase, A, B, g.lane(A, B, outs.lanes[int(first)+i], v, y))
					free--
				}
			}
			free = min(free, local[A])
			local[A] -= free
			for range free {
				add(phase, A, A, Local)
			}
		}
	}
}

// lane takes a transfer from A to B between two bins out of y, and returns its lane.
func (g *frame) lane(A, B int, lanes []Lane, v int32, y []int32) Lane {
	for _, k := range lanes {
		if left := &y[(A*g.leaves+B)*g.lanes+int(k)]; *left > 0 && g.bins[inward].of[B*g.lanes+int(k)] == v {
			*left--
			return k
		}
	}
	panic("fors: a phase has a transfer that the spread has not")
}
