package fors

import (
	"context"
	"math"

	"github.com/forsd/forsd/bipartite"
)

// destFrame is the graph whose edges are the transfers from leaves to servers, each on its
// lane, and whose colours are the slots: phases, or blocks of phases. As in frame, the
// lanes of a leaf are packed into bins of at most Φ transfers, dummies keep all but c_A
// bins of a leaf idle in each slot, and edges from a leaf's out-bins to its in-bins fill
// the rest.
//
// In-bins are made so that, as far as possible, all transfers to a server are in one bin,
// and all transfers on a link too. A server or a link with several bins is watched: it may
// have two transfers in a slot.
type destFrame struct {
	*laning
	graph    bipartite.Frame
	ends     [2]side    // out-bins, in-bins
	inBin    []int32    // [server·lanes + lane] in-bin, −1 where nothing travels
	n        int        // vertices of either side
	runs     []run      // the units between two bins
	runOf    []int32    // [left·n + right] the first of their runs, −1 if none
	left     []int32    // [slot·n + right] left vertex, −1 if none in a loose graph
	right    []int32    // [slot·n + left] right vertex, −1 likewise
	unit     []int32    // [slot·n + right] the unit sent, leaf·servers + server, −1 if none
	watched  [][2]int32 // [unit] the watched server, the watched link, −1 if none
	leafOfW  []int32    // [watched] its leaf
	heard    []uint16   // [slot·watched] transfers
	clash    int        // Σ (heard − 1) over those of 2 and more
	budget   int        // steps along alternating paths left
	most     []int      // [leaf] transfers allowed in a slot of a loose graph
	sends    []uint16   // [slot·leaves + leaf] transfers sent
	path     []int32    // right vertices of the one at hand
	more     [2]int32   // the leaf that sends one more in either slot once the path is exchanged, −1 if none
	crossing [2][]int32 // watched servers and links whose transfer moves from one slot to the other, and back
	random   uint64
}

// run is a number of edges for one unit.
type run struct {
	unit, count int32
	next        int32 // of the same two bins, −1 if none
}

// newDestFrame makes the graph of lanes with room on all links.
func newDestFrame(l *laning) *destFrame {
	g := &destFrame{laning: l, inBin: make([]int32, len(l.leafOf)*l.lanes)}
	for i := range g.inBin {
		g.inBin[i] = -1
	}
	outs, ins := &g.ends[outward], &g.ends[inward]
	g.graph = bipartite.Frame{Degree: int32(l.slots), Left: &outs.Side, Right: &ins.Side}
	for A := range l.leaves {
		ins.first = append(ins.first, int32(len(ins.Of)))
		pack(outs, l.out[A*l.lanes:][:l.lanes], g.graph.Degree)
		g.packIn(A)
	}
	outs.first, ins.first = append(outs.first, int32(len(outs.Of))), append(ins.first, int32(len(ins.Of)))
	g.dummies()
	g.n = g.graph.Even()
	g.transfers()
	for A := range l.leaves {
		g.graph.Pour(outs.first[A], outs.first[A+1], ins.first[A], ins.first[A+1], math.MaxInt32)
	}
	g.watch()
	return g
}

