//go:build lpsolve

package ilp

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/fors"
)

// The scenarios of the paper for which it needs its integer programme; Gurobi
// took 29.7 s for one on 8 threads.
func TestPaperScenarios(t *testing.T) {
	for _, c := range []struct {
		name   string
		tree   *fors.Tree
		phases int
	}{
		{"1F SW0,5,11", cut(ft(20, 18, 20), 1, 0, 5, 11), 361},
		{"2F SW0,5,11", cut(ft(20, 18, 20), 2, 0, 5, 11), 378},
		{"3F SW0,5,11", cut(ft(20, 18, 20), 3, 0, 5, 11), 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			p, err := Plan(context.Background(), c.tree)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v for %d phases", time.Since(start), p.Phases)
			mustCheck(t, c.tree, p)
			if p.Engine != fors.ILP || p.Phases != c.phases || p.Bounds != fors.ComputeBounds(c.tree) {
				t.Errorf("engine %s, %d phases, bounds %+v; want %s, %d and those of the tree", p.Engine, p.Phases, p.Bounds, fors.ILP, c.phases)
			}
		})
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct {
		name string
		tree *fors.Tree
	}{
		{"1F_SW0,5,11", cut(ft(20, 18, 20), 1, 0, 5, 11)},
		{"3F_SW0,5,11", cut(ft(20, 18, 20), 3, 0, 5, 11)},
		{"120_links", cutRandom(ft(20, 18, 20), 120, rand.New(rand.NewPCG(1, 1)))},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Plan(context.Background(), c.tree); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSolver routes all phases by lp_solve without matchings.
func BenchmarkSolver(b *testing.B) {
	for n := 1; n <= 3; n += 2 {
		tree := cut(ft(20, 18, 20), n, 0, 5, 11)
		b.Run(map[int]string{1: "1F_SW0,5,11", 3: "3F_SW0,5,11"}[n], func(b *testing.B) {
			for b.Loop() {
				r := router{limit: PhaseLimit, direct: true}
				if _, err := r.route(context.Background(), tree, remote(b, tree)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// remote is the inter-leaf phases of section 4's schedule.
func remote(t testing.TB, tree *fors.Tree) [][]fors.Pair {
	t.Helper()
	sc, err := newSchedule(context.Background(), tree, fors.ComputeBounds(tree).Reduction)
	if err != nil {
		t.Fatal(err)
	}
	return sc.remote
}

// The model alone routes every phase of the paper's scenarios, including those that
// matchings would route.
func TestSolverAlone(t *testing.T) {
	for n := 1; n <= 3; n += 2 {
		tree := cut(ft(20, 18, 20), n, 0, 5, 11)
		phases := remote(t, tree)
		r := router{limit: PhaseLimit, direct: true}
		start := time.Now()
		lanes, err := r.route(context.Background(), tree, phases)
		if err != nil {
			t.Fatalf("%dF: %v", n, err)
		}
		t.Logf("%dF: %v for %d phases, %d of them different", n, time.Since(start), len(phases), r.solved)
		for p := range phases {
			if err := checkRoute(tree, phases[p], lanes[p]); err != nil {
				t.Errorf("%dF, phase %d: %v", n, p, err)
			}
		}
	}
}

// If damage is heavy and matchings get stuck, lp_solve routes the cores; more matchings
// do so too.
func TestCores(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	tree := cutRandom(ft(20, 18, 20), 120, rng)
	phases := remote(t, tree)
	r := router{limit: PhaseLimit}
	byCores, err := r.route(context.Background(), tree, phases)
	if err != nil {
		t.Fatal(err)
	}
	if r.solved == 0 {
		t.Error("matchings settle every phase, and the test is of no use")
	}
	byTries, err := Route(context.Background(), tree, phases)
	if err != nil {
		t.Fatal(err)
	}
	for p := range phases {
		if err := errors.Join(checkRoute(tree, phases[p], byCores[p]), checkRoute(tree, phases[p], byTries[p])); err != nil {
			t.Errorf("phase %d: %v", p, err)
		}
	}
}

// On small fabrics lp_solve alone, the engine as it is, and an exhaustive search
// agree on every phase: section 4's, and phases of any pairs.
func TestAgreesWithExhaustiveSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	const fabrics = 400
	var routed, byLeaf, jointly int
	for fabric := range fabrics {
		tree := smallTree(rng)
		phases := remote(t, tree)
		for range 5 {
			phases = append(phases, anyPhase(tree, rng))
		}
		for p, pairs := range phases {
			want, nodes := feasible(tree, pairs)
			if nodes > 10_000_000 {
				t.Fatalf("fabric %d, phase %d: the search took %d steps", fabric, p, nodes)
			}
			for _, direct := range []bool{false, true} {
				r := router{limit: PhaseLimit, direct: direct}
				if p%2 == 0 {
					r.tries = tries
				}
				lanes, err := r.route(context.Background(), tree, [][]fors.Pair{pairs})
				var blocked *InfeasibleError
				if got := err == nil; got != want || err != nil && !errors.As(err, &blocked) {
					t.Fatalf("fabric %d, phase %d, direct %t: routed %t (%v), search says %t: %v %v", fabric, p, direct, got, err, want, tree.Up, pairs)
				}
				switch {
				case want:
					routed++
					if err := checkRoute(tree, pairs, lanes[0]); err != nil {
						t.Fatalf("fabric %d, phase %d, direct %t: %v", fabric, p, direct, err)
					}
				case blocked.Phases[0].Leaf < 0:
					jointly++
				default:
					byLeaf++
				}
			}
		}
	}
	t.Logf("%d routed, %d blocked by a leaf, %d by leaves together", routed, byLeaf, jointly)
	if min(routed, byLeaf, jointly) == 0 {
		t.Error("the fabrics drawn do not cover all cases")
	}
}

// smallTree draws a tree of up to 6 leaves and 6 lanes on which section 4 applies.
func smallTree(rng *rand.Rand) *fors.Tree {
	for {
		tree := ft(1+rng.IntN(5), 2+rng.IntN(5), 2+rng.IntN(5))
		cutRandom(tree, rng.IntN(len(tree.Up)*tree.Lanes/2+1), rng)
		if fors.ComputeBounds(tree).Reduction < len(tree.Slots[0]) {
			return tree
		}
	}
}

// anyPhase draws a phase in which each server sends and receives at most once, to any
// leaf.
func anyPhase(t *fors.Tree, rng *rand.Rand) []fors.Pair {
	leaf := leafOf(t)
	var pairs []fors.Pair
	for s, d := range rng.Perm(len(leaf)) {
		if leaf[s] != leaf[d] && rng.IntN(5) > 0 {
			pairs = append(pairs, fors.Pair{Src: fors.Server(s), Dst: fors.Server(d)})
		}
	}
	return pairs
}

// TestLimits stops lp_solve at various times on a whole phase of FT(2;20,18) with 120
// dead links, which takes longer than 10 s: it stops immediately.
func TestLimits(t *testing.T) {
	tree := cutRandom(ft(20, 18, 20), 120, rand.New(rand.NewPCG(4, 1)))
	hard := remote(t, tree)[12:13]
	r := router{limit: time.Nanosecond, direct: true}
	if _, err := r.route(context.Background(), tree, hard); !errors.Is(err, ErrTimeLimit) {
		t.Errorf("with a limit: %v, want %v", err, ErrTimeLimit)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	r.limit = PhaseLimit
	start := time.Now()
	if _, err := r.route(ctx, tree, hard); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a deadline: %v, want %v", err, context.DeadlineExceeded)
	}
	t.Logf("with a deadline of 50 ms it ends after %v", time.Since(start))
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		due := time.Duration(i) * 5 * time.Millisecond
		var at time.Time
		time.AfterFunc(due, func() { at = time.Now(); cancel() })
		_, err := r.route(ctx, tree, hard)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %v: %v", due, err)
		}
		t.Logf("cancelled after %v, it ends %v later", due, time.Since(at))
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Plan(cancelled, tree); !errors.Is(err, context.Canceled) {
		t.Errorf("Plan, cancelled: %v", err)
	}
}

// A plan of any small tree serves every pair that has a lane, or fails with a reason.
func TestPlansOfAnyTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		p, err := Plan(context.Background(), tree)
		if err == nil {
			if err := checkPlan(tree, p); err != nil {
				t.Fatal(err)
			}
			again, err := Plan(context.Background(), tree)
			if diff := cmp.Diff(p, again); diff != "" || err != nil {
				t.Fatalf("the second plan differs: %v %s", err, diff)
			}
			return
		}
		var blocked *InfeasibleError
		if errors.As(err, &blocked) {
			sc, err := newSchedule(context.Background(), tree, fors.ComputeBounds(tree).Reduction)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range blocked.Phases {
				if yes, _ := feasible(tree, sc.remote[b.Phase]); yes {
					t.Fatalf("%v, and there is one", b)
				}
			}
		} else if f := fors.ComputeBounds(tree).Reduction; tree.Servers() > 0 && f < placesPerLeaf(tree) {
			t.Fatal(err)
		}
	})
}

// placesPerLeaf is M0.
func placesPerLeaf(tree *fors.Tree) int {
	_, M0 := places(tree)
	return M0
}

func TestRouteSaysWhatAndWhere(t *testing.T) {
	// Leaves 0 and 1 share only lane 0.
	tree := masks(2, 3, 3, 5, 3)
	fine := []fors.Pair{{Src: 0, Dst: 2}, {Src: 1, Dst: 4}}
	bad := []fors.Pair{{Src: 0, Dst: 2}, {Src: 1, Dst: 3}}
	for _, c := range []struct {
		tree   *fors.Tree
		phases [][]fors.Pair
		want   string
	}{
		{tree, [][]fors.Pair{fine, bad, fine, bad}, "phase 1 has no routing: leaf 0 sends 2 transfers and has lanes for 1 of them; nor has phase 3; plan the fabric with the exact engine"},
		{tree, [][]fors.Pair{bad, bad, fine, bad, bad, bad, bad, bad, bad, bad, bad, bad}, "phase 0 has no routing: leaf 0 sends 2 transfers and has lanes for 1 of them; nor have phases 1, 3, 4, 5, 6, 7, 8, 9 and 2 more; plan the fabric with the exact engine"},
		{tree, [][]fors.Pair{fine, {{Src: 0, Dst: 1}}}, "route phase 1: transfer 0 from server 0 to server 1: both are on leaf 0, and such a transfer takes no lane"},
		{&fors.Tree{Lanes: 3, Slots: tree.Slots, Up: tree.Up[:2]}, nil, "route a tree of 3 leaves: lane states are given for 2 leaves"},
		{&fors.Tree{Lanes: 4, Slots: tree.Slots, Up: tree.Up}, nil, "route leaf 0: 3 lane states are given for 4 lanes"},
	} {
		if _, err := Route(context.Background(), c.tree, c.phases); err == nil || err.Error() != c.want {
			t.Errorf("%v: %v\nwant %s", c.phases, err, c.want)
		}
	}
	if lanes, err := Route(context.Background(), tree, [][]fors.Pair{fine, nil}); err != nil || len(lanes) != 2 || len(lanes[1]) != 0 {
		t.Errorf("an empty phase: %v, %v", lanes, err)
	}
}

func TestPlansThatAreNone(t *testing.T) {
	for _, c := range []struct {
		tree *fors.Tree
		want string
	}{
		{ft(0, 2, 2), "plan a tree without servers: at least one is needed"},
		{cut(ft(2, 3, 2), 2, 1), "plan for a bandwidth reduction of 2 with 2 servers a leaf: a leaf has no lane left, take it out of the exchange"},
	} {
		if _, err := Plan(context.Background(), c.tree); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}
