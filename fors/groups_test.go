package fors

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// checkGrouped checks a plan as checkPlan does, and also that the transfers from a leaf to
// one LID of a server take one lane.
func checkGrouped(t *Tree, p *Grouped, lids int) error {
	if err := checkPlan(t, p.Plan); err != nil {
		return err
	}
	if p.LIDs > lids || p.Phases < p.LeastPhases {
		return fmt.Errorf("%d LIDs of %d, %d phases of at least %d", p.LIDs, lids, p.Phases, p.LeastPhases)
	}
	leafOf := leavesOf(t)
	lanes := map[[3]int]Lane{} // leaf, destination, group
	for i, d := range p.To {
		if s := i % p.Servers; d != Idle && p.Lane[i] != Local {
			key := [3]int{leafOf[s], int(d), p.Group[s]}
			if key[2] < 0 || key[2] >= p.LIDs {
				return fmt.Errorf("server %d is of group %d of %d", s, key[2], p.LIDs)
			}
			if lane, known := lanes[key]; known && lane != p.Lane[i] {
				return fmt.Errorf("leaf %d sends to LID %d of server %d on lanes %d and %d", key[0], key[2], d, lane, p.Lane[i])
			}
			lanes[key] = p.Lane[i]
		}
	}
	for i, lane := range p.Via {
		key := [3]int{i / p.LIDs / p.Servers, i / p.LIDs % p.Servers, i % p.LIDs}
		if used, known := lanes[key]; known != (lane != Local) || known && used != lane {
			return fmt.Errorf("leaf %d sends to LID %d of server %d on lane %d, the table says %d", key[0], key[2], key[1], used, lane)
		}
	}
	return nil
}

// TestGroupsTable plans FT(2;20,18) with one, two and four LIDs a server: what
// that costs over one LID a lane is a few phases in the hundred.
func TestGroupsTable(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *Tree)
		want  [3]int // phases for q = 1, 2, 4
	}{
		{"0F", func(*Tree) {}, [3]int{360, 360, 360}},
		{"1F", func(t *Tree) { t.cutCables(0, 0) }, [3]int{360, 360, 360}},
		{"a spine", func(t *Tree) { t.cutSpines(19) }, [3]int{360, 360, 360}},
		{"2F", func(t *Tree) { t.cutCables(0, 0, 1) }, [3]int{380, 380, 380}},
		{"two spines", func(t *Tree) { t.cutSpines(18, 19) }, [3]int{380, 380, 380}},
		{"3F", func(t *Tree) { t.cutCables(0, 0, 1, 2) }, [3]int{400, 400, 400}},
		{"four spines", func(t *Tree) { t.cutSpines(16, 17, 18, 19) }, [3]int{440, 430, 425}},
	} {
		tree := fullTree(20, 18)
		c.spoil(tree)
		for i, q := range []int{1, 2, 4} {
			p, err := PlanGroups(bg, tree, q)
			if err != nil {
				t.Fatalf("%s, %d LIDs: %v", c.name, q, err)
			}
			if err := checkGrouped(tree, p, q); err != nil {
				t.Fatalf("%s, %d LIDs: %v", c.name, q, err)
			}
			if p.Phases != c.want[i] || p.LIDs != q {
				t.Errorf("%s, %d LIDs: %d phases with %d LIDs, want %d", c.name, q, p.Phases, p.LIDs, c.want[i])
			}
		}
	}
}

// TestGroupsRandomFailures draws dead links of FT(2;20,18) and holds the plans
// to the least number of phases that their groups allow.
func TestGroupsRandomFailures(t *testing.T) {
	for seed := range uint64(share(40, 4)) {
		for _, dead := range []int{9, 20, 40} {
			tree := randomFailures(fullTree(20, 18), dead, seed)
			for _, q := range []int{1, 2, 4} {
				p, err := PlanGroups(bg, tree, q)
				if err != nil {
					t.Fatal(err)
				}
				if err := checkGrouped(tree, p, q); err != nil {
					t.Fatalf("%d dead links, seed %d, %d LIDs: %v", dead, seed, q, err)
				}
				t.Logf("%d dead links, seed %d, %d LIDs: %d phases, groups allow %d, the tree %d", dead, seed, q, p.Phases, p.LeastPhases, p.LowerBound)
				if p.Phases > p.LeastPhases {
					t.Errorf("%d dead links, seed %d, %d LIDs: %d phases, want %d", dead, seed, q, p.Phases, p.LeastPhases)
				}
			}
		}
	}
}

