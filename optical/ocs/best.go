package ocs

import (
	"context"
	"time"
)

// search is the state of the method Best: the permutations under improvement, and
// the best plan so far with the permutations that it is made of.
type search struct {
	x     *exchanger
	s     int
	δ     float64
	cover *cover
	plan  *plan
}

// best improves a cover, which it changes, within a number of steps or a time.
func best(ctx context.Context, c *cover, o Options) (*cover, *plan) {
	b := &search{x: newExchanger(c, 1), s: o.Switches, δ: o.Delta, cover: c, plan: pack(c.weight, o.Switches, o.Delta)}
	k := len(c.weight)
	if k < 2 {
		return b.cover, b.plan
	}
	steps := o.Steps
	if steps == 0 {
		steps = DefaultSteps(c.d.n)
	}
	end := time.Now().Add(o.Budget)
	period := max(k, steps/looks) // a look costs about as much as k steps
	for i := 1; o.Budget > 0 || i <= steps; i++ {
		if i%16 == 0 && (ctx.Err() != nil || o.Budget > 0 && !time.Now().Before(end)) {
			break
		}
		k = len(b.x.weight)
		p := b.x.random.IntN(k)
		q := b.x.random.IntN(k - 1)
		if q >= p {
			q++
		}
		b.x.pair(p, q)
		if i%period == 0 {
			b.look()
			b.x.overflow(b.δ)
		}
	}
	b.look()
	return b.cover, b.plan
}

// looks is how often the search looks what the permutations are worth, where there
// are few of them.
const looks = 64

// DefaultSteps is the number of steps of Best where neither steps nor a time are
// given: a quarter of a second on a machine of 2024, where there are few permutations.
func DefaultSteps(racks int) int { return max(1000, 8_000_000/max(racks, 1)) }

// look packs the permutations as they are now and keeps them if they are the best.
func (b *search) look() {
	c := b.x.cover()
	c.refine()
	c.prune()
	if p := pack(c.weight, b.s, b.δ); p.makespan() < b.plan.makespan() {
		b.cover, b.plan = c, p
	}
}

// overflow adds a permutation that carries the peaks of others, so that their
// weights come down, if that is worth its δ. Each of those comes down by the
// weight of the new one.
func (x *exchanger) overflow(δ float64) bool {
	var take, lowered []int
	gain, weight := 0.0, 0.0
	for f := 1.0 / 16; f <= 16; f *= 2 {
		y := δ * f
		take = x.relieved(y, take[:0])
		if g := float64(len(take)-1)*y - δ; g > gain {
			gain, weight = g, y
			lowered = append(lowered[:0], take...)
		}
	}
	if gain <= 0 {
		return false
	}
	z := len(x.weight)
	x.grow(weight)
	for _, c := range lowered {
		for _, e := range x.row[c] {
			if e < 0 {
				continue
			}
			if x.need(e) > -weight {
				x.put(z, e)
			} else {
				x.carried[e] -= weight
			}
		}
		x.weight[c] -= weight
	}
	return true
}

// relieved lists permutations whose peaks, of height y, one more could carry.
func (x *exchanger) relieved(y float64, take []int) []int {
	row, col := make([]bool, x.d.n), make([]bool, x.d.n)
	lost := make([]float64, len(x.d.to)) // of what carries an entry
	var peaks []int32
next:
	for c, α := range x.weight {
		if α <= y {
			continue
		}
		peaks = peaks[:0]
		for _, e := range x.row[c] {
			if e >= 0 && x.need(e)+lost[e] > -y {
				if row[x.d.from[e]] || col[x.d.to[e]] {
					continue next
				}
				peaks = append(peaks, e)
			}
		}
		for _, e := range x.row[c] {
			if e >= 0 {
				lost[e] += y
			}
		}
		for _, e := range peaks {
			row[x.d.from[e]], col[x.d.to[e]] = true, true
			lost[e] -= y
		}
		take = append(take, c)
	}
	return take
}
