package ocs

import (
	"cmp"
	"slices"
)

// mostPartners is the number of switches that the most loaded one tries to exchange with.
const mostPartners = 8

// balance moves pieces between the most loaded switch and another, as long as the larger
// load of the two falls.
func (p *plan) balance() {
	partners := make([]int, len(p.load))
	for range 16 * len(p.load) {
		for h := range partners {
			partners[h] = h
		}
		slices.SortStableFunc(partners, func(a, b int) int { return cmp.Compare(p.load[a], p.load[b]) })
		top := most(p.load)
		if !slices.ContainsFunc(partners[:min(len(partners), mostPartners)], func(h int) bool { return h != top && (p.swap(top, h) || p.shift(top, h)) }) {
			return
		}
	}
}

// swap moves a piece from the more loaded switch g to h, or exchanges it for one of h's,
// whichever minimizes the larger load, and reports whether that load fell.
func (p *plan) swap(g, h int) bool {
	a, b, least := -1, -1, p.load[g]*(1-1e-6)
	for i, x := range p.pieces[g] {
		if slices.ContainsFunc(p.pieces[h], func(y piece) bool { return y.part == x.part }) {
			continue
		}
		for j := -1; j < len(p.pieces[h]); j++ {
			by := x.weight + p.δ
			if j >= 0 {
				by -= p.pieces[h][j].weight + p.δ
			}
			if load := max(p.load[g]-by, p.load[h]+by); load < least && (j < 0 || !slices.ContainsFunc(p.pieces[g], func(y piece) bool { return y.part == p.pieces[h][j].part })) {
				a, b, least = i, j, load
			}
		}
	}
	if a < 0 {
		return false
	}
	if b >= 0 {
		p.pieces[g][a], p.pieces[h][b] = p.pieces[h][b], p.pieces[g][a]
	} else {
		p.pieces[h] = append(p.pieces[h], p.pieces[g][a])
		p.pieces[g] = slices.Delete(p.pieces[g], a, a+1)
	}
	p.load[g], p.load[h] = p.loadOf(p.pieces[g]), p.loadOf(p.pieces[h])
	return true
}

// loadOf is the load of a list of pieces.
func (p *plan) loadOf(pieces []piece) (load float64) {
	for _, x := range pieces {
		load += p.δ + x.weight
	}
	return load
}

// shift moves time from the more loaded switch g to h if both have a piece of the same
// permutation, and reports whether it did.
func (p *plan) shift(g, h int) bool {
	by := (p.load[g] - p.load[h]) / 2
	if by <= 1e-6*p.load[g] {
		return false
	}
	for i := range p.pieces[g] {
		x := &p.pieces[g][i]
		for j := range p.pieces[h] {
			if y := &p.pieces[h][j]; y.part == x.part && x.weight > 2*by {
				x.weight -= by
				y.weight += by
				p.load[g], p.load[h] = p.loadOf(p.pieces[g]), p.loadOf(p.pieces[h])
				return true
			}
		}
	}
	return false
}
