package fors

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// The two ends of a lane at a leaf: up from it, and down into it.
const (
	outward = 0
	inward  = 1
)

const (
	// searchWork limits the lanes of pairs that all searches visit, about 0.5 s. It counts
	// work and not time, so that a plan does not depend on the machine.
	searchWork = 1 << 27
	// leastProof and mostProof are the first and the last work limit of prices, which is
	// doubled in between: about 1 ms and 60 ms.
	leastProof = 1 << 18
	mostProof  = 1 << 24
	// steepness is how much more a link of a leaf at the limit counts than that of an idle
	// leaf, in sixteenths.
	steepness = 496
)

// spread assigns the transfers of every two leaves to lanes, so that no lane
// carries more than Φ of a leaf's transfers out or in.
type spread struct {
	*net
	Φ    int32
	y    []int32    // [(A·leaves + B)·lanes + lane] transfers from leaf A to leaf B
	load [2][]int32 // [end][leaf·lanes + lane] Σ_B y[A][B][k] and Σ_A y[A][B][k]
	work int        // left to the searches
	flow *Multiflow // the transfers as demands, links as resources; nil before the first search
	ways []int32    // [way] index of y
}

// spread returns y, [A][B][lane], the least number of phases from least on for which it was
// found, and a lower bound: least, or more if prices prove it. The search is limited in
// work; a spread is always found unless ctx ends.
func (n *net) spread(ctx context.Context, least int) (y []int32, phases, bound int, err error) {
	return n.search(ctx, least, searchWork)
}

// search starts from transfers poured over the lanes. If that does not lead to a spread,
// prices either prove that none exists or give a solution of the linear programme that is
// close to one. If that fails too, it searches with more phases.
func (n *net) search(ctx context.Context, least, work int) (y []int32, phases, bound int, err error) {
	s := &spread{net: n, y: make([]int32, n.leaves*n.leaves*n.lanes), work: work}
	for end := range s.load {
		s.load[end] = make([]int32, n.leaves*n.lanes)
	}
	if s.fill(ctx, least); s.relieve(ctx) {
		return s.y, least, least, ctx.Err()
	}
	for r := range s.connect().Room {
		s.flow.Room[r] = 1
	}
	f := newTariff(s.flow)
	bound = least
	for proof := leastProof; proof <= mostProof; proof *= 2 {
		if bound = f.prove(ctx, bound, proof); ctx.Err() != nil {
			return nil, 0, 0, ctx.Err()
		}
		if s.round(f, bound); s.relieve(ctx) {
			return s.y, bound, bound, ctx.Err()
		}
	}
	return s.y, s.extend(ctx, f, bound+1), bound, ctx.Err()
}

// extend finds a spread for phases or more, as many as are needed when the search must end.
func (s *spread) extend(ctx context.Context, f *tariff, phases int) int {
	for {
		if s.fill(ctx, phases); s.relieve(ctx) {
			return phases
		}
		if s.round(f, phases); s.relieve(ctx) {
			return phases
		}
		if s.work < 0 || ctx.Err() != nil {
			return s.busiest()
		}
		phases++
	}
}

// busiest returns the most transfers on a link.
func (s *spread) busiest() int {
	most := int32(0)
	for _, loads := range s.load {
		for _, load := range loads {
			most = max(most, load)
		}
	}
	return int(most)
}

// relieve moves transfers until no link is overloaded, and reports whether it succeeded.
func (s *spread) relieve(ctx context.Context) bool {
	if s.busiest() <= int(s.Φ) {
		return true
	}
	if s.work < 0 {
		return false
	}
	m := s.connect()
	for r := range m.Room {
		m.Room[r] = s.Φ
	}
	m.set(func(way int) int32 { return s.y[s.ways[way]] })
	m.work = min(s.work, chaseWork)
	s.work -= m.work
	found := m.relieve(ctx)
	s.work += m.work
	for way, x := range m.Y {
		s.y[s.ways[way]] = x
	}
	copy(s.load[outward], m.Load)
	copy(s.load[inward], m.Load[len(s.load[outward]):])
	return found
}

