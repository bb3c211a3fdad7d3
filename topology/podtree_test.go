package topology_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// podTree fits a fabric with damage to the baseline that it shows without.
func podTree(t *testing.T, f *topology.Fabric, fail ...string) *topology.PodTree {
	t.Helper()
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	g := f.Clone()
	for _, spec := range fail {
		if _, err := g.Fail(spec); err != nil && !strings.Contains(err.Error(), "has no cable") {
			t.Fatal(err)
		}
	}
	tree, err := topology.FitPods(g, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// ups counts the living cables of a level.
func ups(t *topology.PodTree) (leaves, mids int) {
	for l := range t.Leaves {
		for j := range t.Planes {
			if t.LeafUp(l, j) {
				leaves++
			}
		}
	}
	for p := range t.Pods {
		for k := range t.Lanes {
			if t.LaneUp(p, k) {
				mids++
			}
		}
	}
	return leaves, mids
}

func TestPodShapes(t *testing.T) {
	for _, c := range []struct {
		name          string
		spec          fabgen.TreeSpec
		planes, lanes int
	}{
		{"k=4", fabgen.KAry(4), 2, 4},
		{"k=8", fabgen.KAry(8), 4, 16},
		{"2 of each", fabgen.TreeSpec{Pods: 2, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2}, 2, 4},
		{"oversubscribed at leaves", fabgen.TreeSpec{Pods: 4, Leaves: 4, Mids: 2, Tops: 4, Hosts: 4}, 2, 8},
		{"oversubscribed at mids", fabgen.TreeSpec{Pods: 4, Leaves: 4, Mids: 4, Tops: 2, Hosts: 4}, 4, 8},
		{"one mid a pod", fabgen.TreeSpec{Pods: 3, Leaves: 3, Mids: 1, Tops: 3, Hosts: 2}, 1, 3},
		{"tops for two planes", fabgen.TreeSpec{Pods: 4, Leaves: 2, Mids: 4, Tops: 2, Hosts: 4, Shared: 2}, 4, 8},
		{"parallel cables", fabgen.TreeSpec{Pods: 3, Leaves: 3, Mids: 2, Tops: 3, Hosts: 4, LeafCables: 2, TopCables: 2}, 4, 12},
	} {
		for _, shuffle := range []uint64{0, 1, 2} {
			c.spec.Shuffle = shuffle
			f := fabgen.GenerateTree(c.spec)
			if _, err := topology.NewBaseline(f); err == nil {
				t.Errorf("%s: is taken for a tree of two levels", c.name)
			}
			tree := podTree(t, f)
			leaves, mids := ups(tree)
			if got, want := []int{tree.Pods, tree.Planes, len(tree.Lanes), len(tree.Leaves), leaves, mids, len(tree.Servers)}, []int{c.spec.Pods, c.planes, c.lanes,
				c.spec.Pods * c.spec.Leaves, c.spec.Pods * c.spec.Leaves * c.planes, c.spec.Pods * c.lanes, c.spec.Pods * c.spec.Leaves * c.spec.Hosts}; !slices.Equal(got, want) {
				t.Errorf("%s: pods, planes, lanes, leaves, cables of leaves, cables of mids, servers are %v, want %v", c.name, got, want)
			}
			if len(tree.Findings) > 0 || !tree.Uncovered.Empty() {
				t.Errorf("%s: findings %v", c.name, tree.Findings)
			}
			again, err := topology.ReadPodBaseline(tree.Baseline.Encode())
			if d := cmp.Diff(tree.Baseline, again); err != nil || d != "" {
				t.Errorf("%s: the baseline reads back otherwise: %v %s", c.name, err, d)
			}
		}
	}
	leaf, mid := podTree(t, fabgen.GenerateTree(fabgen.TreeSpec{Pods: 3, Leaves: 6, Mids: 2, Tops: 3, Hosts: 4})).Subscription()
	if leaf != 2 || mid != 2 {
		t.Errorf("oversubscription %v at leaves and %v at mids, want 2 and 2", leaf, mid)
	}
}

// TestPodDamage holds that numbers stay, and that what is down is what failed.
func TestPodDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := fabgen.KAry(6)
	f := fabgen.GenerateTree(s)
	whole := podTree(t, f)
	for range 30 {
		d := fabgen.Damage{LeafCables: rng.IntN(4), TopCables: rng.IntN(4)}
		fail := s.Draw(rng, d)
		tree := podTree(t, f, fail...)
		leaves, mids := ups(tree)
		if leaves != 54-d.LeafCables || mids != 6*9-d.TopCables {
			t.Fatalf("%v: %d cables of leaves and %d of mids live", fail, leaves, mids)
		}
		if len(tree.Findings) != d.LeafCables+d.TopCables {
			t.Errorf("%v: findings %v", fail, tree.Findings)
		}
		if d := cmp.Diff(whole.Baseline, tree.Baseline); d != "" {
			t.Errorf("%v: the baseline has changed: %s", fail, d)
		}
	}
	tree := podTree(t, f, "Mid004", "Top002", "Leaf007")
	if leaves, mids := ups(tree); leaves != 54-3-3 || mids != 54-3-6 {
		t.Errorf("a mid, a top and a leaf down: %d cables of leaves and %d of mids live", leaves, mids)
	}
	for _, fail := range [][]string{{"Mid004"}, {"Top002"}, {"Leaf003/4", "Mid001/4"}, {"Mid000/4", "Mid000/5", "Mid000/6"}} {
		g := f.Clone()
		for _, spec := range fail {
			if _, err := g.Fail(spec); err != nil {
				t.Fatal(err)
			}
		}
		if base, err := topology.NewPodBaseline(g); err != nil || base.Pods != 6 || len(base.MidOf) != 3 {
			t.Errorf("%v: a baseline of the damaged fabric: %v", fail, err)
		}
	}
}

// TestPodMiswired holds that a cable that fits no plane is refused by name in a new
// baseline, and reported and left alone beside an old one.
func TestPodMiswired(t *testing.T) {
	f := fabgen.GenerateTree(fabgen.KAry(8))
	port := func(name string, p uint8) topology.PortRef {
		for i := range f.Nodes {
			if f.Nodes[i].Name == name {
				return topology.PortRef{Node: int32(i), Port: p}
			}
		}
		t.Fatal(name)
		return topology.PortRef{}
	}
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		a, b, c, d     topology.PortRef // two cables, whose far ends are exchanged
		where, finding string
	}{
		{"two cables to tops of other planes", port("Mid000", 5), port("Top000", 1), port("Mid001", 5), port("Top004", 1), "Mid00", "fits no plane"},
		{"two cables of leaves of two pods", port("Leaf000", 5), port("Mid000", 1), port("Leaf004", 5), port("Mid004", 1), "Leaf00", "fits no plane"},
	} {
		g := f.Clone()
		g.Disconnect(c.a)
		g.Disconnect(c.c)
		g.Connect(c.a, c.d, topology.ParseRate(base.Rate))
		g.Connect(c.c, c.b, topology.ParseRate(base.Rate))
		_, err := topology.NewPodBaseline(g)
		var no *topology.NotFatTree
		if err == nil || !strings.Contains(err.Error(), c.where) || !strings.Contains(err.Error(), "cable") {
			t.Errorf("%s: %v (%T)", c.name, err, no)
		}
		tree, err := topology.FitPods(g, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(tree.Findings); len(tree.Uncovered.Cables) != 2 || !strings.Contains(text, c.finding) {
			t.Errorf("%s: %d cables uncovered, findings %s", c.name, len(tree.Uncovered.Cables), text)
		}
	}
	if _, err := topology.NewPodBaseline(fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 6})); err == nil {
		t.Error("a tree of two levels is taken for one of three")
	}
	if _, err := topology.NewPodBaseline(fabgen.Torus(4, 4, 2)); err == nil {
		t.Error("a torus is taken for a tree of three levels")
	}
}

// TestPodOddParts holds what takes no part: aggregation nodes, hosts on mids and tops,
// switches in a row.
func TestPodOddParts(t *testing.T) {
	f := fabgen.GenerateTree(fabgen.KAry(8))
	tree := podTree(t, fabgen.WithChain(f, "Mid003", 2))
	if len(tree.Servers) != 128 || len(tree.Uncovered.Switches) != 2 || len(tree.Uncovered.Hosts) != 1 {
		t.Errorf("behind a mid: %d servers, uncovered %+v", len(tree.Servers), tree.Uncovered)
	}
	for _, at := range []string{"Mid003", "Top005"} {
		tree := podTree(t, fabgen.WithChain(f, at, 0))
		if tree.Pods != 8 || len(tree.Servers) != 128 || len(tree.Uncovered.Hosts) != 1 {
			t.Errorf("a host on %s: %d pods, %d servers, uncovered %+v", at, tree.Pods, len(tree.Servers), tree.Uncovered)
		}
	}
	with := fabgen.WithAggregation(f)
	if tree := podTree(t, with); len(tree.Servers) != 128 || len(tree.Routed) == 0 {
		t.Errorf("with aggregation nodes: %d servers, %d routed", len(tree.Servers), len(tree.Routed))
	}
}
