package withheld

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// at returns the cable of one of the controller's lanes.
func at(t *topology.FatTree, leaf, lane int) Cable {
	for _, x := range Links(t) {
		if x.Lane == (controller.Lane{Leaf: leaf, Lane: lane}) {
			return x.Cable
		}
	}
	return Cable{}
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
	var b Book
	if lanes := b.Lanes(tree); lanes != nil {
		t.Errorf("an empty book has lanes %v", lanes)
	}
	one, two := at(tree, 0, 1), at(tree, 1, 2)
	b.Set(Isolated, []Cable{one})
	b.Set(Drained, []Cable{two, one, {Leaf: 77, Port: 1}})
	want := []controller.Lane{{Leaf: 0, Lane: 1}, {Leaf: 1, Lane: 2}}
	if lanes := b.Lanes(tree); !slices.Equal(lanes, want) || !b.Has(Drained, one) || b.Has(Isolated, two) {
		t.Errorf("lanes %v, want %v", lanes, want)
	}
	if lanes := b.Lanes(tree, Isolated); !slices.Equal(lanes, want[:1]) {
		t.Errorf("isolated: %v, want %v", lanes, want[:1])
	}
	b.Set(Drained, []Cable{two})
	if lanes := b.Lanes(tree); !slices.Equal(lanes, want) {
		t.Errorf("one isolated and one drained: %v, want %v", lanes, want)
	}
	b.Set(Isolated, nil)
	pulled := f.Clone()
	if _, err := pulled.Fail("Leaf001/6"); err != nil {
		t.Fatal(err)
	}
	gone := fit(pulled, base)
	if lanes := b.Lanes(gone); !slices.Equal(lanes, want[1:]) || gone.Leaves[1].Cables[2].State != topology.Missing {
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
	if lanes := b.Lanes(fit(f, fresh)); !slices.Equal(lanes, []controller.Lane{{Leaf: 1, Lane: 1}}) {
		t.Errorf("after the lanes were numbered afresh: %v, want 1/1", lanes)
	}
}

// TestThreeLevels checks the lanes of cables of leaves and of mids, also while one is missing.
func TestThreeLevels(t *testing.T) {
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
	var b Book
	b.Set(Drained, []Cable{at(tree, 3, 1), at(tree, 3, 2+2)}) // of leaf 3 to plane 1; of mid 3, of plane 1, over lane 2
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
		if lanes := b.Lanes(fit()); !slices.Equal(lanes, want) {
			t.Errorf("after %q: lanes %v, want %v", fail, lanes, want)
		}
	}
}
