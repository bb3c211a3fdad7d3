package podplan_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestRepair mends plans after one more cable, and holds how little changes: of the units,
// those that must, and of the tables' blocks few. The repaired plan is verified by Repair.
func TestRepair(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	k := 8
	if os.Getenv("FORS_LONG") != "" {
		k = 16
	}
	for _, lmc := range []uint8{0, 2} {
		s := fabgen.KAry(k)
		s.LMC = lmc
		fail := s.Draw(rng, fabgen.Damage{LeafCables: 3, TopCables: 3})
		for _, before := range [][]string{nil, {fail[0], fail[3]}} {
			r := made(t, fitted(t, s, before...))
			for _, one := range []string{fail[1], fail[4], fail[2], fail[5]} {
				if pods.Unreachable(podplan.Shape(fitted(t, s, append(before, one)...))) != nil {
					continue
				}
				again, err := r.Repair(context.Background(), fitted(t, s, append(before, one)...))
				if err != nil {
					t.Fatal(err)
				}
				d := lft.Changes(r.Tables, again.Tables)
				blocks := 0
				for i := range r.Tables.Switches {
					blocks += (len(r.Tables.Switches[i].Out) + lft.Block - 1) / lft.Block
				}
				t.Logf("LMC %d, %v, then %s: %d phases, then %d, bound %d; %d of %d blocks, %d entries; planning took %v", lmc, before, one, r.Plan.Phases(), again.Plan.Phases(),
					again.Plan.LowerBound, d.Blocks, blocks, d.Entries, again.Times.Plan)
				// On a whole tree of 1024 hosts with four LIDs each a cable to a top takes a
				// hundredth of the blocks. A cable of a leaf takes more: all other leaves must
				// change one or two, and the leaf nearly all.
				most := blocks / 3
				if k == 16 && lmc == 2 && before == nil {
					if most = blocks / 100; strings.HasPrefix(one, "Leaf") {
						most = blocks / 50
					}
				}
				if d.Blocks > most {
					t.Errorf("LMC %d, %v, then %s: %d of %d blocks of tables change", lmc, before, one, d.Blocks, blocks)
				}
			}
		}
	}
}
