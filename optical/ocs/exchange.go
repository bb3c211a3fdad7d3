package ocs

import (
	"math/rand/v2"
	"slices"
)

// exchanger improves a set of permutations two at a time. The entries that only these
// two carry form paths and cycles that alternate between them (Kempe chains). Each chain
// can be swapped independently, and the choice with the least sum of weights is found
// directly. Ties are broken at random, so that entries keep moving: after some ten
// thousand pairs few peaks that determine a weight are left.
type exchanger struct {
	d        *Demand
	weight   []float64 // [permutation] α
	row, col [][]int32 // [permutation][rack] its entry, or −1
	carried  []float64 // [entry] by all permutations
	random   *rand.Rand
	dust     float64 // a need up to this is rounding error

	chains []chain
	ofA    []int32 // entries of all chains that the first permutation has
	ofB    []int32
	seen   []int32 // [rack] the last round that walked its row
	round  int32
}

// chain is a path or cycle of entries that alternate between the two permutations; it
// ends where the next chain begins.
type chain struct {
	a, b  int32   // where its entries begin in ofA and ofB
	needA float64 // the largest need of an entry of ofA
	needB float64
}

func newExchanger(c *cover, seed uint64) *exchanger {
	x := &exchanger{d: c.d, random: rand.New(rand.NewPCG(seed, 0)), carried: make([]float64, len(c.d.to)), seen: make([]int32, c.d.n)}
	for _, amount := range c.d.amount {
		x.dust = max(x.dust, 1e-12*amount)
	}
	for i, entries := range c.entry {
		x.grow(c.weight[i])
		for _, e := range entries {
			if e >= 0 {
				x.put(i, e)
				x.carried[e] += c.weight[i]
			}
		}
	}
	return x
}

// grow adds a permutation without entries.
func (x *exchanger) grow(weight float64) {
	none := slices.Repeat([]int32{-1}, 2*x.d.n)
	x.weight = append(x.weight, weight)
	x.row, x.col = append(x.row, none[:x.d.n:x.d.n]), append(x.col, none[x.d.n:])
}

// cover returns the current permutations that have a weight.
func (x *exchanger) cover() *cover {
	c := newCover(x.d, len(x.weight))
	for i, α := range x.weight {
		if α > 0 {
			c.add(x.row[i], α)
		}
	}
	return c
}

func (x *exchanger) put(i int, e int32) { x.row[i][x.d.from[e]], x.col[i][x.d.to[e]] = e, e }

func (x *exchanger) drop(i int, e int32) { x.row[i][x.d.from[e]], x.col[i][x.d.to[e]] = -1, -1 }

// need is the demand of an entry that is not carried.
func (x *exchanger) need(e int32) float64 { return x.d.amount[e] - x.carried[e] }

// spared reports whether an entry is carried in full.
func (x *exchanger) spared(e int32) bool { return x.need(e) <= x.dust && x.carried[e] > x.dust }

// pair redistributes the entries of permutations a and b between the two. The sum of
// their weights never rises.
func (x *exchanger) pair(a, b int) {
	if x.weight[a] < x.weight[b] {
		a, b = b, a
	}
	x.release(a, b)
	shared := x.walk(a, b)
	α, β := 0.0, 0.0
	for i := range x.chains {
		c := &x.chains[i]
		α, β = max(α, c.needA, c.needB), max(β, min(c.needA, c.needB))
	}
	// Either weight may rise for the entries that both carry.
	if short := shared - α - β; short > 0 {
		if x.random.Uint64()&1 == 0 {
			α += short
		} else {
			β += short
		}
	}
	x.orient(a, b, β)
	x.weight[a], x.weight[b] = α, β
	for i := range x.d.n {
		if e := x.row[a][i]; e >= 0 {
			x.carried[e] += α
		}
		if e := x.row[b][i]; e >= 0 {
			x.carried[e] += β
		}
	}
}

