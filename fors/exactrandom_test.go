package fors

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// long reports whether the tests try all fabrics that the planner must handle, which takes
// some minutes, instead of a share of them: FORS_LONG=1 go test. It is a function because the
// test cache does not see variables that are read before a test runs.
func long() bool { return os.Getenv("FORS_LONG") != "" }

// tally counts plans, those whose bound the joint linear programme alone proves,
// and those longer than their bound.
type tally struct {
	plans, byLP, over, worst int
}

// plan makes a plan, checks it and its bound and counts it.
func (c *tally) plan(t *testing.T, tree *Tree) {
	t.Helper()
	p, err := PlanExact(bg, tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkPlan(tree, p); err != nil {
		t.Fatalf("%v\n%v", err, tree)
	}
	c.plans++
	leaf := ComputeBounds(tree)
	if p.Certificate == ByLP {
		c.byLP++
		if lp := lpBound(tree); p.LowerBound > lp || p.LowerBound <= leaf.LowerBound {
			t.Fatalf("bound %d by the linear programme, which proves %d, and the leaves %d: %v", p.LowerBound, lp, leaf.LowerBound, tree)
		}
	} else if p.Bounds != leaf {
		t.Fatalf("bounds %+v, want %+v: %v", p.Bounds, leaf, tree)
	}
	if p.Gap() > 0 {
		c.over++
		c.worst = max(c.worst, p.Gap())
		t.Logf("%d phases, %d over the bound: %v", p.Phases, p.Gap(), tree)
	}
}

// report prints the count, and fails the test where the bound is missed more often
// than once in 10,000 plans, or by more than one phase.
func (c *tally) report(t *testing.T) {
	t.Helper()
	t.Logf("%d plans, the bound of %d by the linear programme and of the others by servers or leaves; %d over their bound, by %d phases at most", c.plans, c.byLP, c.over, c.worst)
	if 10000*c.over > c.plans || c.worst > 1 {
		t.Error("the bound is missed too often or by too much")
	}
}

// TestExactTiny plans every fabric of three leaves, three lanes and up to three
// servers a leaf.
func TestExactTiny(t *testing.T) {
	var c tally
	leaf := func(i int) ([]int, []bool) { // of 4·8
		slots := []int{0, 1, 2}
		return slots[:i/8], []bool{i&1 != 0, i&2 != 0, i&4 != 0}
	}
	for i := range 32 * 32 * 32 {
		tree := &Tree{Lanes: 3, Slots: make([][]int, 3), Up: make([][]bool, 3)}
		for j, kind := range []int{i % 32, i / 32 % 32, i / 1024} {
			tree.Slots[j], tree.Up[j] = leaf(kind)
		}
		if tree.Servers() > 0 {
			c.plan(t, tree)
		}
	}
	c.report(t)
}

// TestExactRandom plans random fabrics of up to 12 leaves and 12 lanes.
func TestExactRandom(t *testing.T) {
	var c tally
	rng := rand.New(rand.NewPCG(12, 12))
	for range share(10000, 2000) {
		c.plan(t, randomTree(rng))
	}
	c.report(t)
}

// TestExactDamaged plans FT(2;20,18) with 1 to 180 dead links, every other one
// with a random population.
func TestExactDamaged(t *testing.T) {
	var c tally
	rng := rand.New(rand.NewPCG(20, 18))
	for i := range share(2000, 100) {
		tree := randomFailures(fullTree(20, 18), 1+rng.IntN(180), uint64(i))
		if i%2 != 0 {
			populate(tree, rng)
		}
		c.plan(t, tree)
	}
	c.report(t)
}

// TestExactSparse plans fabrics of up to 16 leaves on which few of up to 16 lanes
// are left to each leaf, and some pairs have none. Here the leaves together often
// need more phases than any for itself.
func TestExactSparse(t *testing.T) {
	var c tally
	rng := rand.New(rand.NewPCG(16, 16))
	for range share(10000, 500) {
		tree := evenTree(1+rng.IntN(20), 2+rng.IntN(15), 2+rng.IntN(15))
		living := 1 + rng.IntN(min(tree.Lanes, 5))
		for leaf, up := range tree.Up {
			clear(up)
			for _, k := range rng.Perm(tree.Lanes)[:living] {
				up[k] = true
			}
			if slots := tree.Slots[leaf]; rng.IntN(3) == 0 {
				tree.Slots[leaf] = slots[:1+rng.IntN(len(slots))]
			}
		}
		c.plan(t, tree)
	}
	c.report(t)
	if c.byLP == 0 {
		t.Error("the fabrics drawn do not need the linear programme")
	}
}

// TestExactWorkers plans the same bytes with any number of workers.
func TestExactWorkers(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	trees := []*Tree{fullTree(20, 18), randomFailures(populated(), 60, 7)}
	for range share(50, 20) {
		trees = append(trees, randomTree(rng))
	}
	for _, tree := range trees {
		b := ComputeBounds(tree)
		want, err := planExact(bg, tree, b, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{2, 3} {
			got, err := planExact(bg, tree, b, workers)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%d workers plan otherwise than one:\n%s", workers, d)
			}
		}
	}
}

// share is the number of fabrics to try.
func share(all, quick int) int {
	if long() {
		return all
	}
	return quick
}

// randomTree draws 2 to 12 leaves of 1 to 12 servers on 1 to 12 lanes, of which
// any share may be down.
func randomTree(rng *rand.Rand) *Tree {
	tree := &Tree{Lanes: 1 + rng.IntN(12)}
	most, dead := 1+rng.IntN(12), 0.7*rng.Float64()
	for range 2 + rng.IntN(11) {
		slots := make([]int, 1+rng.IntN(most))
		for α := range slots {
			slots[α] = α
		}
		up := make([]bool, tree.Lanes)
		for k := range up {
			up[k] = rng.Float64() >= dead
		}
		tree.Slots, tree.Up = append(tree.Slots, slots), append(tree.Up, up)
	}
	return tree
}

// populate takes a random number of servers off each leaf.
func populate(tree *Tree, rng *rand.Rand) {
	for leaf, slots := range tree.Slots {
		rng.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		slots = slots[:rng.IntN(len(slots)+1)]
		slices.Sort(slots)
		tree.Slots[leaf] = slots
	}
}
