package exclusions

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// cableAt returns the cable of one of the controller's lanes.
func cableAt(t *topology.FatTree, leaf, lane int) ib.End {
	for _, x := range Links(t) {
		if x.Lane == (controller.Lane{Leaf: leaf, Lane: lane}) {
			return x.Lower.End
		}
	}
	return ib.End{}
}

// TestLanes checks the lanes of cables withheld for any cause, also while a cable is missing,
// and after the baseline was renumbered.
func TestLanes(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 2, LMC: 2})
	base, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	fit := func(f *topology.Fabric, base *topology.Baseline) *topology.FatTree {
		t.Helper()
		tree, err := topology.Fit(f, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	tree := fit(f, base)
	var b Set
	if lanes := b.Lanes(tree, Any); lanes != nil {
		t.Errorf("an empty set has lanes %v", lanes)
	}
	one, two := cableAt(tree, 0, 1), cableAt(tree, 1, 2)
	b.Replace(Isolated, []ib.End{one})
	b.Replace(Drained, []ib.End{two, one, {GUID: 77, Port: 1}})
	want := []controller.Lane{{Leaf: 0, Lane: 1}, {Leaf: 1, Lane: 2}}
	if lanes := b.Lanes(tree, Any); !slices.Equal(lanes, want) || !b.Has(Drained, one) || b.Has(Isolated, two) {
		t.Errorf("lanes %v, want %v", lanes, want)
	}
	if lanes := b.Lanes(tree, Isolated); !slices.Equal(lanes, want[:1]) {
		t.Errorf("isolated: %v, want %v", lanes, want[:1])
	}
	b.Replace(Drained, []ib.End{two})
	if lanes := b.Lanes(tree, Any); !slices.Equal(lanes, want) {
		t.Errorf("one isolated and one drained: %v, want %v", lanes, want)
	}
	b.Replace(Isolated, nil)
	pulled := f.Clone()
	if _, err := pulled.Fail("Leaf001/6"); err != nil {
		t.Fatal(err)
	}
	gone := fit(pulled, base)
	if lanes := b.Lanes(gone, Any); !slices.Equal(lanes, want[1:]) || gone.Leaves[1].Cables[2].State != topology.Missing {
		t.Errorf("with the cable missing: lanes %v, want %v", lanes, want[1:])
	}
	// The spine of the first lane leaves, and the baseline is accepted.
	if _, err := f.Fail("Spine000"); err != nil {
		t.Fatal(err)
	}
	fresh, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	if lanes := b.Lanes(fit(f, fresh), Any); !slices.Equal(lanes, []controller.Lane{{Leaf: 1, Lane: 1}}) {
		t.Errorf("after the lanes were numbered afresh: %v, want 1/1", lanes)
	}
}

// TestLanesOfThreeLevels checks the lanes of cables of leaves and of mids, also while one is missing.
func TestLanesOfThreeLevels(t *testing.T) {
	f := fabgen.GenerateTree(fabgen.KAry(4))
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	fit := func() *topology.FatTree {
		t.Helper()
		tree, err := topology.FitPods(f, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		return tree.Exchange()
	}
	tree := fit()
	if n := len(Links(tree)); n != 16+16 {
		t.Errorf("%d cables, want those of 8 leaves and 8 mids, 2 each", n)
	}
	var b Set
	b.Replace(Drained, []ib.End{cableAt(tree, 3, 1), cableAt(tree, 3, 2+2)}) // of leaf 3 to plane 1; of mid 3, of plane 1, over lane 2
	want := []controller.Lane{{Leaf: 3, Lane: 1}, {Leaf: 3, Lane: 4}}
	for _, fail := range []string{"", "Leaf003/4", "Mid003/3"} {
		if fail != "" {
			if f, err = topology.NewFabric(f.Clone().Nodes, f.SM); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Fail(fail); err != nil {
				t.Fatal(err)
			}
		}
		if lanes := b.Lanes(fit(), Any); !slices.Equal(lanes, want) {
			t.Errorf("after %q: lanes %v, want %v", fail, lanes, want)
		}
	}
}
