package ocs

import (
	"cmp"
	"slices"
)

// piece is a share of the weight of a permutation.
type piece struct {
	part   int
	weight float64
}

// plan assigns pieces to switches.
type plan struct {
	δ      float64
	pieces [][]piece // [switch]
	load   []float64 // [switch] the sum of its weights, plus δ per piece
}

func newPlan(s int, δ float64) *plan {
	return &plan{δ: δ, pieces: make([][]piece, s), load: make([]float64, s)}
}

// put gives a piece to switch h. A switch has one piece of a permutation.
func (p *plan) put(h, part int, weight float64) {
	for i := range p.pieces[h] {
		if x := &p.pieces[h][i]; x.part == part {
			x.weight += weight
			p.load[h] += weight
			return
		}
	}
	p.pieces[h] = append(p.pieces[h], piece{part, weight})
	p.load[h] += p.δ + weight
}

// makespan is the largest load.
func (p *plan) makespan() float64 { return slices.Max(p.load) }

// longestFirst lists the permutations by falling weight.
func longestFirst(weights []float64) []int {
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	return order
}

// lpt assigns each permutation, longest first, to the least loaded switch (Alg. 3).
func lpt(weights []float64, s int, δ float64) *plan {
	p := newPlan(s, δ)
	for _, i := range longestFirst(weights) {
		p.put(least(p.load), i, weights[i])
	}
	return p
}

// tolerance is the share of a makespan that rounding may amount to.
const tolerance = 1e-9

// equalize moves time of the longest piece of the most loaded switch to the least
// loaded one, as long as that helps (Alg. 4). The tolerance ends the loop at δ = 0,
// where rounding would keep it going.
func (p *plan) equalize() {
	for {
		top, low := most(p.load), least(p.load)
		if p.load[top]-p.load[low] <= p.δ+tolerance*p.load[top] {
			return
		}
		μ := (p.load[top] + p.load[low] + p.δ) / 2
		τ := p.load[top] - μ
		z := 0
		for i, x := range p.pieces[top] {
			if x.weight > p.pieces[top][z].weight {
				z = i
			}
		}
		if p.pieces[top][z].weight <= τ {
			return
		}
		p.pieces[top][z].weight -= τ
		p.load[top] -= τ
		p.put(low, p.pieces[top][z].part, τ)
	}
}

// pack seeks the least makespan T at which fit finds room for every permutation.
// It is never worse than lpt with equalize.
func pack(weights []float64, s int, δ float64) *plan {
	unsplit, best := lpt(weights, s, δ), lpt(weights, s, δ)
	unsplit.balance()
	best.equalize()
	if best.balance(); unsplit.makespan() <= best.makespan() {
		best = unsplit
	}
	order := longestFirst(weights)
	low, high := (sum(weights)+δ*float64(max(s, len(weights))))/float64(s), best.makespan()
	for range 24 {
		t := (low + high) / 2
		p := fit(weights, order, s, δ, t)
		if p == nil {
			low = t
			continue
		}
		best, high = p, p.makespan()
		if high <= low {
			break
		}
	}
	best.balance()
	return best
}

// fit packs the permutations, longest first, within makespan t: unsplit by best fit; those that
// do not fit are split over the least loaded switches at the end. It returns nil if it fails.
func fit(weights []float64, order []int, s int, δ, t float64) *plan {
	p := newPlan(s, δ)
	var split []int
	for _, i := range order {
		h := -1
		for g, load := range p.load {
			if load+δ+weights[i] <= t && (h < 0 || load > p.load[h]) {
				h = g
			}
		}
		if h < 0 {
			split = append(split, i)
			continue
		}
		p.put(h, i, weights[i])
	}
	for _, i := range split {
		for rest := weights[i]; rest > 0; {
			h := least(p.load)
			x := min(rest, t-p.load[h]-δ)
			if x <= 0 {
				return nil
			}
			p.put(h, i, x)
			rest -= x
		}
	}
	return p
}

func least(load []float64) (h int) {
	for i, x := range load {
		if x < load[h] {
			h = i
		}
	}
	return h
}

func most(load []float64) (h int) {
	for i, x := range load {
		if x > load[h] {
			h = i
		}
	}
	return h
}
