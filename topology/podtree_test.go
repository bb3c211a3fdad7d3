package topology_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
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

// TestPodDamage checks that numbers stay, and that exactly the failed parts are down.
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

// miswire draws two cables between the same two levels and exchanges their upper ends, so
// that they lead to another pod or another plane, or moves one there. It returns the cables
// as they are then, nil where the draw gives none such.
func miswire(f *topology.Fabric, rng *rand.Rand, base *topology.PodBaseline) (wrong []topology.PortRef) {
	perPod := len(base.Mids) / base.Pods
	planes := map[ib.GUID]int{} // of a top, one of its planes
	for _, l := range base.Lanes {
		planes[base.Tops[l.Top].GUID] = base.MidOf[l.Plane]
	}
	var ends []topology.PortRef // lower ends
	var group []int             // what the upper end is meant to be in
	leaves := rng.IntN(2) == 0
	note := func(g ib.GUID, u topology.Uplink, of int) {
		if u.LeafPort != 0 {
			ends, group = append(ends, topology.PortRef{Node: f.Find(g), Port: u.LeafPort}), append(group, of)
		}
	}
	if leaves {
		for i := range base.Leaves {
			for _, u := range base.Leaves[i].Uplinks {
				note(base.Leaves[i].GUID, u, base.Leaves[i].Pod)
			}
		}
	} else {
		for m := range base.Mids {
			for _, u := range base.Mids[m].Uplinks {
				note(base.Mids[m].GUID, u, m%perPod)
			}
		}
	}
	x, y := rng.IntN(len(ends)), rng.IntN(len(ends))
	if group[x] == group[y] {
		return nil
	}
	a, c := ends[x], ends[y]
	b, d := topology.PortRef{Node: f.At(a).Peer, Port: f.At(a).PeerPort}, topology.PortRef{Node: f.At(c).Peer, Port: f.At(c).PeerPort}
	f.Disconnect(a)
	f.Disconnect(c)
	rate := ib.ParseRate(base.Rate)
	f.Connect(a, d, rate)
	wrong = append(wrong, a)
	if rng.IntN(2) == 0 {
		f.Connect(c, b, rate)
		wrong = append(wrong, c)
	}
	return wrong
}

// TestPodMiswired checks that a cable to another pod or another plane is named and left
// alone, with a new baseline and with an old one, and that the rest does not change.
func TestPodMiswired(t *testing.T) {
	rng := rand.New(rand.NewPCG(32, 1))
	for n := range 300 {
		spec := fabgen.KAry(4 + 2*rng.IntN(3))
		if rng.IntN(2) == 0 {
			spec = fabgen.TreeSpec{Pods: 3 + rng.IntN(4), Leaves: 3 + rng.IntN(3), Mids: 2 + rng.IntN(3), Tops: 2 + rng.IntN(3), Hosts: 1 + rng.IntN(3), LeafCables: 1 + rng.IntN(2)}
		}
		f := fabgen.GenerateTree(spec)
		base, err := topology.NewPodBaseline(f)
		if err != nil {
			t.Fatal(err)
		}
		whole := podTree(t, f)
		g := f.Clone()
		wrong := miswire(g, rng, base)
		if wrong == nil || spec.Mids == 2 && spec.Leaves == 2 && len(wrong) == 2 {
			continue // two readings are alike
		}
		fresh, err := topology.NewPodBaseline(g)
		if err != nil {
			t.Errorf("%d: %+v: %v", n, spec, err)
			continue
		}
		for what, b := range map[string]*topology.PodBaseline{"a new baseline": fresh, "the old baseline": base} {
			tree, err := topology.FitPods(g, b, nil)
			if err != nil {
				t.Fatal(err)
			}
			leaves, mids := ups(tree)
			wholeLeaves, wholeMids := ups(whole)
			lost := wholeLeaves + wholeMids - leaves - mids
			if tree.Pods != whole.Pods || tree.Planes != whole.Planes || len(tree.Lanes) != len(whole.Lanes) || len(tree.Servers) != len(whole.Servers) || len(tree.Uncovered.Cables) != len(wrong) || lost > 2 {
				t.Errorf("%d: %+v: by %s %d pods, %d planes, %d lanes, %d servers, %d cables fewer, uncovered %+v; %d cables are wrong", n, spec, what, tree.Pods, tree.Planes, len(tree.Lanes), len(tree.Servers), lost, tree.Uncovered, len(wrong))
			}
			for _, r := range wrong {
				if what == "a new baseline" && spec.Mids == 2 && len(wrong) == 2 {
					break // which of a leaf's two cables is wrong cannot be told
				}
				peer := topology.PortRef{Node: g.At(r).Peer, Port: g.At(r).PeerPort}
				if text := fmt.Sprint(tree.Findings); !strings.Contains(text, g.CableLabel(r)+" fits no plane") && !strings.Contains(text, g.CableLabel(peer)+" fits no plane") {
					t.Errorf("%d: by %s the cable %s is not named: %s", n, what, g.CableLabel(r), text)
				}
			}
		}
	}
	if _, err := topology.NewPodBaseline(fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 6})); err == nil {
		t.Error("a tree of two levels is taken for one of three")
	}
	for _, side := range []int{3, 4, 5, 6} {
		if _, err := topology.NewPodBaseline(fabgen.Torus(side, side, 2)); err == nil {
			t.Errorf("a torus of %d × %d is taken for a tree of three levels", side, side)
		}
	}
}

// TestFourLevels: a tree of four levels is called one.
func TestFourLevels(t *testing.T) {
	for _, k := range []int{2, 3, 4} {
		_, err := topology.Recognise(fabgen.FourLevels(k))
		var not *topology.NotFatTree
		if !errors.As(err, &not) || !strings.Contains(err.Error(), "four levels or more") {
			t.Errorf("%d hosts a leaf: %v", k, err)
		}
	}
}

// TestPodOddParts checks parts that stay out of the tree: aggregation nodes, hosts on mids
// and tops, switches in a row.
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
