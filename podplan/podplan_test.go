package podplan_test

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// fitted is a generated tree with some of it failed, seen through the baseline of the whole.
func fitted(t *testing.T, s fabgen.TreeSpec, fail ...string) *topology.PodTree {
	t.Helper()
	f := fabgen.GenerateTree(s)
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range fail {
		_, _ = f.Fail(spec) // what hangs on a mid may be gone already
	}
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

var all = 1.0

// made plans a tree; plan and tables are verified by that.
func made(t *testing.T, tree *topology.PodTree) *podplan.Result {
	t.Helper()
	r, err := podplan.Make(context.Background(), tree, podplan.Settings{MaxUnreachable: &all})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMake plans trees of many shapes with what has failed in them, with one LID a host and
// with several.
func TestMake(t *testing.T) {
	rounds := 3
	if os.Getenv("FORS_LONG") != "" {
		rounds = 40
	}
	for name, s := range map[string]fabgen.TreeSpec{
		"k=4": fabgen.KAry(4), "k=6": fabgen.KAry(6), "k=8": fabgen.KAry(8),
		"2:1 at leaves":   {Pods: 4, Leaves: 4, Mids: 2, Tops: 4, Hosts: 4},
		"2:1 at mids":     {Pods: 4, Leaves: 4, Mids: 4, Tops: 2, Hosts: 4},
		"missing hosts":   {Pods: 4, Leaves: 3, Mids: 3, Tops: 3, Hosts: 3, Missing: [][2]int{{0, 0}, {4, 2}, {4, 1}}},
		"parallel cables": {Pods: 3, Leaves: 2, Mids: 2, Tops: 2, Hosts: 4, LeafCables: 2, TopCables: 2},
		"shared tops":     {Pods: 4, Leaves: 2, Mids: 4, Tops: 2, Hosts: 4, Shared: 2},
	} {
		for _, s.LMC = range []uint8{0, 2, 5} {
			rng := rand.New(rand.NewPCG(uint64(len(name)), uint64(s.LMC)))
			for round := range rounds {
				fail := s.Draw(rng, fabgen.Damage{LeafCables: round % 5, TopCables: round % 7, Mids: round % 3 / 2, Tops: round % 3 / 2})
				r := made(t, fitted(t, s, fail...))
				t.Logf("%s, LMC %d, %v: %s, %d phases, bound %d by %s, %d LIDs, pinned %v", name, s.LMC, fail, r.Plan.Engine, r.Plan.Phases(), r.Plan.LowerBound, r.Plan.Certificate, r.LIDs, r.Pinned)
				if round == 0 && name[0] == 'k' && (r.Plan.Engine != pods.Shift || r.LIDs != 1 || r.Plan.Gap() != 0) {
					t.Errorf("%s, LMC %d: %s with gap %d and %d LIDs where nothing has failed", name, s.LMC, r.Plan.Engine, r.Plan.Gap(), r.LIDs)
				}
			}
		}
	}
}
