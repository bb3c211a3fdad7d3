package fors

import (
	"strings"
	"testing"
)

// TestExactScenarios checks the optimum of each kind of damage.
func TestExactScenarios(t *testing.T) {
	for _, c := range exactScenarios() {
		t.Run(c.name, func(t *testing.T) {
			p, err := PlanExact(bg, c.tree)
			if err != nil {
				t.Fatal(err)
			}
			mustCheck(t, c.tree, p)
			if p.Phases != c.phases || p.LowerBound != c.phases {
				t.Errorf("%d phases, bound %d; want %d", p.Phases, p.LowerBound, c.phases)
			}
		})
	}
}

// exactScenario is a fabric and the least number of phases of its exchange.
type exactScenario struct {
	name   string
	tree   *Tree
	phases int
}

func exactScenarios() []exactScenario {
	damaged := func(t *Tree, damage func(*Tree)) *Tree {
		damage(t)
		return t
	}
	return []exactScenario{
		{"FT(2;20,18)/0F", fullTree(20, 18), 359},
		{"FT(2;20,18)/1F SW0", damaged(fullTree(20, 18), func(t *Tree) { t.cutCables(0, 0) }), 359},
		{"FT(2;20,18)/3F SW0", damaged(fullTree(20, 18), func(t *Tree) { t.cutCables(0, 0, 1, 2) }), 400},
		{"FT(2;20,18)/3F SW0,5,11", damaged(fullTree(20, 18), func(t *Tree) {
			for i, leaf := range []int{0, 5, 11} {
				t.cutCables(leaf, 3*i, 3*i+1, 3*i+2)
			}
		}), 400},
		{"326 hosts/0F", populated(), 325},
		{"326 hosts/3F", damaged(populated(), func(t *Tree) { t.cutCables(0, 7, 8, 9) }), 360},
		{"ten spines alive at two leaves each", damaged(fullTree(20, 18), func(t *Tree) {
			for leaf := range t.Up {
				for k := 10; k < 20; k++ {
					t.Up[leaf][k] = false
				}
			}
			for k := range 10 {
				t.Up[(2*k)%18][10+k], t.Up[(2*k+1)%18][10+k] = true, true
			}
		}), 640},
		{"one leaf with a single lane", damaged(fullTree(20, 18), func(t *Tree) {
			for k := 1; k < 20; k++ {
				t.cutCables(4, k)
			}
		}), 6800},
		{"FT(2;32,32)/0F", fullTree(32, 32), 1023},
		{"FT(2;32,32)/9F", randomFailures(fullTree(32, 32), 9, 1), 1059},
		{"FT(2;64,32)/0F", fullTree(64, 32), 2047},
	}
}

// TestExactClosed refuses trees whose servers are not alike, and plans those
// that only might have been.
func TestExactClosed(t *testing.T) {
	tree := fullTree(3, 4)
	closed := Server(-1)
	tree.Closed = func(d Server, k Lane) bool { return d == closed && k == 2 }
	p, err := PlanExact(bg, tree)
	if err != nil {
		t.Fatal(err)
	}
	mustCheck(t, tree, p)
	if p.Phases != 11 {
		t.Errorf("%d phases, want 11", p.Phases)
	}
	closed = 7
	if _, err = PlanExact(bg, tree); err == nil || !strings.Contains(err.Error(), "lane 2 is closed to server 7 of leaf 2") {
		t.Errorf("error %v, want one about lane 2 and server 7 of leaf 2", err)
	}
	tree.cutCables(2, 2) // no server would use it
	if p, err = PlanExact(bg, tree); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, tree, p)
}
