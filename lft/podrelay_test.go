package lft

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestRelaying checks which mids relay: those of the index whose mids most leaves have lost, the
// first of equals, if tops have cables to mids of one index alone.
func TestRelaying(t *testing.T) {
	kary := fabgen.KAry(4) // two leaves, with their cables on the ports 3 and 4, and two mids in each of four pods
	double := fabgen.TreeSpec{Pods: 3, Leaves: 3, Mids: 2, Tops: 3, Hosts: 4, LeafCables: 2}
	shared := fabgen.TreeSpec{Pods: 4, Leaves: 2, Mids: 4, Tops: 2, Hosts: 4, Shared: 2}
	for _, c := range []struct {
		name   string
		spec   fabgen.TreeSpec
		before []string // never there
		after  []string // gone
		absent string   // a switch
		want   int
	}{
		{"nothing gone", kary, nil, nil, "", -1},
		{"one cable", kary, nil, []string{"Leaf002/3"}, "", 0},
		{"other mid", kary, nil, []string{"Leaf002/4"}, "", 1},
		{"first of equals", kary, nil, []string{"Leaf002/4", "Leaf004/3"}, "", 0},
		{"the most", kary, nil, []string{"Leaf002/4", "Leaf004/3", "Leaf007/4"}, "", 1},
		{"never there", kary, []string{"Leaf002/3"}, nil, "", -1},
		{"never there, and one gone", kary, []string{"Leaf002/3", "Leaf004/3"}, []string{"Leaf006/4"}, "", 1},
		{"a mid gone, with both its leaves", kary, nil, []string{"Leaf004/4"}, "Mid000", 1},
		{"a leaf gone", kary, []string{"Leaf000/4"}, []string{"Leaf002/4"}, "Leaf000", 1},
		{"a mid of another pod gone", kary, nil, []string{"Leaf002/3"}, "Mid000", 0},
		{"one of two cables", double, nil, []string{"Leaf000/5", "Leaf001/6"}, "", -1},
		{"one of two cables, and both", double, nil, []string{"Leaf000/5", "Leaf001/6", "Leaf003/7", "Leaf003/8"}, "", 1},
		{"tops with mids of two indices", shared, nil, []string{"Leaf002/5"}, "", -1},
	} {
		f := fabgen.GenerateTree(c.spec)
		fabgen.Fails(t, c.before...)(f)
		base, err := topology.NewPodBaseline(f)
		if err != nil {
			t.Fatal(err)
		}
		fabgen.Fails(t, c.after...)(f)
		if i := slices.IndexFunc(f.Nodes, func(n topology.Node) bool { return n.Name == c.absent }); i >= 0 {
			remove(f, int32(i))
		}
		tree, err := topology.FitPods(f, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := newPodBuilder(tree, make([][]uint8, len(f.Nodes))).relay; got != c.want {
			t.Errorf("%s: mids of index %d relay, want %d", c.name, got, c.want)
		}
	}
}

// TestNoRelay checks that no mid relays to a leaf that never had a cable to it, even if mids of
// its index relay to others.
func TestNoRelay(t *testing.T) {
	f := fabgen.GenerateTree(fabgen.KAry(4))
	fabgen.Fails(t, "Leaf000/3")(f)
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	fabgen.Fails(t, "Leaf002/3")(f)
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := BuildPods(t.Context(), tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range tree.Hosts {
		if p := tables.Port(tables.Find(tree.Mids[0].GUID), h.LID); h.Leaf == 0 && p != NoPath {
			t.Errorf("the mid without a cable to leaf 0 has port %d for %s", p, h.Name)
		}
		if p := tables.Port(tables.Find(tree.Mids[2].GUID), h.LID); h.Leaf == 2 && p != tree.Leaves[3].Cables[0].SpinePort {
			t.Errorf("the mid that has lost leaf 2 has port %d for %s, want that to leaf 3", p, h.Name)
		}
	}
}
