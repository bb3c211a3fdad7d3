package bipartite

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// leastSum tries all assignments of the rows from one on.
func leastSum(n int, cost []int64, row int, taken []bool) int64 {
	if row == n {
		return 0
	}
	least, found := int64(0), false
	for j := range n {
		if taken[j] {
			continue
		}
		taken[j] = true
		if sum := cost[row*n+j] + leastSum(n, cost, row+1, taken); !found || sum < least {
			least, found = sum, true
		}
		taken[j] = false
	}
	return least
}

// TestAssign compares with all assignments.
func TestAssign(t *testing.T) {
	var a Assigner
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "n")
		most := rapid.SampledFrom([]int64{3, 1000, maxCost}).Draw(t, "cost at most")
		cost := make([]int64, n*n)
		for i := range cost {
			cost[i] = rapid.Int64Range(-most, most).Draw(t, "cost")
		}
		columns, sum, err := a.Assign(n, cost)
		if err != nil {
			t.Fatal(err)
		}
		taken, added := make([]bool, n), int64(0)
		for i, j := range columns {
			if taken[j] {
				t.Fatalf("column %d is given twice", j)
			}
			taken[j] = true
			added += cost[i*n+int(j)]
		}
		if least := leastSum(n, cost, 0, make([]bool, n)); sum != least || added != least {
			t.Fatalf("sum %d, said to be %d, want %d", added, sum, least)
		}
	})
	if _, _, err := a.Assign(2, make([]int64, 3)); err == nil {
		t.Error("three costs for two rows: no error")
	}
	if _, _, err := a.Assign(1, []int64{maxCost + 1}); err == nil {
		t.Error("excessive cost: no error")
	}
}

// BenchmarkAssign assigns random costs.
func BenchmarkAssign(b *testing.B) {
	for _, n := range []int{64, 512} {
		rng := rand.New(rand.NewPCG(7, 8))
		cost := make([]int64, n*n)
		for i := range cost {
			cost[i] = rng.Int64N(1e9)
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			var a Assigner
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := a.Assign(n, cost); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
