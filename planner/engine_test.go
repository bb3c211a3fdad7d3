package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestOverBoundText checks the warning about a plan over its bound. It has the reason if the
// exact planner has given up. A plan at the bound that the LIDs in use allow has no warning.
func TestOverBoundText(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	for _, c := range []struct {
		engine fors.Engine
		least  int
		want   string
	}{
		{fors.Exact, 12, "the plan of engine exact has 13 phases, 1 more than the bound of 12: neither a shorter plan nor a higher bound was found within the limit of work"},
		{fors.Algorithm, 11, "the plan of engine algorithm has 13 phases, 2 more than the bound of 11"},
		{fors.Exact, 13, ""},
	} {
		s := &Schedule{Tree: ft, Plan: &fors.Plan{Engine: c.engine, Phases: 13, Bounds: fors.Bounds{LowerBound: 11}}, least: c.least}
		s.warn()
		var want []Warning
		if c.want != "" {
			want = []Warning{{Code: PlanOverBound, Text: c.want}}
		}
		if diff := cmp.Diff(want, s.Warnings); diff != "" {
			t.Errorf("engine %s, %d phases allowed: %s", c.engine, c.least, diff)
		}
	}
}
