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
	alone  []int   // a set that grows by what saves most without waiting, which waiting can only improve
	single []int32 // the classes' hops over one shift of alone
	last   []int32 // the classes' hops over the last set
	hops   []int32 // scratch
}

// The effort of a search, in class updates.
const (
	growEffort     = 8 << 20 // to add a shift
	lateEffort     = 1 << 20 // to add a shift to manyShifts or more
	exchangeEffort = 8 << 20 // to replace the shifts of a set, per sweep
	manyShifts     = 12      // from here on, the choice of one more shift hardly matters
)

func newStepSearch(n int) *stepSearch {
	hops := none(n)
	extend(hops, 1, 1)
	return &stepSearch{n: n, Sets: [][]int{{1}}, Totals: []int{total(hops)}, alone: []int{1}, single: slices.Clone(hops), last: hops, hops: make([]int32, n)}
}

// next finds a set with one more shift, and reports false if no shift is left.
func (s *stepSearch) next(ctx context.Context) (bool, error) {
	if len(s.Sets)+1 >= s.n {
		return false, nil
	}
	last, effort := s.Sets[len(s.Sets)-1], growEffort
	if len(last) >= manyShifts {
		effort = lateEffort
	}
	b, _, err := s.best(ctx, none(s.n), s.single, s.alone, effort)
	if err != nil {
		return false, err
	}
	a, _, err := s.best(ctx, s.last, nil, last, effort)
	if err != nil {
		return false, err
	}
	s.alone = append(s.alone, b)
	lower(s.single, s.base([]int{b}, -1))
	var set []int
	least := far * s.n
	for _, start := range [][]int{append(slices.Clone(last), a), slices.Clone(s.alone)} {
		sum, err := s.improve(ctx, start)
		if err != nil {
			return false, err
		}
		if sum < least {
			set, least = start, sum
		}
	}
	s.Sets, s.Totals = append(s.Sets, set), append(s.Totals, least)
	s.last = s.base(set, -1)
	return true, nil
}

// lower lowers hops to those of another set.
func lower(hops, by []int32) {
	for x, h := range by {
		hops[x] = min(hops[x], h)
	}
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

// best returns the shift that, added to a set with the hops base, lowers the sum of hops most,
// and that sum; no class takes more than at most, if given. If all shifts exceed the effort, it
// tries an evenly spread sample.
func (s *stepSearch) best(ctx context.Context, base, most []int32, set []int, effort int) (shift, sum int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	sum = far * s.n
	try := func(a int) {
		copy(s.hops, base)
		extend(s.hops, a, 1)
		lower(s.hops, most)
		if t := total(s.hops); t < sum {
			shift, sum = a, t
		}
	}
	tries := min(s.n-1, max(32, effort/(2*s.n)))
	for i := range tries {
		if a := 1 + i*(s.n-1)/tries; !slices.Contains(set, a) {
			try(a)
		}
	}
	for a := 1; shift == 0; a++ { // all that were tried are in the set
		if !slices.Contains(set, a) {
			try(a)
		}
	}
	return shift, sum, nil
}

// improve replaces shifts of the set by better ones, one after another, until it finds
// none, and returns the sum.
func (s *stepSearch) improve(ctx context.Context, set []int) (int, error) {
	least := total(s.base(set, -1))
	if len(set)*s.n*2*s.n > exchangeEffort {
		return least, nil
	}
	for again := true; again; {
		again = false
		for i := range set {
			a, sum, err := s.best(ctx, s.base(set, i), nil, set, growEffort)
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

// newStages returns the stages of a set; a hop over each shift has a price, or 1 if price is nil.
func newStages(n int, set []int, price []int32) stages {
	st := stages{none(n)}
	for i, a := range set {
		st = append(st, slices.Clone(st[i]))
		p := int32(1)
		if price != nil {
			p = price[i]
		}
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
