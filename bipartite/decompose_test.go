package bipartite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkStages replays the stages of a matrix: each is a permutation, the weights
// sum up to the largest row or column sum, and every entry is served in full.
func checkStages(n int, x, weights []int64, match []int32) error {
	if len(match) != n*len(weights) {
		return fmt.Errorf("%d stages of %d rows have %d partners", len(weights), n, len(match))
	}
	longest, total := int64(0), int64(0)
	for i := range n {
		row, column := int64(0), int64(0)
		for j := range n {
			row += x[i*n+j]
			column += x[j*n+i]
		}
		longest = max(longest, row, column)
	}
	left := slices.Clone(x)
	for s, w := range weights {
		if w <= 0 {
			return fmt.Errorf("stage %d has weight %d", s, w)
		}
		total += w
		taken := make([]bool, n)
		for i, j := range match[s*n : (s+1)*n] {
			if j < 0 || int(j) >= n || taken[j] {
				return fmt.Errorf("stage %d matches row %d with column %d, which does not exist or has a partner", s, i, j)
			}
			taken[j] = true
			left[i*n+int(j)] -= min(w, left[i*n+int(j)])
		}
	}
	if total != longest {
		return fmt.Errorf("the weights sum up to %d, want %d", total, longest)
	}
	for at, v := range left {
		if v != 0 {
			return fmt.Errorf("entry (%d, %d) has %d of %d left", at/n, at%n, v, x[at])
		}
	}
	return nil
}

func TestDecompose(t *testing.T) {
	var shared [2]Decomposer // with memory of other matrices
	shared[1].Longest = true
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 70).Draw(t, "n")
		limit := rapid.SampledFrom([]int64{1, 3, 1000, 1e12, maxLength / 70}).Draw(t, "limit")
		density := rapid.IntRange(0, 100).Draw(t, "density")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x := make([]int64, n*n)
		for at := range x {
			if rng.IntN(100) < density {
				x[at] = rng.Int64N(limit + 1)
			}
		}
		for i := range shared {
			weights, match, err := shared[i].Decompose(context.Background(), n, x)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkStages(n, x, weights, match); err != nil {
				t.Fatalf("longest %v: %v", shared[i].Longest, err)
			}
			fresh := Decomposer{Longest: shared[i].Longest}
			w, m, err := fresh.Decompose(context.Background(), n, x)
			if err != nil || !slices.Equal(w, weights) || !slices.Equal(m, match) {
				t.Fatalf("longest %v: fresh memory gives other stages (error %v)", fresh.Longest, err)
			}
		}
	})
}

// The stages of matrices whose number of stages is known.
func TestDecomposeKnown(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		x      []int64
		stages int
	}{
		{"zero", 3, make([]int64, 9), 0},
		{"a single entry", 3, []int64{0, 0, 0, 0, 0, 1e12, 0, 0, 0}, 1},
		{"one row", 3, []int64{0, 5, 7, 0, 0, 0, 0, 0, 0}, 2},
		{"one column", 3, []int64{0, 5, 0, 0, 0, 0, 0, 7, 0}, 2},
		{"a permutation", 3, []int64{0, 5, 0, 0, 0, 7, 6, 0, 0}, 1},
		{"all equal", 4, slices.Repeat([]int64{9}, 16), 4},
	} {
		for _, longest := range []bool{false, true} {
			d := Decomposer{Longest: longest}
			weights, match, err := d.Decompose(context.Background(), c.n, c.x)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkStages(c.n, c.x, weights, match); err != nil || len(weights) != c.stages {
				t.Errorf("%s, longest %v: %d stages, want %d (error %v)", c.name, longest, len(weights), c.stages, err)
			}
		}
	}
}

func TestDecomposeRefuses(t *testing.T) {
	for name, x := range map[string][]int64{
		"a negative entry":     {0, 1, -1, 0},
		"a row too large":      {maxLength, 1, 0, 0},
		"a column too large":   {0, maxLength, 0, 1},
		"too few entries":      {0, 1, 1},
		"a sum that overflows": {maxLength, maxLength, 0, 0},
	} {
		var d Decomposer
		if _, _, err := d.Decompose(context.Background(), 2, x); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// BenchmarkDecompose decomposes the traffic per NIC of servers of 8 GPUs if every pair
// of GPUs exchanges up to 1 MiB.
func BenchmarkDecompose(b *testing.B) {
	for _, longest := range []bool{false, true} {
		for _, n := range []int{8, 32, 40, 128} {
			b.Run(fmt.Sprintf("n=%d/longest=%v", n, longest), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(uint64(n), 0))
				x := make([]int64, n*n)
				for at := range x {
					for range 64 {
						if at%(n+1) != 0 { // servers send nothing to themselves
							x[at] += rng.Int64N(1<<20) / 8
						}
					}
				}
				d := Decomposer{Longest: longest}
				b.ReportAllocs()
				stages := 0
				for b.Loop() {
					weights, _, err := d.Decompose(context.Background(), n, x)
					if err != nil {
						b.Fatal(err)
					}
					stages = len(weights)
				}
				b.ReportMetric(float64(stages), "stages")
			})
		}
	}
}
