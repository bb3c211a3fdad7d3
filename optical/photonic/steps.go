package photonic

import (
	"context"
	"slices"
)

// Where chunks may wait for the next topology, a class x is reached over shifts
// a_1, …, a_g by any x ≡ Σ h_i·a_i mod n, in Σ h_i hops: a distance in the Cayley
// graph of the shifts. The order of hops does not matter, so neither does the
// order of the shifts.

// extend lowers hops, [class], by any number of hops over one shift more. A
// class's best hops over it begin at most a whole cycle before.
func extend(hops []int32, a int) {
	n := len(hops)
	g := gcd(a, n)
	for start := range g {
		x := start
		for range 2 * (n / g) {
			next := x + a
			if next >= n {
				next -= n
			}
			if h := hops[x] + 1; h < hops[next] {
				hops[next] = h
			}
			x = next
		}
	}
}

// none is the classes' hops without any shift.
func none(n int) []int32 { return newLeast(n).hops }

// total is the sum of hops; far and more where a class is not reached.
func total(hops []int32) int {
	sum := 0
	for _, h := range hops {
		sum += int(h)
	}
	return sum
}

// stepSearch looks for sets of 1, 2, … shifts, in this order, with few steps in
// sum. Sets grow by the shift that saves most, and are then changed one by one
// as long as that helps. Small rings are searched in full, large ones in samples.
type stepSearch struct {
	n      int
	Sets   [][]int // [shifts−1]
	Totals []int
	fewest *greedyShifts // sets that need no waiting are no worse with it
	last   []int32       // the classes' hops over the last set
	hops   []int32       // scratch
}

// The effort of a search, in class updates.
const (
	growEffort     = 8 << 20 // to add a shift
	lateEffort     = 1 << 20 // to add one to many
	exchangeEffort = 8 << 20 // to change the shifts of a set, a sweep
	tripleEffort   = 1 << 22 // to try all sets of three
	manyShifts     = 12      // from which on what a further shift saves hardly depends on it
)

func newStepSearch(n int) *stepSearch {
	hops := none(n)
	extend(hops, 1)
	return &stepSearch{n: n, Sets: [][]int{{1}}, Totals: []int{total(hops)}, fewest: newGreedy(n), last: hops, hops: make([]int32, n)}
}

// next finds a set of one shift more, and reports false where there are no more.
func (s *stepSearch) next(ctx context.Context) (bool, error) {
	size := len(s.Sets) + 1
	if size >= s.n {
		return false, nil
	}
	s.fewest.next()
	best := slices.Clone(s.fewest.Shifts[:size])
	least := s.total(best)
	starts, err := s.starts(ctx)
	if err != nil {
		return false, err
	}
	for _, set := range starts {
		sum, err := s.improve(ctx, set)
		if err != nil {
			return false, err
		}
		if sum < least {
			best, least = set, sum
		}
	}
	s.Sets, s.Totals = append(s.Sets, best), append(s.Totals, least)
	s.last = s.base(best, -1)
	return true, nil
}

// starts are the sets from which the search for the next one goes out.
func (s *stepSearch) starts(ctx context.Context) ([][]int, error) {
	last := s.Sets[len(s.Sets)-1]
	effort := growEffort
	if len(last) >= manyShifts {
		effort = lateEffort
	}
	a, _, err := s.best(ctx, s.last, last, effort)
	if err != nil {
		return nil, err
	}
	starts := [][]int{append(slices.Clone(last), a)}
	if len(last) < manyShifts {
		set, err := s.digits(ctx, len(last)+1)
		if err != nil {
			return nil, err
		}
		starts = append(starts, set)
	}
	if len(last) == 2 && s.n*s.n*s.n <= tripleEffort {
		set, err := s.triple(ctx)
		if err != nil {
			return nil, err
		}
		starts = append(starts, set)
	}
	return starts, nil
}

