package pods

import (
	"math/rand/v2"
	"testing"
)

// lids is how many LIDs of a server a plan needs where each plane has a mid of its own.
func lids(t *Tree, p *Plan) int {
	if p.Engine == Shift {
		return 1
	}
	slots, most := int(p.First[len(p.First)-1]), 1
	planeOf := t.planeOf()
	seen := map[[3]int]map[int16]bool{}
	for leaf := range t.Leaves {
		for b := range p.Blocks {
			for s := p.First[leaf]; s < p.First[leaf+1]; s++ {
				at := b*slots + int(s)
				if k := p.Way[at]; k >= 0 && int(k) < t.Lanes() {
					key := [3]int{t.Leaves[leaf].Pod, int(planeOf[k]), int(p.To[at])}
					if seen[key] == nil {
						seen[key] = map[int16]bool{}
					}
					seen[key][k] = true
					most = max(most, len(seen[key]))
				}
			}
		}
	}
	return most
}

// TestLIDs holds how many LIDs of a server the plans of leaf groups need.
func TestLIDs(t *testing.T) {
	sizes := []int{8}
	if draws(0, 1) > 0 {
		sizes = append(sizes, 16)
	}
	for _, k := range sizes {
		for _, c := range []struct{ leaf, top, most int }{{1, 0, 2}, {0, 1, 2}, {1, 1, 4}, {8, 8, 4}} {
			rng := rand.New(rand.NewPCG(uint64(k), 9))
			for range 4 {
				tree := kAry(k)
				hurt(tree, rng, c.leaf, c.top, 0, 0)
				if n := lids(tree, planned(t, tree, WholeLeaves)); n > c.most {
					t.Errorf("k=%d with %d+%d dead cables: %d LIDs", k, c.leaf, c.top, n)
				}
			}
		}
	}
}
