package fors

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// divide puts each leaf of a tree into one of some exchanges, at random.
func divide(t *Tree, exchanges int, rng *rand.Rand) {
	t.Exchange = nil
	for _, slots := range t.Slots {
		x := rng.IntN(exchanges)
		for range slots {
			t.Exchange = append(t.Exchange, x)
		}
	}
}

// railTree has 32 leaves of 32 servers in 8 exchanges, with two cables to each of 16 spines.
func railTree() *Tree {
	t := evenTree(32, 32, 32)
	for k := range t.Lanes {
		t.Spine = append(t.Spine, k/2)
	}
	for leaf, slots := range t.Slots {
		for range slots {
			t.Exchange = append(t.Exchange, leaf%8)
		}
	}
	return t
}

// TestRails plans eight exchanges of 128 servers, with dead cables at one leaf.
func TestRails(t *testing.T) {
	for _, c := range [][2]int{{0, 127}, {1, 128}, {3, 128}, {7, 128}} {
		tree := railTree()
		for k := range c[0] {
			tree.cutCables(0, 5*k%32)
		}
		p, err := Make(bg, tree)
		if err != nil {
			t.Fatal(err)
		}
		mustCheck(t, tree, p)
		one, err := PlanOneLID(bg, tree, Wish{})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d dead cables: %d phases, bound %d by %s; base LIDs %d, bound %d by %s", c[0], p.Phases, p.LowerBound, p.Certificate, one.Phases, one.LeastPhases, one.LeastBy)
		if p.Phases > c[1] {
			t.Errorf("%d dead cables: %d phases, want %d", c[0], p.Phases, c[1])
		}
	}
}

// TestRailTrees plans rails on drawn trees: of 2 to 8 rails of 2 to 6 leaves, with 1 to 8 times
// as many hosts as cables, parallel cables or none, hosts missing and cables dead.
func TestRailTrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 36))
	sum, oneSum, worst, oneWorst, count := 0.0, 0.0, 0.0, 0.0, share(400, 40)
	for range count {
		rails, each, hosts, taper := 2+rng.IntN(7), 2+rng.IntN(5), 8+rng.IntN(25), 1+rng.IntN(8)
		tree := evenTree(hosts, rails*each, max(2, hosts/taper))
		if rng.IntN(2) == 0 {
			for k := range tree.Lanes {
				tree.Spine = append(tree.Spine, k/2)
			}
		}
		for leaf, slots := range tree.Slots {
			if rng.IntN(3) == 0 {
				tree.Slots[leaf] = slots[:len(slots)-rng.IntN(len(slots)/4)]
			}
			for range tree.Slots[leaf] {
				tree.Exchange = append(tree.Exchange, leaf%rails)
			}
		}
		for range rng.IntN(6) {
			tree.cutCables(rng.IntN(len(tree.Slots)), rng.IntN(tree.Lanes))
		}
		p, err := Make(bg, tree)
		if err != nil {
			t.Fatal(err)
		}
		mustCheck(t, tree, p)
		one, err := PlanOneLID(bg, tree, Wish{})
		if err != nil {
			t.Fatal(err)
		}
		x, y := float64(p.Phases)/float64(p.LowerBound), float64(one.Phases)/float64(one.LeastPhases)
		sum, oneSum, worst, oneWorst = sum+x, oneSum+y, max(worst, x), max(oneWorst, y)
	}
	t.Logf("%d trees: %.4f times the bound on the mean, %.4f at worst; for base LIDs %.4f and %.4f", count, sum/float64(count), worst, oneSum/float64(count), oneWorst)
	if worst > 1.03 || oneWorst > 1.1 || oneSum > 1.01*float64(count) {
		t.Error("the plans are too long")
	}
}

// TestExchanges plans random exchanges on random trees: on whole leaves at the bound, and by
// servers in no more than some phases over it.
func TestExchanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 7))
	over, oneOver, mixedOver, sum, oneSum, mixedSum := 0, 0, 0, 0, 0, 0
	for i := range share(3000, 150) {
		tree := randomTree(rng)
		if populate(tree, rng); tree.Servers() == 0 {
			continue
		}
		divide(tree, 1+rng.IntN(4), rng)
		p, err := Make(bg, tree)
		if err != nil {
			t.Fatal(err)
		}
		mustCheck(t, tree, p)
		over, sum = over+p.Gap(), sum+p.LowerBound
		one, err := PlanOneLID(bg, tree, Wish{})
		if err != nil {
			t.Fatal(err)
		}
		if err := checkGrouped(tree, one, 1); err != nil {
			t.Fatalf("tree %d: %v", i, err)
		}
		oneOver, oneSum = oneOver+one.Phases-one.LeastPhases, oneSum+one.LeastPhases
		groups, err := PlanGroups(bg, tree, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkGrouped(tree, groups, 2); err != nil {
			t.Fatalf("tree %d: %v", i, err)
		}
		for s := range tree.Exchange {
			tree.Exchange[s] = rng.IntN(3)
		}
		q, err := Make(bg, tree)
		if err != nil {
			t.Fatal(err)
		}
		mustCheck(t, tree, q)
		if _, err := PlanExact(bg, tree); tree.Mixed() && !errors.Is(err, ErrNotApplicable) {
			t.Fatalf("tree %d has leaves of several exchanges: %v", i, err)
		}
		mixedOver, mixedSum = mixedOver+q.Gap(), mixedSum+q.LowerBound
	}
	t.Logf("over the bounds: whole leaves %d of %d, one LID %d of %d, by servers %d of %d", over, sum, oneOver, oneSum, mixedOver, mixedSum)
	if 1000*over > sum || 20*oneOver > oneSum || 20*mixedOver > mixedSum {
		t.Error("the plans are too long")
	}
}
