package ocs

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
)

// Limits of the exhaustive search: maximal matchings of the demand, steps of Best per
// linear programme, and sets of matchings, complete or not, per step.
const (
	exactMatchings = 128
	exactSteps     = 16
	exactSets      = 2
)

// exact searches all schedules of a small demand for the shortest. A schedule uses
// some maximal matchings of the demand's pairs, each on some of the switches; its
// weights are then a linear programme:
//
//	min T with Σ_{p,h: e in p} w[p][h] ≥ D_e and Σ_p (δ + w[p][h]) ≤ T.
//
// Sets of matchings are tried by size. If W is the least sum of weights with which k
// matchings cover D, every schedule of exactly these takes at least (W + kδ)/s, and δ/s
// more for each matching that it splits over switches.
type exact struct {
	d      *Demand
	s      int
	δ      float64
	width  float64
	parts  []uint64  // [matching] its entries
	lines  []uint64  // [row, then column] its entries
	known  float64   // the makespan to beat
	bound  float64   // of all makespans
	forced []float64 // [matching] of the current set: its largest entry that no other has
	set    []int     // matchings of the current set
	on     []uint64  // [index in set] the switches that it is on
	load   []float64 // [switch] lower bound
	least  float64   // W of the current set
	lp     tableau
	work   int     // programmes left, 0 after giving up
	open   int     // sets left
	best   []piece // of the best plan, with part = index·MaxSwitches + switch
	of     []int   // its set
}

// exactly returns the shortest cover and plan of a demand if it takes less than known,
// and whether the search was exhaustive. It does nothing for large demands.
func exactly(ctx context.Context, d *Demand, o Options, known, bound float64) (c *cover, p *plan, all bool) {
	if len(d.to) > 63 || o.Switches > 8 {
		return nil, nil, false
	}
	x := &exact{d: d, s: o.Switches, δ: o.Delta, width: d.Width(), known: known, bound: bound, load: make([]float64, o.Switches)}
	if !x.matchings(0, 0, 0, 0) {
		return nil, nil, false
	}
	steps := cmp.Or(o.Steps, DefaultSteps(d.n))
	x.work, x.open, x.lines = steps/exactSteps, exactSets*steps, make([]uint64, 2*d.n)
	for e, j := range d.to {
		x.lines[d.from[e]] |= 1 << e
		x.lines[d.n+int(j)] |= 1 << e
	}
	entries := uint64(1)<<len(d.to) - 1
	for k := d.Degree(); k <= len(x.parts) && !x.hopeless(x.width, k); k++ {
		if x.sets(ctx, 0, k, entries); x.work <= 0 || ctx.Err() != nil {
			break
		}
	}
	c, p = x.schedule()
	return c, p, x.work > 0 && ctx.Err() == nil
}

// hopeless reports whether configurations of a total weight cannot beat the known makespan.
func (x *exact) hopeless(weight float64, configurations int) bool {
	return max(x.bound, (weight+float64(configurations)*x.δ)/float64(x.s)) >= x.known*(1-tolerance)
}

// matchings lists the maximal matchings of the demand's pairs from a row on, and reports
// whether they are few.
func (x *exact) matchings(row int, part, columns, rows uint64) bool {
	d := x.d
	if row == d.n {
		for e, j := range d.to {
			if rows>>d.from[e]&1 == 0 && columns>>j&1 == 0 {
				return true // not maximal
			}
		}
		x.parts = append(x.parts, part)
		return len(x.parts) <= exactMatchings
	}
	if x.work++; x.work > 1<<16 {
		return false
	}
	for e := d.start[row]; e < d.start[row+1]; e++ {
		if j := d.to[e]; columns>>j&1 == 0 && !x.matchings(row+1, part|1<<e, columns|1<<j, rows|1<<row) {
			return false
		}
	}
	return x.matchings(row+1, part, columns, rows)
}

// sets visits the sets of k more matchings, from an index on, that cover the remaining
// entries.
func (x *exact) sets(ctx context.Context, from, k int, left uint64) {
	if k == 0 {
		if left == 0 {
			x.trySet(ctx)
		}
		return
	}
	for _, line := range x.lines { // a matching covers one entry of each
		if bits.OnesCount64(left&line) > k {
			return
		}
	}
	if x.open--; x.open < 0 {
		x.work = 0
	}
	for i := from; i+k <= len(x.parts) && x.work > 0; i++ {
		x.set = append(x.set, i)
		x.sets(ctx, i+1, k-1, left&^x.parts[i])
		x.set = x.set[:len(x.set)-1]
	}
}