// packIn packs the transfers into a leaf. The lane on which a server receives most is its
// main lane, and has a bin. Its transfers on another lane go into that lane's bin if the
// lane is the main lane of some server, otherwise into the server's own bin.
func (g *destFrame) packIn(B int) {
	ins := &g.ends[inward]
	main, owners := make([]int, g.size[B]), make([]int, g.lanes)
	ofLane := make([]int32, g.lanes) // bin
	for k := range ofLane {
		ofLane[k] = -1
	}
	put := func(i, k int, bin int32) bool {
		at := (int(g.base[B])+i)*g.lanes + k
		if bin < 0 || ins.Room[bin] < int32(g.uses[at]) {
			return false
		}
		ins.Room[bin] -= int32(g.uses[at])
		g.inBin[at] = bin
		return true
	}
	for i := range main {
		uses := g.uses[(int(g.base[B])+i)*g.lanes:][:g.lanes]
		most := 0
		for k := range uses {
			if uses[k] > most {
				main[i], most = k, uses[k]
			}
		}
		if k := main[i]; most > 0 {
			if owners[k]++; ofLane[k] < 0 {
				ofLane[k] = ins.Add(int32(B), g.graph.Degree)
			}
			put(i, k, ofLane[k])
		}
	}
	for pass := range 2 {
		for i := range main {
			for k := range g.lanes {
				at := (int(g.base[B])+i)*g.lanes + k
				if g.uses[at] == 0 || g.inBin[at] >= 0 || pass == 0 && owners[k] == 0 {
					continue
				}
				own := ofLane[main[i]]
				if owners[main[i]] > 1 {
					own = -1
				}
				if pass == 0 && put(i, k, ofLane[k]) || pass > 0 && put(i, k, own) || put(i, k, ofLane[k]) {
					continue
				}
				bin := ins.Add(int32(B), g.graph.Degree)
				if ofLane[k] < 0 {
					ofLane[k] = bin
				}
				put(i, k, bin)
			}
		}
	}
}

// dummies adds those that hold a leaf's bins beyond c_A.
func (g *destFrame) dummies() {
	outs, ins := &g.ends[outward], &g.ends[inward]
	for A := range g.leaves {
		busy := int32(g.busy(A))
		for range outs.first[A+1] - outs.first[A] - busy {
			v := g.graph.Dummy(g.graph.Right)
			g.graph.Pour(outs.first[A], outs.first[A+1], v, v+1, g.graph.Degree)
		}
		for range ins.first[A+1] - ins.first[A] - busy {
			u := g.graph.Dummy(g.graph.Left)
			g.graph.Pour(u, u+1, ins.first[A], ins.first[A+1], g.graph.Degree)
		}
	}
}

// busy is c_A, the most transfers that leave or enter leaf A in a slot.
func (g *destFrame) busy(A int) int {
	out, in := 0, 0
	for k := range g.lanes {
		out, in = out+g.out[A*g.lanes+k], in+g.in[A*g.lanes+k]
	}
	return ceilDiv(max(out, in), max(1, g.slots))
}

// transfers adds the edges of the units.
func (g *destFrame) transfers() {
	servers := len(g.leafOf)
	g.runOf = make([]int32, g.n*g.n)
	for i := range g.runOf {
		g.runOf[i] = -1
	}
	sent := make([][]int, g.ends[outward].first[g.leaves]) // [out-bin] units
	for unit, k := range g.via {
		if k >= 0 {
			u := g.ends[outward].of[unit/servers*g.lanes+int(k)]
			sent[u] = append(sent[u], unit)
		}
	}
	counts := make([]int32, g.n)
	var reached []int32
	for u, units := range sent {
		reached = reached[:0]
		for _, unit := range units {
			d, count := unit%servers, int32(g.mult[unit/servers])
			v := g.inBin[d*g.lanes+g.down(d, int(g.via[unit]))]
			g.runs = append(g.runs, run{int32(unit), count, g.runOf[u*g.n+int(v)]})
			g.runOf[u*g.n+int(v)] = int32(len(g.runs) - 1)
			if counts[v] == 0 {
				reached = append(reached, v)
			}
			counts[v] += count
		}
		for _, v := range reached {
			g.graph.Arcs = append(g.graph.Arcs, bipartite.Arc{Left: int32(u), Right: v, Count: counts[v]})
			counts[v] = 0
		}
	}
}

