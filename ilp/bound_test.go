//go:build lpsolve

package ilp

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/draffensperger/golp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/pods"
)

// mustBound is the optimum of the joint programme for a tree of two levels, as one pod
// whose planes are the lanes.
func mustBound(t testing.TB, tree *fors.Tree) int {
	pod := &pods.Tree{Pods: 1, First: make([]int, tree.Lanes+1)}
	for leaf, slots := range tree.Slots {
		pod.Leaves = append(pod.Leaves, pods.Leaf{Slots: slots, Up: tree.Up[leaf]})
	}
	bound, err := podBound(pod)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// The joint programme exceeds the need of each leaf alone.
func TestBoundAboveLeafBound(t *testing.T) {
	tree := masks(3, 5, 28, 26, 19, 7)
	leaf := fors.ComputeBounds(tree)
	if got := mustBound(t, tree); leaf.LowerBound != 11 || got != 14 {
		t.Errorf("leaf bound %d, want 11; bound by the joint programme %d, want 14", leaf.LowerBound, got)
	}
}

func TestBoundOfScenarios(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 40))
	for _, c := range []struct {
		name string
		tree *fors.Tree
		want int
	}{
		{"undamaged", ft(20, 18, 20), 340},
		{"1F SW0", cut(ft(20, 18, 20), 1, 0), 358},
		{"3F SW0,5,11", cut(ft(20, 18, 20), 3, 0, 5, 11), 400},
		{"one leaf with a single lane", cut(ft(20, 18, 20), 19, 4), 6800},
		{"a single leaf", ft(20, 1, 20), 0},
		{"no lane", cut(ft(2, 2, 2), 2, 0), 0},
		{"40 links", cutRandom(ft(20, 18, 20), 40, rng), 454},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mustBound(t, c.tree); got != c.want {
				t.Errorf("%d phases, want %d", got, c.want)
			}
		})
	}
}

// The exact planner proves the optimum of the programme without lp_solve if it exceeds
// the need of each leaf alone: few lanes at each of many leaves.
func TestPricesProveOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 16))
	above := 0
	for range 400 {
		tree := ft(1+rng.IntN(12), 2+rng.IntN(15), 2+rng.IntN(15))
		living := 1 + rng.IntN(min(tree.Lanes, 4))
		for _, up := range tree.Up {
			clear(up)
			for _, k := range rng.Perm(tree.Lanes)[:living] {
				up[k] = true
			}
		}
		p, err := fors.PlanExact(context.Background(), tree)
		if err != nil {
			t.Fatal(err)
		}
		if leaf := fors.ComputeBounds(tree); p.LowerBound > leaf.LowerBound {
			above++
			if got := mustBound(t, tree); p.LowerBound != got || p.Certificate != fors.ByLP {
				t.Errorf("bound %d by %s, lp_solve's %d: %v", p.LowerBound, p.Certificate, got, tree.Up)
			}
		} else if got := mustBound(t, tree); got > leaf.LowerBound {
			t.Errorf("bound %d by %s, lp_solve's %d: %v", p.LowerBound, p.Certificate, got, tree.Up)
		}
	}
	if t.Logf("%d of 400 bounds are above the leaves'", above); above == 0 {
		t.Error("the test is of no use")
	}
}

// drawTree draws a small tree with any population, damage and closed lanes.
func drawTree(t *rapid.T) *fors.Tree {
	leaves, lanes := rapid.IntRange(2, 5).Draw(t, "leaves"), rapid.IntRange(1, 5).Draw(t, "lanes")
	tree := ft(0, leaves, lanes)
	servers := 0
	for leaf := range leaves {
		present := rapid.SliceOfN(rapid.Bool(), 3, 3).Draw(t, "present")
		for α, here := range present {
			if here {
				tree.Slots[leaf] = append(tree.Slots[leaf], α)
				servers++
			}
		}
		for k := range lanes {
			tree.Up[leaf][k] = rapid.IntRange(0, 3).Draw(t, "up") > 0
		}
	}
	if rapid.Bool().Draw(t, "closes") && servers > 0 {
		closed := rapid.SliceOfN(rapid.IntRange(0, 4), servers, servers).Draw(t, "closed")
		tree.Closed = func(d fors.Server, k fors.Lane) bool { return closed[d] == int(k) }
	}
	return tree
}

// The bound of an exact plan is the optimum of the programme with a column for every leaf,
// server and lane, without classes or perturbations, rounded up, if that is above P−1.
func TestBoundIsOptimumOfWholeProgramme(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		p, err := fors.PlanExact(context.Background(), tree)
		if err != nil {
			return // a lane is closed to a server
		}
		want := int(math.Ceil(wholeProgramme(t, tree) - 1e-6))
		if b := fors.ComputeBounds(tree); b.Certificate == fors.ByServers {
			want = max(want, b.LowerBound)
		}
		if p.LowerBound != want || p.Phases > want+1 {
			t.Fatalf("an exact plan of %d phases with a bound of %d by %s; want %d", p.Phases, p.LowerBound, p.Certificate, want)
		}
	})
}

// wholeProgramme is the least Φ of the joint programme.
func wholeProgramme(t *rapid.T, tree *fors.Tree) float64 {
	p := &program{upper: []float64{math.Inf(1)}}
	links := make([]row, 2*len(tree.Slots)*tree.Lanes)
	for i := range links {
		links[i] = row{cols: []int{0}, coef: []float64{-1}, sense: atMost}
	}
	leaf := leafOf(tree)
	for A, slots := range tree.Slots {
		for d, B := range leaf {
			var cols []int
			for k := range tree.Lanes {
				if A == B || !tree.Up[A][k] || !tree.Up[B][k] || tree.Closed != nil && tree.Closed(fors.Server(d), fors.Lane(k)) {
					continue
				}
				col := len(p.upper)
				p.upper, cols = append(p.upper, math.Inf(1)), append(cols, col)
				links[A*tree.Lanes+k].add(col, 1)
				links[(len(tree.Slots)+B)*tree.Lanes+k].add(col, 1)
			}
			if len(cols) > 0 {
				p.rows = append(p.rows, row{cols: cols, sense: equal, rhs: float64(len(slots))})
			}
		}
	}
	if len(p.rows) == 0 {
		return 0
	}
	p.rows = slices.Concat(links, p.rows)
	Φ, err := least(p)
	if err != nil {
		t.Fatal(err)
	}
	return Φ
}

// least minimises the first column.
func least(p *program) (float64, error) {
	lp := state(p)
	objective := make([]float64, len(p.upper))
	objective[0] = 1
	lp.SetObjFn(objective)
	if result := lp.Solve(); result != golp.OPTIMAL {
		return 0, fmt.Errorf("lp_solve: %v", result)
	}
	return lp.Variables()[0], nil
}
