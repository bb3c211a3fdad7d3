package ocs

import (
	"math/bits"
	"slices"
)

// first makes a schedule that is available immediately: each entry, the largest first,
// goes into the first permutation with room in its row and column.
func (b *candidates) first(d *Demand) {
	c := firstFit(d)
	b.offer(c, pack(c.weight, b.o.Switches, b.o.Delta))
}

func firstFit(d *Demand) *cover {
	words := (2*d.Degree() + 63) / 64
	used := make([]uint64, 2*d.n*words) // [row, then column] permutations with an entry of it
	var picks [][]int32
	var weights []float64
	for _, e := range longestFirst(d.amount) {
		row, col := used[int(d.from[e])*words:][:words], used[(d.n+int(d.to[e]))*words:][:words]
		w := 0
		for row[w]|col[w] == ^uint64(0) {
			w++
		}
		i := bits.TrailingZeros64(^(row[w] | col[w]))
		row[w] |= 1 << i
		col[w] |= 1 << i
		if i += w << 6; i == len(picks) {
			picks, weights = append(picks, slices.Repeat([]int32{-1}, d.n)), append(weights, d.amount[e])
		}
		picks[i][d.from[e]] = int32(e)
	}
	c := newCover(d, len(picks))
	for i, pick := range picks {
		c.add(pick, weights[i])
	}
	return c
}
