package ocs

import (
	"context"
	"math"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// eclipse covers a demand as Eclipse does (Bojja Venkatakrishnan, Alizadeh and
// Viswanath, Queueing Systems 88, 2018), until none remains: each permutation, with
// its weight α, carries the most per unit of α + δ. The weights tried are quantiles of
// the remaining entries: 1/levels of the entries are at most as large as the first,
// and so on. If levels is 0, a bisection over the entries replaces them, as in the
// paper's Algorithm 2. eclipse returns no cover if no plan of one on s switches can
// take less than known.
func eclipse(ctx context.Context, d *Demand, δ float64, levels, s int, known float64) (*cover, error) {
	c := newCover(d, d.Degree())
	g := &greedy{d: d, δ: δ, rest: slices.Clone(d.amount), weight: make([]int64, len(d.to)), scale: scale(d)}
	spent := 0.0
	for g.sort(); len(g.values) > 0; g.sort() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if (spent+g.left())/float64(s) > known*(1+tolerance) {
			return nil, nil
		}
		g.rate = 0
		if levels > 0 {
			for i := 1; i <= levels; i++ {
				if _, err := g.try(ctx, g.values[max(1, len(g.values)*i/levels)-1]); err != nil {
					return nil, err
				}
			}
		} else if err := g.halve(ctx); err != nil {
			return nil, err
		}
		// If all pairs are busy for longer than α, a larger α carries as much per unit of time.
		most := math.Inf(1)
		for _, e := range g.pick {
			if e >= 0 {
				most = min(most, g.rest[e])
			}
		}
		g.α = max(g.α, most)
		c.add(g.pick, g.α)
		for _, e := range c.entry[len(c.entry)-1] {
			if e >= 0 {
				g.rest[e] = max(0, g.rest[e]-g.α)
			}
		}
		spent += g.α + δ
	}
	return c, nil
}

// left is a lower bound on the total time of the rest over all switches.
func (g *greedy) left() float64 {
	row, col := make([]float64, g.d.n), make([]float64, g.d.n) // sums, with δ an entry
	for e, x := range g.rest {
		if x > 0 {
			row[g.d.from[e]] += x + g.δ
			col[g.d.to[e]] += x + g.δ
		}
	}
	return max(slices.Max(row), slices.Max(col))
}

// greedy is the state of eclipse and the best next permutation found.
type greedy struct {
	d       *Demand
	δ       float64
	rest    []float64 // [entry]
	values  []float64 // remaining entries, ascending
	weight  []int64   // [entry] for the kernel
	scale   float64
	weigher bipartite.Weigher

	rate, α float64
	pick    []int32
}

// sort lists the remaining entries without rounding errors.
func (g *greedy) sort() {
	g.values = g.values[:0]
	for e, x := range g.rest {
		if x > tolerance*1e-3*g.d.amount[e] {
			g.values = append(g.values, x)
		} else {
			g.rest[e] = 0
		}
	}
	slices.Sort(g.values)
}

// try finds the permutation that carries most within α, and returns that amount per
// unit of time.
func (g *greedy) try(ctx context.Context, α float64) (float64, error) {
	for e, x := range g.rest {
		g.weight[e] = int64(min(x, α) * g.scale)
		if x > 0 && g.weight[e] == 0 {
			g.weight[e] = 1
		}
	}
	pick, err := g.weigher.Match(ctx, g.d.n, g.d.start, g.d.to, g.weight)
	if err != nil {
		return 0, err // ctx has ended: the weights are in range
	}
	carried := 0.0
	for _, e := range pick {
		if e >= 0 {
			carried += min(g.rest[e], α)
		}
	}
	rate := carried / (α + g.δ)
	if rate > g.rate {
		g.rate, g.α, g.pick = rate, α, append(g.pick[:0], pick...)
	}
	return rate, nil
}

// halve climbs to a weight from which neither the next smaller nor the next larger
// is better.
func (g *greedy) halve(ctx context.Context) error {
	values := slices.Compact(slices.Clone(g.values))
	low, high := 0, len(values)-1
	for low < high {
		mid := (low + high) / 2
		a, err := g.try(ctx, values[mid])
		if err != nil {
			return err
		}
		b, err := g.try(ctx, values[mid+1])
		if err != nil {
			return err
		}
		if a < b {
			low = mid + 1
		} else {
			high = mid
		}
	}
	_, err := g.try(ctx, values[low])
	return err
}