// digits is the set 1, b, b², … by which classes are reached as numbers of
// roughly equal digits, filled up with the multiples that are missing most.
func (s *stepSearch) digits(ctx context.Context, size int) ([]int, error) {
	b := 2
	for power(b, size) < s.n {
		b++
	}
	set := []int{1}
	for p := b; p < s.n && len(set) < size; p *= b {
		set = append(set, p)
	}
	for len(set) < size {
		a, _, err := s.best(ctx, s.base(set, -1), set, growEffort)
		if err != nil {
			return nil, err
		}
		set = append(set, a)
	}
	return set, nil
}

// power is b^e, or more than any n where it is large.
func power(b, e int) int {
	p := 1
	for range e {
		if p *= b; p > MaxGPUs {
			return p
		}
	}
	return p
}

// triple is the best set of 1 and two more.
func (s *stepSearch) triple(ctx context.Context) ([]int, error) {
	var best []int
	least := far
	for a := 2; a < s.n; a++ {
		base := s.base([]int{1, a}, -1)
		b, sum, err := s.best(ctx, base, []int{1, a}, growEffort)
		if err != nil {
			return nil, err
		}
		if sum < least {
			best, least = []int{1, a, b}, sum
		}
	}
	return best, nil
}

// base is the hops over a set without its member at leave.
func (s *stepSearch) base(set []int, leave int) []int32 {
	hops := none(s.n)
	for i, a := range set {
		if i != leave {
			extend(hops, a)
		}
	}
	return hops
}

func (s *stepSearch) total(set []int) int { return total(s.base(set, -1)) }

// best is the shift that lowers the sum of base most, and that sum. Where all
// cost too much, it tries some, evenly spread.
func (s *stepSearch) best(ctx context.Context, base []int32, set []int, effort int) (shift, sum int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	sum = far * s.n
	tries := min(s.n-2, max(32, effort/(2*s.n)))
	for i := range tries {
		a := 2 + i
		if tries < s.n-2 {
			a = 2 + i*(s.n-2)/tries
		}
		if slices.Contains(set, a) {
			continue
		}
		copy(s.hops, base)
		extend(s.hops, a)
		if t := total(s.hops); t < sum {
			shift, sum = a, t
		}
	}
	if shift == 0 { // all that were tried are in the set
		shift = 1
		for slices.Contains(set, shift) {
			shift++
		}
		copy(s.hops, base)
		extend(s.hops, shift)
		sum = total(s.hops)
	}
	return shift, sum, nil
}

// improve changes one shift of the set after another for a better one until none
// is found, and returns the sum.
func (s *stepSearch) improve(ctx context.Context, set []int) (int, error) {
	least := s.total(set)
	if len(set)*s.n*2*s.n > exchangeEffort {
		return least, nil
	}
	for again := true; again; {
		again = false
		for i := range set {
			a, sum, err := s.best(ctx, s.base(set, i), set, growEffort)
			if err != nil {
				return 0, err
			}
			if sum < least {
				set[i], least, again = a, sum, true
			}
		}
	}
	return least, nil
}

// stages are the hops to each class over the first 0, 1, … shifts of a set.
type stages [][]int32

func newStages(n int, set []int) stages {
	st := make(stages, len(set)+1)
	st[0] = none(n)
	for i, a := range set {
		st[i+1] = slices.Clone(st[i])
		extend(st[i+1], a)
	}
	return st
}

// split is how many hops over each shift of the set reach a class, [shift].
func (st stages) split(set []int, class int, hops []int32) {
	n := len(st[0])
	for i := len(set); i > 0; i-- {
		h := int32(0)
		for st[i][class] != st[i-1][class] {
			class = (class - set[i-1] + n) % n
			h++
		}
		hops[i-1] = h
	}
}

// CarrySums are the hop sums of 1, 2, …, at most d topologies of n GPUs of degree 1
// where chunks may wait for the next topology.
func CarrySums(ctx context.Context, n, d int) ([]int, error) {
	s := newStepSearch(n)
	err := s.reach(ctx, min(d, n-1))
	return s.Totals, err
}