// TestGroupsProperty plans random trees with leaves of any size, also of none.
func TestGroupsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree, _ := drawServed(rt, 3)
		q := rapid.IntRange(1, 14).Draw(rt, "lids")
		p, err := PlanGroups(bg, tree, q)
		if err != nil {
			rt.Fatal(err)
		}
		if err := checkGrouped(tree, p, q); err != nil {
			rt.Fatalf("%d LIDs: %v\n%v", q, err, tree)
		}
		for _, workers := range []int{1, 2, 4} {
			again, err := planGroups(bg, tree, ComputeBounds(tree), q, workers)
			if err != nil {
				rt.Fatal(err)
			}
			if d := cmp.Diff(p, again); d != "" {
				rt.Fatalf("%d workers plan otherwise:\n%s", workers, d)
			}
		}
	})
}

// TestGroupsOfOne checks that one LID a server is as good as one a lane if it is enough for
// every sender to have its own.
func TestGroupsOfOne(t *testing.T) {
	tree := randomFailures(fullTree(8, 6), 11, 5)
	p, err := PlanGroups(bg, tree, 8)
	if err != nil {
		t.Fatal(err)
	}
	exact, err := PlanExact(bg, tree)
	if err != nil {
		t.Fatal(err)
	}
	if p.GroupSize != 1 || p.Phases != exact.Phases {
		t.Errorf("%d phases with groups of %d, want %d with groups of 1", p.Phases, p.GroupSize, exact.Phases)
	}
}

// TestGroupsWishes checks that lanes follow the indices of the servers: all of
// them on an undamaged tree, and most after a failure.
func TestGroupsWishes(t *testing.T) {
	for _, c := range []struct{ dead, least int }{{0, 100}, {1, 75}, {2, 60}} {
		tree := fullTree(20, 18)
		for k := range c.dead {
			tree.cutCables(0, k)
		}
		p, err := PlanGroups(bg, tree, 1)
		if err != nil {
			t.Fatal(err)
		}
		followed, all := 0, 0
		for i, lane := range p.Via {
			if lane == Local {
				continue
			}
			all++
			if int(lane) == i%p.Servers%20 {
				followed++
			}
		}
		if all != 6120 || 100*followed < c.least*all {
			t.Errorf("%d dead cables: %d of %d lanes follow the servers' indices, want %d %%", c.dead, followed, all, c.least)
		}
	}
}

func TestGroupsErrors(t *testing.T) {
	if _, err := PlanGroups(bg, fullTree(3, 3), 0); err == nil {
		t.Error("a plan for no LID at all")
	}
	if _, err := PlanGroups(bg, &Tree{}, 1); err == nil {
		t.Error("a plan for no server")
	}
}

func BenchmarkGroups(b *testing.B) {
	for _, q := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(q), func(b *testing.B) {
			tree := fullTree(20, 18)
			tree.cutCables(0, 0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := PlanGroups(bg, tree, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestGroupSizes checks that more LIDs never cost phases: groups that do not divide a leaf
// evenly are passed over, and groups of one need as many phases as one LID a lane.
func TestGroupSizes(t *testing.T) {
	for _, c := range []struct {
		spines, leaves, dead, lids, phases, used int
	}{
		{20, 18, 0, 8, 360, 5}, // groups of three would take 378
		{20, 18, 0, 19, 360, 10},
		{20, 18, 0, 20, 359, 20},
		{20, 18, 1, 32, 359, 20},
		{20, 18, 2, 32, 378, 20},
		{3, 3, 0, 2, 9, 1}, // groups of two would take 12
		{3, 3, 0, 3, 8, 3},
	} {
		tree := fullTree(c.spines, c.leaves)
		for k := range c.dead {
			tree.cutCables(0, k)
		}
		p, err := PlanGroups(bg, tree, c.lids)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkGrouped(tree, p, c.lids); err != nil {
			t.Fatalf("FT(2;%d,%d), %d dead links, %d LIDs: %v", c.spines, c.leaves, c.dead, c.lids, err)
		}
		if p.Phases != c.phases || p.LIDs != c.used {
			t.Errorf("FT(2;%d,%d), %d dead links, %d LIDs: %d phases with %d LIDs, want %d with %d",
				c.spines, c.leaves, c.dead, c.lids, p.Phases, p.LIDs, c.phases, c.used)
		}
	}
}
