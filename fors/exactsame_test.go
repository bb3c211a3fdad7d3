package fors

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExactSame plans the same bytes in 100 runs, for one, two and four workers
// in turn, with memory that other plans have used in between.
func TestExactSame(t *testing.T) {
	trees := []*Tree{randomFailures(fullTree(6, 5), 7, 3), fullTree(20, 18), evenTree(4, 9, 3)}
	var want []*Plan
	for run := range 100 {
		for i, tree := range trees {
			if i == 1 && run%20 != 0 && !long() {
				continue // the large one
			}
			got, err := planExact(bg, tree, ComputeBounds(tree), []int{1, 2, 4}[run%3])
			if err != nil {
				t.Fatal(err)
			}
			if run == 0 {
				mustCheck(t, tree, got)
				want = append(want, got)
			} else if d := cmp.Diff(want[i], got); d != "" {
				t.Fatalf("run %d plans otherwise than the first:\n%s", run, d)
			}
		}
	}
}
