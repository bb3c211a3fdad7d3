package podplan_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/forsd/forsd/phasetable"
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
		"no tops":         {Pods: 6, Leaves: 1, Mids: 5, Tops: 1, Hosts: 2, Shared: 2, LeafCables: 2, Missing: [][2]int{{4, 0}, {5, 0}, {2, 1}}}, // of a plane
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

// TestWorkers holds that the number of goroutines changes no byte of a plan and its tables.
func TestWorkers(t *testing.T) {
	for _, k := range []int{4, 8, 12} {
		s := fabgen.KAry(k)
		s.LMC = 2
		tree := fitted(t, s, s.Draw(rand.New(rand.NewPCG(uint64(k), 4)), fabgen.Damage{LeafCables: 3, TopCables: 3})...)
		var first []byte
		for _, workers := range []int{1, 2, 4} {
			before := runtime.GOMAXPROCS(workers)
			r := made(t, tree)
			runtime.GOMAXPROCS(before)
			all, err := phasetable.Encode(r.Compact(1))
			if err != nil {
				t.Fatal(err)
			}
			for i := range r.Tables.Switches {
				all = append(all, r.Tables.Switches[i].Out...)
			}
			if first == nil {
				first = all
			}
			if !bytes.Equal(all, first) {
				t.Errorf("k=%d: %d workers make another plan or other tables", k, workers)
			}
		}
	}
}

// TestLIDs holds how many LIDs of a server plans of leaf groups need, and what fewer cost:
// one while nothing has failed and for one dead cable of a leaf, four for up to 8 + 8, with
// missing hosts too. Where none is missing plans are at most a block and one part in 32 over
// the least, and two blocks where a switch is dead.
func TestLIDs(t *testing.T) {
	k, rounds := 8, 6
	if os.Getenv("FORS_LONG") != "" {
		k, rounds = 16, 60
	}
	rng := rand.New(rand.NewPCG(uint64(k), 2))
	over := map[string]map[int]int{} // by blocks over the least
	for round := range rounds {
		for lmc, kinds := range [][]fabgen.Damage{{{}}, {{LeafCables: 1}, {TopCables: 1}},
			{{LeafCables: rng.IntN(9), TopCables: rng.IntN(9)}, {LeafCables: 8, TopCables: 8}, {Mids: 1}, {Tops: 1}}} {
			for _, damage := range kinds {
				s := fabgen.KAry(k)
				s.LMC = uint8(lmc)
				missing := round % 3 * k / 4
				for range missing {
					s.Missing = append(s.Missing, [2]int{rng.IntN(s.Pods * s.Leaves), rng.IntN(s.Hosts)})
				}
				tree := fitted(t, s, s.Draw(rng, damage)...)
				r := made(t, tree)
				least := (r.Plan.LowerBound + r.Plan.Group - 1) / r.Plan.Group
				if r.Plan.Engine == pods.Shift {
					least = r.Plan.Blocks
				}
				what := fmt.Sprintf("LMC %d, %d hosts missing", lmc, missing)
				if over[what] == nil {
					over[what] = map[int]int{}
				}
				over[what][r.Plan.Blocks-least]++
				most := least*33/32 + 1 + damage.Mids + damage.Tops
				if lmc < 2 { // base LIDs keep their ways, and hardly leave any
					most = least * 9 / 8
				}
				if r.LIDs > 1<<lmc || r.Plan.Engine == pods.Routes || missing == 0 && r.Plan.Blocks > most {
					t.Errorf("k=%d, %s, %+v: %s, %d LIDs, %d blocks of %d, bound %d by %s", k, what, damage, r.Plan.Engine, r.LIDs, r.Plan.Blocks, r.Plan.Group, r.Plan.LowerBound, r.Plan.Certificate)
				}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(over)) {
		t.Logf("k=%d, %s: blocks over the least, and how often: %v", k, what, over[what])
	}
}

// TestUncoveredPairs: hosts on mids and tops are in no plan, and are counted.
func TestUncoveredPairs(t *testing.T) {
	for _, at := range []string{"Mid003", "Top005"} {
		f := fabgen.WithChain(fabgen.GenerateTree(fabgen.KAry(8)), at, 0)
		r, err := podplan.Make(t.Context(), fabgen.FittedPods(t, f), podplan.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if report := r.Report(); report.Servers != 128 || report.UncoveredPairs != 2*128 || report.UnreachablePairs != 0 {
			t.Errorf("a host on %s: %d servers, %d pairs not covered", at, report.Servers, report.UncoveredPairs)
		}
	}
}