// release subtracts what a and b carry, and drops the entries that others carry in full.
func (x *exchanger) release(a, b int) {
	α, β := x.weight[a], x.weight[b]
	for i := range x.d.n {
		e, f := x.row[a][i], x.row[b][i]
		if e >= 0 {
			x.carried[e] -= α
		}
		if f >= 0 {
			x.carried[f] -= β
		}
		if e >= 0 && x.spared(e) {
			x.drop(a, e)
		}
		if f >= 0 && x.spared(f) {
			x.drop(b, f)
		}
	}
}

// walk finds the chains. An entry that has its row and column in both permutations to
// itself goes to both; walk returns the largest need of these.
func (x *exchanger) walk(a, b int) (shared float64) {
	x.round++
	x.chains, x.ofA, x.ofB = x.chains[:0], x.ofA[:0], x.ofB[:0]
	for i, e := range x.row[a] {
		f := x.row[b][i]
		if x.seen[i] == x.round || e < 0 && f < 0 {
			continue
		}
		if alone := x.alone(a, b, e, f); alone >= 0 {
			x.put(a, alone)
			x.put(b, alone)
			shared = max(shared, x.need(alone))
			continue
		}
		c := chain{a: int32(len(x.ofA)), b: int32(len(x.ofB))}
		if !x.follow(a, b, int32(i)) {
			x.ofA, x.ofB = x.ofB, x.ofA
			x.follow(b, a, int32(i))
			x.ofA, x.ofB = x.ofB, x.ofA
		}
		for _, e := range x.ofA[c.a:] {
			c.needA = max(c.needA, x.need(e))
		}
		for _, e := range x.ofB[c.b:] {
			c.needB = max(c.needB, x.need(e))
		}
		x.chains = append(x.chains, c)
	}
	return shared
}

// alone returns the only entry of a row and of its column in a and b, or −1; e is the
// entry of a in the row and f that of b.
func (x *exchanger) alone(a, b int, e, f int32) int32 {
	switch {
	case e == f:
		return e
	case f < 0 && x.col[b][x.d.to[e]] < 0:
		return e
	case e < 0 && x.col[a][x.d.to[f]] < 0:
		return f
	}
	return -1
}

// follow walks from a row along an entry of a to its column, along one of b to the
// next row, and so on, and reports whether it returned to the first row.
func (x *exchanger) follow(a, b int, first int32) (closed bool) {
	i := first
	for {
		x.seen[i] = x.round
		e := x.row[a][i]
		if e < 0 {
			return false
		}
		x.ofA = append(x.ofA, e)
		f := x.col[b][x.d.to[e]]
		if f < 0 {
			return false
		}
		x.ofB = append(x.ofB, f)
		if i = x.d.from[f]; i == first {
			return true
		}
	}
}

// apart is the probability that the larger side of a chain that fits either way goes to the
// smaller weight. It is less than a half, so that peaks gather in the heavier permutation
// and the lighter one becomes lighter.
const apart = 0.25

// orient swaps the chains whose need is larger in b, the lighter permutation. It decides
// at random for chains that fit within its weight β either way.
func (x *exchanger) orient(a, b int, β float64) {
	for i, c := range x.chains {
		turn := c.needB > c.needA
		if max(c.needA, c.needB) <= β {
			turn = turn != (x.random.Float64() < apart)
		}
		if !turn {
			continue
		}
		ofA, ofB := x.ofA[c.a:], x.ofB[c.b:]
		if i+1 < len(x.chains) {
			ofA, ofB = x.ofA[c.a:x.chains[i+1].a], x.ofB[c.b:x.chains[i+1].b]
		}
		x.swap(a, b, ofA, ofB)
	}
}

// swap exchanges entries of a for entries of b.
func (x *exchanger) swap(a, b int, ofA, ofB []int32) {
	for _, e := range ofA {
		x.drop(a, e)
	}
	for _, e := range ofB {
		x.drop(b, e)
	}
	for _, e := range ofA {
		x.put(b, e)
	}
	for _, e := range ofB {
		x.put(a, e)
	}
}
