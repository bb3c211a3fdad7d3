package liquid

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// maxSearched bounds the transfers of a traffic that is searched, and maxOrbits the orbits,
// since the search stores the conflict graph as a bit matrix.
const (
	maxSearched = 8192
	maxOrbits   = 32768
)

// verdict is the outcome of a search.
type verdict uint8

const (
	undecided verdict = iota // out of nodes or time
	found                    // a liquid schedule
	none                     // no liquid schedule exists
)

// searcher looks for a liquid schedule depth first. Each node of the tree is the
// traffic that remains after the steps chosen so far, and its children remove a full
// team from it (section 3.2 of the paper). In addition to the paper, since the heaviest
// remaining transfer must be in some step and steps have no order, only teams that
// contain it are tried; and remaining traffics that failed are not searched again.
type searcher struct {
	*enumerator
	seed    uint64
	length  int64       // nodes of the next attempt
	rng     *rand.Rand  // perturbs the weights; nil in the first attempt
	alive   []bitset    // [depth] the remaining traffic
	load    []int32     // [link] of the remaining traffic
	weights [][]float32 // [depth] of transfers
	ends    []int       // [depth] length of team after that step
	most    []Transfer  // the longest partial schedule of an attempt, step by step
	mostAt  []int       // [depth] length of most after that step
	failed  map[string]struct{}
}

// maxFailed bounds the size of failed in bytes.
const maxFailed = 64 << 20

func newSearcher(t *Traffic, seed uint64) *searcher {
	s := &searcher{enumerator: newEnumerator(t), seed: seed, load: make([]int32, t.Links()), failed: make(map[string]struct{})}
	s.ends, s.weights = make([]int, t.Duration()), make([][]float32, t.Duration())
	for range t.Duration() + 1 {
		s.alive = append(s.alive, make(bitset, s.words))
	}
	s.length = int64(4 * t.Len())
	return s
}

// run looks for a liquid schedule with the given number of nodes, in attempts of
// growing length with different orders. The verdict none is a proof by exhaustion.
// After undecided, run can be called again.
func (s *searcher) run(ctx context.Context, nodes int64) verdict {
	for end := s.nodes + nodes; ; s.length *= 2 {
		s.limit, s.out = min(end, s.nodes+s.length), false
		switch stopped := s.attempt(ctx); {
		case stopped && !s.out:
			return found
		case !stopped:
			return none
		case s.nodes >= end || ctx.Err() != nil:
			return undecided
		}
		s.rng = rand.New(rand.NewPCG(s.seed, uint64(s.length)))
	}
}

// attempt searches from the root, and returns true if it has found a schedule or is
// out of nodes or time.
func (s *searcher) attempt(ctx context.Context) bool {
	s.team, s.level = s.team[:0], 0
	clear(s.covered)
	for x := range s.t.Len() {
		s.alive[0].add(Transfer(x))
	}
	for l := range s.load {
		s.load[l] = int32(s.t.Load(Link(l)))
	}
	return s.step(ctx, 0)
}

// step tries the full teams of the remaining traffic after depth steps. It returns
// true in the same cases as attempt.
func (s *searcher) step(ctx context.Context, depth int) bool {
	left := s.t.Duration() - depth
	if depth > len(s.mostAt) {
		s.mostAt = append(s.mostAt[:0], s.ends[:depth]...)
		s.most = append(s.most[:0], s.team[:s.ends[depth-1]]...)
	}
	if left == 0 {
		return true // all loads are 0, since each step has lowered the largest by one
	}
	key := s.key(s.alive[depth])
	if _, known := s.failed[key]; known {
		return false
	}
	if s.weights[depth] == nil {
		s.weights[depth] = make([]float32, s.t.Len())
	}
	outer := s.weight
	s.weight = s.weights[depth]
	bottlenecks, must := s.weigh(s.alive[depth], left)
	if s.fullTeams(ctx, s.alive[depth], bottlenecks, must, func() bool { return s.descend(ctx, depth) }) {
		return true
	}
	s.weight = outer
	if (len(s.failed)+1)*s.words*8 <= maxFailed {
		s.failed[key] = struct{}{}
	}
	return false
}

// descend takes the current team as a step and searches below it.
func (s *searcher) descend(ctx context.Context, depth int) bool {
	begin := 0
	if depth > 0 {
		begin = s.ends[depth-1]
	}
	s.ends[depth] = len(s.team)
	copy(s.alive[depth+1], s.alive[depth])
	for _, x := range s.team[begin:] {
		s.alive[depth+1].drop(x)
		for _, l := range s.t.Path(x) {
			s.load[l]--
		}
	}
	if s.step(ctx, depth+1) {
		return true
	}
	for _, x := range s.team[begin:] {
		for _, l := range s.t.Path(x) {
			s.load[l]++
		}
	}
	return false
}

// weigh finds the bottlenecks of the remaining traffic and the transfer that the next
// team must contain. The fewer steps a link can still be idle in, the more it weighs;
// the weight of a transfer is the sum over its links.
func (s *searcher) weigh(alive bitset, left int) (bottlenecks []Link, must Transfer) {
	must = -1
	for l, n := range s.load {
		if int(n) == left {
			bottlenecks = append(bottlenecks, Link(l))
		}
	}
	for x := range s.t.Len() {
		if !alive.has(Transfer(x)) {
			continue
		}
		w := float32(0)
		for _, l := range s.t.Path(Transfer(x)) {
			w += 1 / float32(1+left-int(s.load[l]))
		}
		if s.rng != nil {
			w *= 1 + 0.2*s.rng.Float32()
		}
		s.weight[x] = w
		if must < 0 || w > s.weight[must] {
			must = Transfer(x)
		}
	}
	return bottlenecks, must
}

// key returns an exact encoding of the set.
func (s *searcher) key(b bitset) string {
	key := make([]byte, 0, 8*len(b))
	for _, w := range b {
		for i := range 8 {
			key = append(key, byte(w>>(8*i)))
		}
	}
	return string(key)
}

// schedule returns the longest partial schedule, which is complete once one is found.
func (s *searcher) schedule() Schedule {
	steps := make(Schedule, 0, len(s.mostAt))
	begin := 0
	for _, end := range s.mostAt {
		step := slices.Clone(s.most[begin:end])
		slices.Sort(step)
		steps = append(steps, step)
		begin = end
	}
	return steps
}

// unlimited is a limit that is never reached.
const unlimited = math.MaxInt64
