package ilp

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/crillab/gophersat/solver"

	"github.com/forsd/forsd/fors"
)

// long reports whether the tests try all fabrics, which takes some minutes, and not only a
// share of them: FORS_LONG=1 go test. It is not a variable, because the test cache ignores
// what is read before a test runs.
func long() bool { return os.Getenv("FORS_LONG") != "" }

// satisfiable decides whether a phase has a routing by a SAT solver, with a
// variable for every transfer and every lane that it may take: a transfer has one
// of its lanes, and no two that leave or enter the same leaf have the same lane.
func satisfiable(t *fors.Tree, pairs []fors.Pair) bool {
	type link struct{ end, leaf, lane int }
	leaf := leafOf(t)
	takers := map[link][]int{}
	var clauses [][]int
	variable := 0
	for _, pair := range pairs {
		var lanes []int
		for k := range t.Lanes {
			if !t.Up[leaf[pair.Src]][k] || !t.Up[leaf[pair.Dst]][k] || t.Closed != nil && t.Closed(pair.Dst, fors.Lane(k)) {
				continue
			}
			variable++
			lanes = append(lanes, variable)
			for _, l := range []link{{0, leaf[pair.Src], k}, {1, leaf[pair.Dst], k}} {
				for _, other := range takers[l] {
					clauses = append(clauses, []int{-other, -variable})
				}
				takers[l] = append(takers[l], variable)
			}
		}
		if len(lanes) == 0 {
			return false
		}
		clauses = append(clauses, lanes)
	}
	return len(clauses) == 0 || solver.New(solver.ParseSlice(clauses)).Solve() == solver.Sat
}

// On fabrics of up to 6 leaves, 6 lanes and 6 servers a leaf, with any failures
// and populations, a SAT solver and the engine agree on every phase of section
// 4's schedule: those that leaves block and, with lp_solve, all others. The exact
// planner reaches its bound on all of them, and needs no more phases than the schedule
// if that has a routing.
func TestAgreesWithSAT(t *testing.T) {
	fabrics := 300
	if long() {
		fabrics = 10000
	}
	rng := rand.New(rand.NewPCG(6, 2))
	var routed, byLeaf, jointly, whole int // phases, and fabrics with a routing of all
	for fabric := range fabrics {
		tree, sc := drawSchedule(t, rng)
		blocked := map[string]bool{} // [demand]
		w := newNetwork(tree)
		for p, pairs := range sc.remote {
			ph, err := w.newPhase(pairs)
			if err != nil {
				t.Fatal(err)
			}
			demand := ph.demand()
			if _, known := blocked[demand]; known {
				continue
			}
			want := satisfiable(tree, pairs)
			blocked[demand] = !want
			_, hall := ph.hall()
			if hall && want {
				t.Fatalf("fabric %d, phase %d: a leaf blocks it, and it has a routing: %v %v", fabric, p, tree, pairs)
			}
			switch {
			case want:
				routed++
			case hall:
				byLeaf++
			default:
				jointly++
			}
			agree(t, tree, pairs, want)
		}
		plan, err := fors.PlanExact(context.Background(), tree)
		if err != nil {
			t.Fatal(err)
		}
		mustCheck(t, tree, plan)
		if plan.Gap() != 0 {
			t.Errorf("fabric %d: the exact planner needs %d phases, and the bound is %d: %v", fabric, plan.Phases, plan.LowerBound, tree)
		}
		if !anyOf(blocked) {
			whole++
			if plan.Phases > sc.plan.Phases {
				t.Errorf("fabric %d: the exact planner needs %d phases, and section 4's schedule %d: %v", fabric, plan.Phases, sc.plan.Phases, tree)
			}
		}
	}
	t.Logf("%d fabrics, on %d of them all phases have a routing; of the different phases %d have one, %d are blocked by a leaf, %d by leaves together", fabrics, whole, routed, byLeaf, jointly)
	if min(routed, byLeaf, jointly, whole, fabrics-whole) == 0 {
		t.Error("the fabrics drawn do not cover all cases")
	}
}

// agree checks that the engine, if it is built in, routes the phase if and only if that
// is possible.
func agree(t *testing.T, tree *fors.Tree, pairs []fors.Pair, want bool) {
	t.Helper()
	if !Available() {
		return
	}
	lanes, err := Route(context.Background(), tree, [][]fors.Pair{pairs})
	var blocked *InfeasibleError
	if got := err == nil; got != want || err != nil && !errors.As(err, &blocked) {
		t.Fatalf("routed %t (%v), the SAT solver says %t: %v %v", got, err, want, tree, pairs)
	}
	if err == nil {
		if err := checkRoute(tree, pairs, lanes[0]); err != nil {
			t.Fatalf("%v: %v %v", err, tree, pairs)
		}
	}
}

func anyOf(set map[string]bool) bool {
	for _, in := range set {
		if in {
			return true
		}
	}
	return false
}

// drawSchedule draws a tree of up to 6 leaves, lanes and servers a leaf for which
// section 4 has a schedule: any links may be down and, in every other tree, any
// servers absent.
func drawSchedule(t *testing.T, rng *rand.Rand) (*fors.Tree, *schedule) {
	t.Helper()
	for {
		tree := ft(1+rng.IntN(6), 2+rng.IntN(5), 1+rng.IntN(6))
		cutRandom(tree, rng.IntN(len(tree.Up)*tree.Lanes*2/3+1), rng)
		if rng.IntN(2) == 0 {
			for leaf := range tree.Slots {
				tree.Slots[leaf] = nil
				for α := range 6 {
					if rng.IntN(2) == 0 {
						tree.Slots[leaf] = append(tree.Slots[leaf], α)
					}
				}
			}
		}
		_, M0 := places(tree)
		if f := fors.ComputeBounds(tree).Reduction; M0 == 0 || f >= M0 {
			continue
		}
		if sc, err := newSchedule(context.Background(), tree, fors.ComputeBounds(tree).Reduction); err == nil {
			return tree, sc
		}
	}
}
