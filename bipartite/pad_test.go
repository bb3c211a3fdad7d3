package bipartite

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
)

// Padded matrices are regular with the largest sum, or a larger one, no entry is smaller
// than it was, and Colourer takes their arcs.
func TestPad(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	var c Colourer
	for range 500 {
		n := rng.IntN(12)
		x := make([]int64, n*n)
		for at := range x {
			x[at] = rng.Int64N(1 + rng.Int64N(9))
		}
		longest := int64(0)
		for i := range n {
			row, column := int64(0), int64(0)
			for j := range n {
				row += x[i*n+j]
				column += x[j*n+i]
			}
			longest = max(longest, row, column)
		}
		least := rng.Int64N(20)
		longest = max(longest, least)
		padded, sum := Pad(n, x, least)
		if sum != longest || len(padded) != n*n {
			t.Fatalf("%v: the sum of a row is %d, want %d", x, sum, longest)
		}
		for at, v := range padded {
			if v < x[at] {
				t.Fatalf("%v: entry (%d, %d) is %d", x, at/n, at%n, v)
			}
		}
		if err := c.Arcs(context.Background(), n, int(sum), ArcsOf(n, padded, nil), make([]int32, n*int(sum))); err != nil {
			t.Fatalf("%v: %v", x, err)
		}
	}
}

// TestByLeft compares the order with that of a stable sort.
func TestByLeft(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	for range 200 {
		n := 1 + rng.IntN(9)
		arcs := make([]Arc, rng.IntN(30))
		for i := range arcs {
			arcs[i] = Arc{Left: int32(rng.IntN(n)), Right: int32(i), Count: 1}
		}
		want := slices.Clone(arcs)
		slices.SortStableFunc(want, func(a, b Arc) int { return int(a.Left - b.Left) })
		if got := ByLeft(n, arcs); !slices.Equal(got, want) {
			t.Fatalf("%v is ordered as %v", arcs, got)
		}
	}
}