// watch numbers the servers and the links that have several in-bins.
func (g *destFrame) watch() {
	servers := len(g.leafOf)
	several := func(bins []int32, step, count int) bool {
		bin := int32(-1)
		for i := range count {
			if v := bins[i*step]; v >= 0 && bin >= 0 && v != bin {
				return true
			} else if v >= 0 {
				bin = v
			}
		}
		return false
	}
	number := func(B int) int32 {
		g.leafOfW = append(g.leafOfW, int32(B))
		return int32(len(g.leafOfW) - 1)
	}
	server, link := make([]int32, servers), make([]int32, g.leaves*g.lanes)
	for d, B := range g.leafOf {
		if server[d] = -1; several(g.inBin[d*g.lanes:], 1, g.lanes) {
			server[d] = number(int(B))
		}
	}
	for i := range link {
		B, k := i/g.lanes, i%g.lanes
		if link[i] = -1; several(g.inBin[int(g.base[B])*g.lanes+k:], g.lanes, g.size[B]) {
			link[i] = number(B)
		}
	}
	g.watched = make([][2]int32, len(g.via))
	for unit, k := range g.via {
		g.watched[unit] = [2]int32{server[unit%servers], -1}
		if k >= 0 {
			g.watched[unit][1] = link[int(g.leafOf[unit%servers])*g.lanes+g.down(unit%servers, int(k))]
		}
	}
	g.heard = make([]uint16, g.slots*len(g.leafOfW))
}

// colour colours the graph and reads off it what is sent when.
func (g *destFrame) colour(ctx context.Context) error {
	g.right, g.left = make([]int32, g.slots*g.n), make([]int32, g.slots*g.n)
	g.unit = make([]int32, g.slots*g.n)
	if err := g.graph.Colour(ctx, &bipartite.Colourer{Workers: g.workers}, g.right); err != nil {
		return err
	}
	const few = 16 // vertices at a time: what is looked up of them stays in the cache
	for first := 0; first < g.n; first += few {
		for slot := range g.slots {
			for u := first; u < min(first+few, g.n); u++ {
				at := slot*g.n + u
				g.unit[at] = -1 // at its left vertex, until all are picked
				if head := g.runOf[u*g.n+int(g.right[at])]; head >= 0 {
					g.unit[at] = g.pickUnit(slot, head)
				}
			}
		}
	}
	picked := make([]int32, g.n)
	for slot := range g.slots {
		left, units := g.left[slot*g.n:][:g.n], g.unit[slot*g.n:][:g.n]
		copy(picked, units)
		for u, v := range g.right[slot*g.n:][:g.n] {
			left[v], units[v] = int32(u), picked[u]
		}
	}
	return nil
}

// pickUnit takes an edge between two bins in a slot for one of its units, one that does
// not clash if there is any.
func (g *destFrame) pickUnit(slot int, head int32) int32 {
	best, least := int32(-1), uint16(0)
	for i := head; i >= 0; i = g.runs[i].next {
		r := &g.runs[i]
		if r.count == 0 {
			continue
		}
		heard := uint16(0)
		for _, x := range g.watched[r.unit] {
			if x >= 0 {
				heard += g.heard[slot*len(g.leafOfW)+int(x)]
			}
		}
		if best < 0 || heard < least {
			best, least = i, heard
		}
	}
	if best < 0 {
		return -1 // an edge that idles
	}
	r := &g.runs[best]
	r.count--
	g.enter(slot, r.unit)
	return r.unit
}

// enter counts a unit in a slot.
func (g *destFrame) enter(slot int, unit int32) {
	for _, x := range g.watched[unit] {
		if x >= 0 {
			at := &g.heard[slot*len(g.leafOfW)+int(x)]
			if *at > 0 {
				g.clash++
			}
			*at++
		}
	}
}

// leave takes a unit out of the count of a slot.
func (g *destFrame) leave(slot int, unit int32) {
	for _, x := range g.watched[unit] {
		if x >= 0 {
			at := &g.heard[slot*len(g.leafOfW)+int(x)]
			if *at--; *at > 0 {
				g.clash--
			}
		}
	}
}

// clashes reports whether a unit of a slot shares its server or its link with another one.
func (g *destFrame) clashes(slot int, unit int32) bool {
	for _, x := range g.watched[unit] {
		if x >= 0 && g.heard[slot*len(g.leafOfW)+int(x)] > 1 {
			return true
		}
	}
	return false
}
