package photonic

import (
	"context"
	"slices"
)

// If chunks may wait for the next topology, a class x is reached over shifts
// a_1, …, a_g by any x ≡ Σ h_i·a_i mod n, in Σ h_i hops: a distance in the Cayley
// graph of the shifts. Neither the order of hops nor that of the shifts matters.

// extend lowers hops, [class], by any number of hops over one more shift, each at a price. A
// class's best hops over it begin at most a whole cycle before.
func extend(hops []int32, a int, price int32) {
	n := len(hops)
	g := gcd(a, n)
	for start := range g {
		x := start
		for range 2 * (n / g) {
			next := x + a
			if next >= n {
				next -= n
			}
			if h := hops[x] + price; h < hops[next] {
				hops[next] = h
			}
			x = next
		}
	}
}

// far is the number of hops of a class that is not reached.
const far = 1 << 30

// none returns the classes' hops without any shift.
func none(n int) []int32 {
	hops := slices.Repeat([]int32{far}, n)
	hops[0] = 0
	return hops
}

// gcd is the greatest common divisor.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// total is the sum of hops; it is at least far if a class is not reached.
func total(hops []int32) int {
	sum := 0
	for _, h := range hops {
		sum += int(h)
	}
	return sum
}

// stepSearch looks for sets of 1, 2, … shifts, in this order, with a small sum of hops.
// A set grows by the shift that saves most, and its shifts are then replaced one by one
// while that helps. It tries all shifts of small rings, and samples those of large ones.
type stepSearch struct {
	n      int
	Sets   [][]int // [shifts−1]
	Totals []int
	fewest *greedyShifts // sets without waiting, which waiting can only improve
	last   []int32       // the classes' hops over the last set
	hops   []int32       // scratch
}

// The effort of a search, in class updates.
const (
	growEffort     = 8 << 20 // to add a shift
	lateEffort     = 1 << 20 // to add a shift to manyShifts or more
	exchangeEffort = 8 << 20 // to replace the shifts of a set, per sweep
	tripleEffort   = 1 << 22 // to try all sets of three
	manyShifts     = 12      // from here on, the choice of one more shift hardly matters
)

func newStepSearch(n int) *stepSearch {
	hops := none(n)
	extend(hops, 1, 1)
	return &stepSearch{n: n, Sets: [][]int{{1}}, Totals: []int{total(hops)}, fewest: newGreedy(n), last: hops, hops: make([]int32, n)}
}

// next finds a set with one more shift, and reports false if no shift is left.
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

// starts returns the sets from which the search for the next one begins.
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

// digits returns the set 1, b, b², …, by which classes are reached as numbers in base b,
// completed with the shifts that save most.
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

// power is b^e, or a number above MaxGPUs if b^e is.
func power(b, e int) int {
	p := 1
	for range e {
		if p *= b; p > MaxGPUs {
			return p
		}
	}
	return p
}

// triple returns the best set of 1 and two more shifts.
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

// base returns the hops over a set without its element at index leave.
func (s *stepSearch) base(set []int, leave int) []int32 {
	hops := none(s.n)
	for i, a := range set {
		if i != leave {
			extend(hops, a, 1)
		}
	}
	return hops
}

func (s *stepSearch) total(set []int) int { return total(s.base(set, -1)) }

// best returns the shift that lowers the sum of base most, and that sum. If all exceed the
// effort, it tries an evenly spread sample.
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
		extend(s.hops, a, 1)
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
		extend(s.hops, shift, 1)
		sum = total(s.hops)
	}
	return shift, sum, nil
}

// improve replaces shifts of the set by better ones, one after another, until it finds
// none, and returns the sum.
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

// newStages returns the stages of a set. If price is not nil, it has the price of a hop over each.
func newStages(n int, set, price []int) stages {
	st := make(stages, len(set)+1)
	st[0] = none(n)
	for i, a := range set {
		p := int32(1)
		if price != nil {
			p = int32(price[i])
		}
		st[i+1] = slices.Clone(st[i])
		extend(st[i+1], a, p)
	}
	return st
}

// split sets the number of hops over each shift of the set that reach a class, [shift].
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

// CarrySums returns the hop sums of 1, 2, …, at most d topologies of n GPUs of degree 1
// if chunks may wait for the next topology.
func CarrySums(ctx context.Context, n, d int) ([]int, error) {
	s := newStepSearch(n)
	err := s.reach(ctx, min(d, n-1))
	return s.Totals, err
}
