package baseline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/forsd/forsd/gpu"
)

// check replays stages: permutations that serve every entry of the matrix.
func check(n int, x []int64, s *Stages) error {
	left := slices.Clone(x)
	for stage, w := range s.Weights {
		taken := make([]bool, n)
		for i, j := range s.Match[stage*n : (stage+1)*n] {
			if taken[j] {
				return fmt.Errorf("stage %d has column %d twice", stage, j)
			}
			taken[j] = true
			left[i*n+int(j)] -= w
		}
	}
	if most := slices.Max(left); most > 0 {
		return fmt.Errorf("an entry has %d left", most)
	}
	return nil
}

// The baselines serve all traffic, in the length that they promise.
func TestBaselines(t *testing.T) {
	for _, c := range []gpu.Cluster{{Servers: 1, GPUs: 2}, {Servers: 4, GPUs: 2}, {Servers: 5, GPUs: 3}} {
		for _, pattern := range gpu.Patterns {
			traffic, err := gpu.Generate(c, pattern, 20, .9, 1)
			if err != nil {
				t.Fatal(err)
			}
			busiest := int64(0)
			matrix := nics(traffic)
			for r := range c.Ranks() {
				row, column := int64(0), int64(0)
				for k := range c.Ranks() {
					row += matrix[r*c.Ranks()+k]
					column += matrix[k*c.Ranks()+r]
				}
				busiest = max(busiest, row, column)
			}
			paper, err := new(gpu.Planner).Plan(t.Context(), traffic, gpu.Options{Mode: gpu.Paper})
			if err != nil {
				t.Fatal(err)
			}
			flat, err := FlatKoenig(traffic, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			for name, x := range map[string]struct {
				n      int
				matrix []int64
				stages *Stages
				length int64
			}{
				"flat BvN":   {c.Ranks(), matrix, FlatBvN(traffic), busiest},
				"flat König": {c.Ranks(), matrix, flat, busiest},
				"padded":     {c.Servers, Servers(traffic), Padded(c.Servers, Servers(traffic)), paper.Length},
			} {
				if err := check(x.n, x.matrix, x.stages); err != nil {
					t.Errorf("%s, %s of %+v: %v", name, pattern, c, err)
				}
				if got := x.stages.Length(); got != x.length {
					t.Errorf("%s, %s of %+v: length %d, want %d", name, pattern, c, got, x.length)
				}
			}
			if _, err := FlatKoenig(traffic, busiest-1); err == nil {
				t.Errorf("%d packets of a NIC are coloured where %d are the most", busiest, busiest-1)
			}
		}
	}
}
