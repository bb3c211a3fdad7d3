package ocs

import (
	"cmp"
	"slices"
)

// kick takes weight off a permutation of which few entries need all of it, often sums of
// two flows, and finds room in others for what these then lack: where a row has room in
// one permutation and the column in another, a chain of the two is turned round, and what
// that asks for is added to their weights. So the weights may sum to more in the end, for
// pairs to take down again; pairs alone get there only where all of these entries find
// room by chance at the same time. It tells whether all found room. If not, the
// exchanger is in the middle of it, for restore to undo.
func (x *exchanger) kick() bool {
	x.releaseAll()
	p, peaks, by := x.steepest()
	if p < 0 {
		return false
	}
	x.raise(p, -by)
	for _, e := range peaks {
		if !x.placeAlso(e, by) {
			return false
		}
	}
	return true
}

// state is what an exchanger can go back to.
type state struct {
	weight, carried []float64
	row, col        [][]int32
}

func (x *exchanger) save() *state {
	return &state{slices.Clone(x.weight), slices.Clone(x.carried), cloneAll(x.row), cloneAll(x.col)}
}

// restore goes back to a state, which is used up.
func (x *exchanger) restore(s *state) {
	x.weight, x.carried, x.row, x.col = s.weight, s.carried, s.row, s.col
}

func cloneAll(lists [][]int32) [][]int32 {
	out := make([][]int32, len(lists))
	for i := range lists {
		out[i] = slices.Clone(lists[i])
	}
	return out
}

// raise adds to the weight of a permutation.
func (x *exchanger) raise(p int, by float64) {
	x.weight[p] += by
	for _, e := range x.row[p] {
		if e >= 0 {
			x.carried[e] += by
		}
	}
}

// releaseAll takes entries out of permutations where others carry them alone.
func (x *exchanger) releaseAll() {
	for p, α := range x.weight {
		for _, e := range x.row[p] {
			if e < 0 {
				continue
			}
			if x.carried[e] -= α; x.spared(e) {
				x.drop(p, e)
			} else {
				x.carried[e] += α
			}
		}
	}
}

// worthwhile is the share of all weights that a kick must take off one.
const worthwhile = 1e-3

// steepest lists the entries of a permutation without which its weight comes down, by
// how much: those above the widest gap between what its entries need of it. Which
// permutation is a matter of how much that is, and of chance.
func (x *exchanger) steepest() (p int, peaks []int32, by float64) {
	p = -1
	most := worthwhile * sum(x.weight)
	for q := range x.weight {
		y := x.gap(q)
		if worth := y * (1 + x.random.Float64()); worth > most {
			p, by, most = q, y, worth
		}
	}
	if p < 0 {
		return p, nil, 0
	}
	for _, e := range x.row[p] {
		if e >= 0 && x.need(e) > -by {
			peaks = append(peaks, e)
		}
	}
	slices.SortFunc(peaks, func(a, b int32) int { return cmp.Compare(x.need(b), x.need(a)) })
	return p, peaks, by
}

// gapBins is how finely gap sorts.
const gapBins = 64

// gap is how far below the weight of a permutation the lower end of the widest gap is in
// what its entries need of it, of the gaps in the upper half of them.
func (x *exchanger) gap(q int) float64 {
	var count [gapBins]int
	var low, high [gapBins]float64
	α, all := x.weight[q], 0
	for _, e := range x.row[q] {
		if e < 0 {
			continue
		}
		y := x.need(e) + α
		b := min(max(int(y/α*gapBins), 0), gapBins-1)
		if count[b] == 0 {
			low[b], high[b] = y, y
		}
		low[b], high[b] = min(low[b], y), max(high[b], y)
		count[b]++
		all++
	}
	above, widest, end, last := 0, 0.0, α, α
	for b := gapBins - 1; b >= 0 && 2*above <= all; b-- {
		if count[b] == 0 {
			continue
		}
		if above > 0 && last-high[b] > widest {
			widest, end = last-high[b], high[b]
		}
		last = low[b]
		above += count[b]
	}
	return α - end
}

// mostTurns is how many permutations with room for a row, and for a column, are tried.
const mostTurns = 8

// placeAlso puts an entry into one more permutation, and tells whether there was one
// whose weight, and that of one more whose chain is turned for it, need not rise by more
// than so much.
func (x *exchanger) placeAlso(e int32, by float64) bool {
	i, j := x.d.from[e], x.d.to[e]
	if x.need(e) <= x.dust {
		return true
	}
	var inRow, inCol []int
	for q := range x.weight {
		freeRow, freeCol := x.row[q][i] < 0, x.col[q][j] < 0
		if freeRow && len(inRow) < mostTurns {
			inRow = append(inRow, q)
		}
		if freeCol && len(inCol) < mostTurns {
			inCol = append(inCol, q)
		}
	}
	bestA, bestB, least, moreA, moreB := -1, -1, 2*by, 0.0, 0.0
	for _, a := range inRow {
		for _, b := range inCol {
			upA, upB := x.turnCost(a, b, e)
			if upA <= by && upB <= by && upA+upB < least {
				bestA, bestB, least, moreA, moreB = a, b, upA+upB, upA, upB
			}
		}
	}
	if bestA < 0 {
		return false
	}
	if bestA != bestB {
		x.turn(bestA, bestB, i)
		x.raise(bestA, moreA)
	}
	x.put(bestB, e)
	x.carried[e] += x.weight[bestB]
	x.raise(bestB, moreB)
	return true
}

// turnCost is by how much the weights of a and b must rise where b gets entry e as well
// and the chain of the two that begins in its row, in which a has room, is turned round.
func (x *exchanger) turnCost(a, b int, e int32) (upA, upB float64) {
	upB = max(0, x.need(e)-x.weight[b])
	if a == b {
		return 0, upB
	}
	x.ofA, x.ofB = x.ofA[:0], x.ofB[:0]
	x.follow(b, a, x.d.from[e]) // ofA are of b
	more := x.weight[a] - x.weight[b]
	for _, f := range x.ofA {
		upA = max(upA, x.need(f)-more)
	}
	for _, f := range x.ofB {
		upB = max(upB, x.need(f)+more)
	}
	return upA, upB
}

// turn turns the chain of a and b round that begins in a row with an entry of b.
func (x *exchanger) turn(a, b int, row int32) {
	x.ofA, x.ofB = x.ofA[:0], x.ofB[:0]
	x.follow(b, a, row)
	more := x.weight[a] - x.weight[b]
	for _, f := range x.ofA {
		x.carried[f] += more
	}
	for _, f := range x.ofB {
		x.carried[f] -= more
	}
	x.swap(b, a, x.ofA, x.ofB)
}
