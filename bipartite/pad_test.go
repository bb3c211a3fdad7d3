package bipartite

import (
	"context"
	"math/rand/v2"
	"testing"
)

// Padded matrices are regular, no entry is smaller than it was, and Colourer takes
// their arcs.
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
		padded, sum := Pad(n, x)
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
