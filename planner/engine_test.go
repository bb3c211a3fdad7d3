package planner

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ilp"
	"github.com/forsd/forsd/testbed/fabgen"
)

// jointly is a tree of four leaves of three servers on five lanes, each leaf with
// three of them, which needs 9 phases for each leaf, 11 for each server and 14 for
// the leaves together.
func jointly() *fors.Tree {
	tree := &fors.Tree{Lanes: 5}
	for _, mask := range []int{28, 26, 19, 7} {
		up := make([]bool, 5)
		for k := range up {
			up[k] = mask>>k&1 != 0
		}
		tree.Up, tree.Slots = append(tree.Up, up), append(tree.Slots, []int{0, 1, 2})
	}
	return tree
}

// TestCertify checks that lp_solve proves the bound of an exact plan if it is built in, and
// that it does not run for the plan of another engine.
func TestCertify(t *testing.T) {
	tree := jointly()
	plan, err := exact(bg, tree)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Phases != 14 || plan.LowerBound != 14 || plan.Certificate != fors.ByLP {
		t.Fatalf("%d phases, bound %d by %s; want 14, 14 by lp", plan.Phases, plan.LowerBound, plan.Certificate)
	}
	unproved := fors.ComputeBounds(tree)
	for _, c := range []struct {
		engine fors.Engine
		raised bool
	}{{fors.Exact, ilp.Available()}, {fors.Conservative, false}} {
		again := *plan
		again.Engine, again.Bounds = c.engine, unproved
		certify(bg, tree, &again)
		want := unproved
		if c.raised {
			want = plan.Bounds
		}
		if again.Bounds != want {
			t.Errorf("engine %s: bounds %+v, want %+v", c.engine, again.Bounds, want)
		}
	}
}

// TestShorter checks that the integer programme replaces an exact plan whose search ended far
// from the bound, if it does better, and no other plan.
func TestShorter(t *testing.T) {
	tree := jointly()
	for leaf := range tree.Up {
		tree.Up[leaf] = slices.Repeat([]bool{true}, 5)
	}
	tree.Up[0][0] = false
	plan, err := exact(bg, tree)
	if err != nil {
		t.Fatal(err)
	}
	if shorter(bg, tree, plan) != plan {
		t.Error("a plan of as many phases as its bound was replaced")
	}
	far := *plan
	far.Phases += 5
	want := fors.Exact
	if ilp.Available() {
		want = fors.ILP
	}
	got := shorter(bg, tree, &far)
	if got.Engine != want || got.Bounds != plan.Bounds {
		t.Errorf("a plan of %d phases was replaced by one by %s with bounds %+v; want %s, %+v", far.Phases, got.Engine, got.Bounds, want, plan.Bounds)
	}
}

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
		if c.engine == fors.Exact && c.want != "" && !ilp.Available() {
			c.want += ", and the linear programme that may prove one is not there (forsd-lpsolve)"
		}
		var want []Warning
		if c.want != "" {
			want = []Warning{{Code: PlanOverBound, Text: c.want}}
		}
		if diff := cmp.Diff(want, s.Warnings); diff != "" {
			t.Errorf("engine %s, %d phases allowed: %s", c.engine, c.least, diff)
		}
	}
}
