package lft_test

import (
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// TestBuildPods holds that every LID is routed wherever there is a way, without deadlock,
// whatever has failed.
func TestBuildPods(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, s := range []fabgen.TreeSpec{
		fabgen.KAry(4), fabgen.KAry(8),
		{Pods: 3, Leaves: 3, Mids: 2, Tops: 3, Hosts: 4, LeafCables: 2, TopCables: 2, LMC: 2},
		{Pods: 4, Leaves: 2, Mids: 4, Tops: 2, Hosts: 4, Shared: 2, LMC: 1},
		{Pods: 3, Leaves: 4, Mids: 3, Tops: 2, Hosts: 6, Missing: [][2]int{{0, 1}, {5, 0}}},
	} {
		f := fabgen.GenerateTree(s)
		base, err := topology.NewPodBaseline(f)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 6 {
			g := f.Clone()
			for _, spec := range s.Draw(rng, fabgen.Damage{LeafCables: 2 * round, TopCables: 2 * round, Mids: round / 3, Tops: round / 3}) {
				_, _ = g.Fail(spec) // what hangs on a mid may be gone already
			}
			tree, err := topology.FitPods(g, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			tables, err := lft.BuildPods(t.Context(), tree, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := verify.TablesByRank(g, tree.Rank, tables); err != nil {
				t.Errorf("%+v, round %d: %v", s, round, err)
			}
		}
	}
}
