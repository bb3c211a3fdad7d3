package lft

import (
	"context"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// hurtPods is a tree of three levels that has lost some cables.
func hurtPods(t *testing.T, s fabgen.TreeSpec) *topology.PodTree {
	t.Helper()
	f := fabgen.GenerateTree(s)
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for _, what := range s.Draw(rng, fabgen.Damage{LeafCables: 5, TopCables: 5}) {
		fabgen.Fails(t, what)(f)
	}
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestPodsOnAllCores checks that tables do not depend on the number of cores that make them, and
// that all cores stay in use.
func TestPodsOnAllCores(t *testing.T) {
	tree := hurtPods(t, fabgen.KAry(8))
	leaf := &tree.Leaves[0]
	pins := slices.Repeat([]iter.Seq[Entry]{func(func(Entry) bool) {}}, 8)
	pins[7] = func(yield func(Entry) bool) {
		yield(Entry{leaf.Node, tree.Hosts[len(tree.Hosts)-1].LID, leaf.Cables[0].LeafPort})
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want, err := BuildPods(t.Context(), tree, pins)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		runtime.GOMAXPROCS(4)
		got, err := BuildPods(t.Context(), tree, pins)
		if err != nil {
			t.Fatal(err)
		}
		if d := Changes(want, got); d != (Delta{}) {
			t.Fatalf("on four cores the tables differ: %+v", d)
		}
		if n := runtime.GOMAXPROCS(0); n != 4 {
			t.Fatalf("%d cores are in use", n)
		}
	}
}

// ending is a context that ends when it is looked at the n-th time.
type ending struct {
	context.Context
	n int
}

func (c *ending) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// TestPodsGiveUp checks that BuildPods fails if its context ends, at any step.
func TestPodsGiveUp(t *testing.T) {
	tree := hurtPods(t, fabgen.KAry(4))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want, err := BuildPods(t.Context(), tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		got, err := BuildPods(&ending{t.Context(), n}, tree, nil)
		if err == nil {
			if d := cmp.Diff(want, got); n < len(tree.Leaves) || d != "" {
				t.Errorf("after %d looks at the context:\n%s", n, d)
			}
			return
		}
		if got != nil {
			t.Fatalf("tables and %v", err)
		}
	}
}

// TestPodHosts checks that all leaves reach a host on a top, and a host with the first LID of
// all, and that no switch has an entry for a host without a LID.
func TestPodHosts(t *testing.T) {
	f := fabgen.GenerateTree(fabgen.KAry(4))
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	top := f.Find(base.Tops[1].GUID)
	addHost(f, top, 0x9900000)
	fabgen.AssignLIDs(f, 0)
	for i := range f.Nodes {
		if f.Nodes[i].LID() == 1 {
			f.Nodes[i].Ports[0].LID, f.Nodes[2].Ports[1].LID = f.Nodes[2].Ports[1].LID, 1
			break
		}
	}
	f.Nodes[3].Ports[1].LID = 0
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := BuildPods(t.Context(), tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, on := newWalker(f, tables), 0
	for _, h := range tree.Hosts {
		if h.Leaf < 0 {
			on++
		}
		for l := range tree.Leaves {
			if path, arrived, err := w.walk(tree.Leaves[l].Node, h.LID); err != nil || arrived != (h.LID != 0) {
				t.Errorf("leaf %d to LID %d of %s: %v, %v", l, h.LID, h.Name, path, err)
			}
		}
		for i := range tables.Switches {
			if p := tables.Port(i, h.LID); h.Leaf >= 0 && (p == NoPath) != (h.LID == 0) {
				t.Errorf("switch %d has port %d for LID %d of %s", i, p, h.LID, h.Name)
			}
		}
	}
	if on != 1 {
		t.Errorf("%d hosts are on no leaf", on)
	}
}

// TestPodSwitchGone takes out each switch in turn: all other leaves reach each other.
func TestPodSwitchGone(t *testing.T) {
	whole := fabgen.GenerateTree(fabgen.KAry(4))
	base, err := topology.NewPodBaseline(whole)
	if err != nil {
		t.Fatal(err)
	}
	for gone := range whole.Nodes {
		if whole.Nodes[gone].Kind != topology.Switch {
			continue
		}
		f := whole.Clone()
		remove(f, int32(gone))
		tree, err := topology.FitPods(f, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		tables, err := BuildPods(t.Context(), tree, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := newWalker(f, tables)
		for l := range tree.Leaves {
			for _, h := range tree.Hosts {
				if tree.Leaves[l].Node == topology.None {
					continue
				}
				if path, arrived, err := w.walk(tree.Leaves[l].Node, h.LID); err != nil || !arrived {
					t.Errorf("%s gone: from leaf %d to %s: %v, %v", whole.Nodes[gone].Name, l, h.Name, path, err)
				}
			}
		}
	}
}
