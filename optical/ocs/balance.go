package ocs

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// mostShared is of how many pieces all ways to divide them between two switches are tried,
// and mostPartners with how many switches the most loaded one may share.
const (
	mostShared   = 10
	mostPartners = 8
)

// balance divides the pieces of the most loaded switch and of another anew between the
// two, as long as the larger load of the two falls.
func (p *plan) balance() {
	partners := make([]int, len(p.load))
	for range 4 * len(p.load) {
		for h := range partners {
			partners[h] = h
		}
		slices.SortStableFunc(partners, func(a, b int) int { return cmp.Compare(p.load[a], p.load[b]) })
		top := most(p.load)
		if !slices.ContainsFunc(partners[:min(len(partners), mostPartners)], func(h int) bool { return h != top && (p.share(top, h) || p.shift(top, h)) }) {
			return
		}
	}
}

// share divides the lightest pieces of two switches between the two so that the larger
// load is least, and tells whether that is less than it was. Pieces of a permutation that
// both have stay where they are.
func (p *plan) share(g, h int) bool {
	var movable []piece
	pair := [2]int{g, h}
	var kept [2][]piece
	for i, of := range pair {
		for _, x := range p.pieces[of] {
			if slices.ContainsFunc(p.pieces[pair[1-i]], func(y piece) bool { return y.part == x.part }) {
				kept[i] = append(kept[i], x)
			} else {
				movable = append(movable, x)
			}
		}
	}
	slices.SortStableFunc(movable, func(a, b piece) int { return cmp.Compare(a.weight, b.weight) })
	for _, x := range movable[min(len(movable), mostShared):] {
		i := 0
		if slices.Contains(p.pieces[h], x) {
			i = 1
		}
		kept[i] = append(kept[i], x)
	}
	movable = movable[:min(len(movable), mostShared)]
	loadG, loadH := p.loadOf(kept[0]), p.loadOf(kept[1])+p.loadOf(movable)
	least, way := math.Inf(1), 0
	var sums [1 << mostShared]float64 // [way] of the pieces that g gets
	for w := range 1 << len(movable) {
		if w > 0 {
			bit := w & -w
			sums[w] = sums[w-bit] + p.δ + movable[bits.TrailingZeros(uint(w))].weight
		}
		if load := max(loadG+sums[w], loadH-sums[w]); load < least {
			least, way = load, w
		}
	}
	if least >= max(p.load[g], p.load[h])*(1-1e-6) {
		return false
	}
	for i, x := range movable {
		to := 1 - way>>i&1
		kept[to] = append(kept[to], x)
	}
	for i, of := range pair {
		p.pieces[of], p.load[of] = kept[i], p.loadOf(kept[i])
	}
	return true
}

// loadOf is the load that pieces make.
func (p *plan) loadOf(pieces []piece) (load float64) {
	for _, x := range pieces {
		load += p.δ + x.weight
	}
	return load
}

// shift moves time from the more loaded switch g to h where both have a piece of a
// permutation, and tells whether that lowers the load of g.
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
