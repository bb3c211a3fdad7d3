package ocs

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
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

// packSplit splits mostMore permutations at most, each one of the first mostSplit, and
// leaves plans of more than mostAnnealed permutations to pack.
const (
	mostMore     = 3
	mostSplit    = 12
	mostAnnealed = 64
)

// packSplit is pack, and tries which permutations to split in two, with pieces placed anew.
func packSplit(weights []float64, s int, δ float64) *plan {
	best := pack(weights, s, δ)
	rng := rand.New(rand.NewPCG(1, 0))
	pieces := whole(weights)
	for more := 0; more <= min(s-1, mostMore) && len(weights) <= mostAnnealed && (sum(weights)+δ*float64(len(pieces)))/float64(s) < best.makespan(); more++ {
		var shortest *plan
		with := pieces
		for i := range pieces[:min(len(pieces), mostSplit)] {
			half := slices.Clone(pieces)
			if more > 0 {
				half[i].weight /= 2
				half = append(half, half[i])
			} else if i > 0 {
				break
			}
			p := place(half, s, δ)
			p.anneal(rng)
			if p.balance(); shortest == nil || p.makespan() < shortest.makespan() {
				shortest, with = p, half
			}
		}
		pieces = with
		if shortest.makespan() < best.makespan() {
			best = shortest
		}
	}
	return best
}

// moves is how many moves anneal tries for each piece.
const moves = 100

// anneal moves pieces between switches, and swaps them, at random: what makes loads more
// even, and at first some of the rest.
func (p *plan) anneal(rng *rand.Rand) {
	s, count := len(p.load), 0
	for _, of := range p.pieces {
		count += len(of)
	}
	if s < 2 {
		return
	}
	heat := sum(p.load) / float64(count) / 4
	for left := moves * count; left > 0; left-- {
		g, h := rng.IntN(s), rng.IntN(s-1)
		if h >= g {
			h++
		}
		a, b := rng.IntN(len(p.pieces[g])+1)-1, rng.IntN(len(p.pieces[h])+1)-1
		by := 0.0 // goes from g to h
		if a >= 0 {
			by += p.pieces[g][a].weight + p.δ
		}
		if b >= 0 {
			by -= p.pieces[h][b].weight + p.δ
		}
		worse := by * (by - (p.load[g] - p.load[h]))
		t := heat * float64(left) / float64(moves*count)
		if t *= t; worse > t || !p.move(g, a, h, b) {
			continue
		}
		p.load[g], p.load[h] = p.load[g]-by, p.load[h]+by
	}
	for h, of := range p.pieces {
		p.load[h] = p.loadOf(of)
	}
}

// move has two switches swap pieces, or one give its own where the other's is −1, and tells
// whether it did: not where one has a piece of the same permutation.
func (p *plan) move(g, a, h, b int) bool {
	has := func(h, part, but int) bool {
		for i, x := range p.pieces[h] {
			if i != but && x.part == part {
				return true
			}
		}
		return false
	}
	switch {
	case a < 0 && b < 0, a >= 0 && has(h, p.pieces[g][a].part, b), b >= 0 && has(g, p.pieces[h][b].part, a):
		return false
	case a >= 0 && b >= 0:
		p.pieces[g][a], p.pieces[h][b] = p.pieces[h][b], p.pieces[g][a]
	case a >= 0:
		p.pieces[h] = append(p.pieces[h], p.pieces[g][a])
		p.pieces[g] = slices.Delete(p.pieces[g], a, a+1)
	default:
		p.pieces[g] = append(p.pieces[g], p.pieces[h][b])
		p.pieces[h] = slices.Delete(p.pieces[h], b, b+1)
	}
	return true
}