// trySet finds the best schedule of the current set.
func (x *exact) trySet(ctx context.Context) {
	x.forced = x.forced[:0]
	sum := 0.0
	for i, p := range x.set {
		others := uint64(0)
		for j, q := range x.set {
			if i != j {
				others |= x.parts[q]
			}
		}
		own := 0.0
		for left := x.parts[p] &^ others; left != 0; left &= left - 1 {
			own = max(own, x.d.amount[bits.TrailingZeros64(left)])
		}
		x.forced = append(x.forced, own)
		sum += own
	}
	if x.hopeless(max(sum, x.width), len(x.set)) {
		return
	}
	x.on = slices.Repeat([]uint64{1}, len(x.set))
	x.least = x.solve(ctx, 0)
	if x.hopeless(x.least, len(x.set)) {
		return
	}
	clear(x.load)
	x.assign(ctx, 0, 0, 0)
}

// assign assigns the set's matchings from an index on to switches, of which some are in
// use, in all ways that may be of use.
func (x *exact) assign(ctx context.Context, place, used, split int) {
	if x.work <= 0 || x.hopeless(x.least, len(x.set)+split) {
		return
	}
	if place == len(x.set) {
		if t := x.solve(ctx, x.δ); t < x.known*(1-tolerance) {
			x.known, x.of, x.best = t, slices.Clone(x.set), x.best[:0]
			for i, on := range x.on {
				for ; on != 0; on &= on - 1 {
					x.best = append(x.best, piece{i*MaxSwitches + bits.TrailingZeros64(on), x.lp.price(1 + len(x.best))})
				}
			}
		}
		return
	}
	// Switches are identical: use new ones in order.
	for on := uint64(1); on < 1<<x.s; on++ {
		fresh := on >> used
		if fresh&(fresh+1) != 0 {
			continue
		}
		weight := x.δ
		if on&(on-1) == 0 {
			weight += x.forced[place]
		}
		fits := true
		for h := range x.s {
			if on>>h&1 != 0 {
				x.load[h] += weight
				fits = fits && x.load[h] < x.known
			}
		}
		if x.on[place] = on; fits {
			x.assign(ctx, place+1, used+bits.OnesCount64(fresh), split+bits.OnesCount64(on)-1)
		}
		for h := range x.s {
			if on>>h&1 != 0 {
				x.load[h] -= weight
			}
		}
	}
}

// solve returns the least T of the set and its switches, where each configuration takes δ
// plus its weight. With δ = 0 and all on one switch it is the least sum of weights.
//
// It solves the dual: max Σ D_e·y_e + δ Σ_h c_h·u_h, with Σ_h u_h ≤ 1 and, for each
// configuration of matching p on switch h, Σ_{e in p} y_e ≤ u_h.
func (x *exact) solve(ctx context.Context, δ float64) float64 {
	if x.work--; ctx.Err() != nil {
		x.work = 0
		return math.Inf(1)
	}
	pieces, entries := 0, len(x.d.to)
	for _, on := range x.on {
		pieces += bits.OnesCount64(on)
	}
	t := &x.lp
	t.reset(1+pieces, entries+x.s)
	t.right(0, 1)
	for e, amount := range x.d.amount {
		t.cost[e] = -amount
	}
	for h := range x.s {
		t.rows[0][entries+h] = 1
	}
	at := 1
	for i, on := range x.on {
		for ; on != 0; on &= on - 1 {
			h := entries + bits.TrailingZeros64(on)
			for left := x.parts[x.set[i]]; left != 0; left &= left - 1 {
				t.rows[at][bits.TrailingZeros64(left)] = 1
			}
			t.rows[at][h] = -1
			t.cost[h] -= δ
			at++
		}
	}
	if t.solve(ctx) != nil {
		x.work = 0
		return math.Inf(1)
	}
	return t.cost[len(t.cost)-1]
}

// schedule returns the best cover and plan found, or nil.
func (x *exact) schedule() (*cover, *plan) {
	if x.of == nil {
		return nil, nil
	}
	d := x.d
	c, p := newCover(d, len(x.of)), newPlan(x.s, x.δ)
	for i, part := range x.of {
		pick := slices.Repeat([]int32{-1}, d.n)
		for left := x.parts[part]; left != 0; left &= left - 1 {
			e := bits.TrailingZeros64(left)
			pick[d.from[e]] = int32(e)
		}
		weight := 0.0
		for _, y := range x.best {
			if y.part/MaxSwitches == i {
				weight += y.weight
			}
		}
		c.add(pick, weight)
	}
	carried := c.carried()
	for i, y := range x.best {
		for left := x.parts[x.of[y.part/MaxSwitches]]; left != 0; left &= left - 1 { // missing by rounding
			e := bits.TrailingZeros64(left)
			if short := d.amount[e] - carried[e]; short > 0 {
				x.best[i].weight += short
				carried[e] += short
			}
		}
		if y = x.best[i]; y.weight > 0 {
			p.put(y.part%MaxSwitches, y.part/MaxSwitches, y.weight)
		}
	}
	return c, p
}
