package fors

import (
	"context"
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
)

// spread assigns the transfers of every two leaves to lanes, so that no lane carries more than so
// many of a leaf's transfers out or in: the pairs of leaves are demands, their lanes ways, the links
// out of leaves and into them resources.
type spread struct {
	*Multiflow
	at   []int32 // [way] index of y
	left int     // work of the searches
}

// spread returns y, [A][B][lane], the least number of phases from least on for which it was
// found, and a lower bound: least, or more if prices prove it. The search is limited in
// work; a spread is always found unless ctx ends.
func (n *net) spread(ctx context.Context, least int) (y []int32, phases, bound int, err error) {
	return n.search(ctx, least, searchWork)
}

// search raises prices, which either prove that no spread exists or give a solution of the linear
// programme that is close to one; the first is even. If that fails, it searches with more phases.
func (n *net) search(ctx context.Context, least, work int) (y []int32, phases, bound int, err error) {
	s := newSpread(n, work)
	f, found := newTariff(s.Multiflow), len(s.need) == 0
	phases, bound = least, least
	for proof := 1; !found && proof <= mostProof; proof = max(2*proof, leastProof) {
		if bound = f.prove(ctx, bound, proof); ctx.Err() != nil {
			return nil, 0, 0, ctx.Err()
		}
		s.round(f, bound)
		phases, found = bound, s.relieve(ctx)
	}
	if !found {
		phases = s.extend(ctx, f, bound+1)
	}
	y = make([]int32, n.leaves*n.leaves*n.lanes)
	for way, x := range s.Y {
		y[s.at[way]] = x
	}
	return y, phases, bound, ctx.Err()
}

// extend finds a spread for phases or more, as many as are needed when the search must end.
func (s *spread) extend(ctx context.Context, f *tariff, phases int) int {
	for {
		if s.round(f, phases); s.relieve(ctx) {
			return phases
		}
		if s.left < 0 || ctx.Err() != nil {
			return int(slices.Max(s.Load))
		}
		phases++
	}
}

// relieve moves transfers until no link is overloaded, and reports whether it succeeded.
func (s *spread) relieve(ctx context.Context) bool {
	if s.excess == 0 || s.left < 0 {
		return s.excess == 0
	}
	s.work = min(s.left, chaseWork)
	s.left -= s.work
	found := s.Multiflow.relieve(ctx)
	s.left += s.work
	return found
}

func newSpread(n *net, work int) *spread {
	links := n.leaves * n.lanes
	s := &spread{Multiflow: &Multiflow{Room: slices.Repeat([]int32{1}, 2*links), Width: 2}, left: work}
	for i, common := range n.common {
		if common == 0 {
			continue
		}
		A, B := i/n.leaves, i%n.leaves
		s.Demand(int32(n.units[A] * n.size[B]))
		for k := range n.lanes {
			if n.up[A*n.lanes+k] && n.up[B*n.lanes+k] {
				s.Way(int32(A*n.lanes+k), int32(links+B*n.lanes+k))
				s.at = append(s.at, int32(i*n.lanes+k))
			}
		}
	}
	s.close()
	return s
}

// pair orders a leaf and its peer as source and destination, by the end of the
// lane at which the leaf is looked at.
func pair(end, leaf, peer int) (A, B int) {
	if end == outward {
		return leaf, peer
	}
	return peer, leaf
}