// connect makes the flow, once.
func (s *spread) connect() *Multiflow {
	if s.flow != nil {
		return s.flow
	}
	links := s.leaves * s.lanes
	s.flow = &Multiflow{Room: make([]int32, 2*links), Width: 2}
	for i, common := range s.common {
		if common == 0 {
			continue
		}
		A, B := i/s.leaves, i%s.leaves
		s.flow.Demand(int32(s.units[A] * s.size[B]))
		for k := range s.lanes {
			if s.up[A*s.lanes+k] && s.up[B*s.lanes+k] {
				s.flow.Way(int32(A*s.lanes+k), int32(links+B*s.lanes+k))
				s.ways = append(s.ways, int32(i*s.lanes+k))
			}
		}
	}
	s.flow.close()
	return s.flow
}

// fill assigns all transfers from scratch, the tightest leaves' pairs and those with the
// fewest lanes first, each pair levelled over its lanes. The closer its leaf is to the
// limit, the more a link counts: 1 + steepness/16·(pressure)^4. After ctx has ended it
// assigns no more.
func (s *spread) fill(ctx context.Context, phases int) {
	s.Φ = int32(phases)
	clear(s.y)
	clear(s.load[outward])
	clear(s.load[inward])
	pressure, weight := make([]float64, s.leaves), make([]int64, s.leaves)
	for A := range s.leaves {
		living := commonLanes(s.lanesOf(A), s.lanesOf(A))
		pressure[A] = float64(s.out(A)) / float64(max(1, living*phases))
		weight[A] = 16 + int64(steepness*math.Pow(min(1, pressure[A]), 4)) // in sixteenths
	}
	var pairs []int32 // A·leaves + B
	for i, lanes := range s.common {
		if lanes > 0 {
			pairs = append(pairs, int32(i))
		}
	}
	tightest := func(i int32) float64 { return max(pressure[int(i)/s.leaves], pressure[int(i)%s.leaves]) }
	slices.SortFunc(pairs, func(i, j int32) int {
		return cmp.Or(cmp.Compare(tightest(j), tightest(i)), cmp.Compare(s.common[i], s.common[j]), cmp.Compare(i, j))
	})
	w := leveller{lanes: make([]int32, 0, s.lanes), level: make([]int64, s.lanes)}
	for _, i := range pairs {
		if ctx.Err() != nil {
			break
		}
		A, B := int(i)/s.leaves, int(i)%s.leaves
		s.level(&w, A, B, weight[A], weight[B])
	}
}

// leveller is the scratch memory of level.
type leveller struct {
	lanes []int32 // of a pair, lowest level first
	level []int64 // [lane]
}

// level assigns the transfers from A to B like water poured over their lanes.
func (s *spread) level(w *leveller, A, B int, weightA, weightB int64) {
	rise := weightA + weightB // of a lane's level with one transfer
	out, in := s.load[outward][A*s.lanes:][:s.lanes], s.load[inward][B*s.lanes:][:s.lanes]
	upA, upB := s.lanesOf(A), s.lanesOf(B)
	w.lanes = w.lanes[:0]
	for k := range s.lanes {
		if upA[k] && upB[k] {
			w.level[k] = int64(out[k])*weightA + int64(in[k])*weightB
			w.lanes = append(w.lanes, int32(k))
		}
	}
	slices.SortFunc(w.lanes, func(a, b int32) int { return cmp.Or(cmp.Compare(w.level[a], w.level[b]), cmp.Compare(a, b)) })
	transfers := int64(s.units[A] * s.size[B])
	under, sum := 0, int64(0) // lanes under the surface, and their levels' sum
	for _, k := range w.lanes {
		if w.level[k]*int64(under)-sum >= transfers*rise {
			break
		}
		sum += w.level[k]
		under++
	}
	surface := (transfers*rise + sum) / int64(under)
	y := s.y[(A*s.leaves+B)*s.lanes:][:s.lanes]
	left := transfers
	for _, k := range w.lanes[:under] {
		x := min(left, max(0, surface-w.level[k])/rise)
		y[k] += int32(x)
		w.level[k] += x * rise
		left -= x
	}
	for ; left > 0; left-- {
		lowest := w.lanes[0]
		for _, k := range w.lanes[1:] {
			if w.level[k] < w.level[lowest] {
				lowest = k
			}
		}
		y[lowest]++
		w.level[lowest] += rise
	}
	for _, k := range w.lanes {
		out[k] += y[k]
		in[k] += y[k]
	}
}

// pair orders a leaf and its peer as source and destination, by the end of the
// lane at which the leaf is looked at.
func pair(end, leaf, peer int) (A, B int) {
	if end == outward {
		return leaf, peer
	}
	return peer, leaf
}
