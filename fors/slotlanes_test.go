package fors

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSlotLanes takes servers away from FT(2;20,18), and cables besides. No plan is over
// its bound. Servers that come and go change no lane of others; with a dead cable few
// pairs change theirs.
func TestSlotLanes(t *testing.T) {
	const M0, M1 = 20, 18
	for _, c := range []struct {
		absent, cables int
		most           float64 // percent of pairs that change lane
	}{{1, 0, 0}, {3, 0, 0}, {20, 0, 1}, {1, 1, 6}, {7, 1, 6}, {20, 1, 6}, {3, 2, 10}} {
		for seed := range uint64(share(20, 2)) {
			rng := rand.New(rand.NewPCG(seed, 3))
			tree := fullTree(M0, M1)
			for range c.absent {
				slots := &tree.Slots[rng.IntN(M1)]
				i := rng.IntN(len(*slots))
				*slots = append((*slots)[:i:i], (*slots)[i+1:]...)
			}
			for range c.cables {
				tree.cutCables(rng.IntN(M1), rng.IntN(M0))
			}
			p, err := Make(bg, tree)
			if err != nil {
				t.Fatal(err)
			}
			mustCheck(t, tree, p)
			var slot []int
			for _, slots := range tree.Slots {
				slot = append(slot, slots...)
			}
			changed, all := 0, 0
			for i, d := range p.To {
				if p.Lane[i] != Local {
					all++
					if int(p.Lane[i]) != slot[d] {
						changed++
					}
				}
			}
			name := fmt.Sprintf("%d absent, %d cables, seed %d", c.absent, c.cables, seed)
			percent := 100 * float64(changed) / float64(all)
			t.Logf("%s: %s, %d phases, bound %d, %.2f %%", name, p.Engine, p.Phases, p.LowerBound, percent)
			if p.Gap() != 0 || percent > c.most {
				t.Errorf("%s: %d phases, bound %d; %.2f %% change lane, want at most %.2f", name, p.Phases, p.LowerBound, percent, c.most)
			}
		}
	}
}
