package lft

import (
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestComplete takes up to six of ten cables out of trees. What hangs together is reached,
// but for one entry in 500 at most, and the channels have no cycle.
func TestComplete(t *testing.T) {
	lacking, all, unmanaged := 0, 0, 0
	for seed := range uint64(400) {
		tree := worn(t, seed)
		if tree == nil {
			continue
		}
		tables, err := Build(tree)
		if err != nil {
			t.Fatal(err)
		}
		if ringByHand(tables, tree.Fabric) {
			t.Fatalf("seed %d: the channels wait for each other", seed)
		}
		for _, lid := range LIDs(tree.Fabric) {
			home := homeOf(tree.Fabric, lid)
			for _, s := range island(tree.Fabric, home) {
				all++
				if tables.Port(tables.Find(tree.Fabric.Nodes[s].GUID), lid) == NoPath {
					lacking++
					if h := &tree.Fabric.Nodes[home]; h.Kind == topology.Switch && h.LID() == lid {
						unmanaged++
					}
				} else if _, err := tables.Trace(tree.Fabric, topology.PortRef{Node: s}, lid); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
	}
	t.Logf("%d of %d entries are left out, %d of them for switches", lacking, all, unmanaged)
	if 500*lacking > all {
		t.Errorf("%d of %d entries are left out though cables lead on, %d of them for switches", lacking, all, unmanaged)
	}
}

// homeOf is the switch at which a LID is delivered.
func homeOf(f *topology.Fabric, lid ib.LID) int32 {
	for _, e := range f.EndPorts() {
		if lid >= e.LID && int(lid) < int(e.LID)+1<<e.LMC {
			if f.Nodes[e.Node].Kind == topology.Switch {
				return e.Node
			}
			return f.At(e.PortRef).Peer
		}
	}
	return topology.None
}

// island are the switches that cables join to one.
func island(f *topology.Fabric, home int32) []int32 {
	if home == topology.None {
		return nil
	}
	found := []int32{home}
	seen := map[int32]bool{home: true}
	for i := 0; i < len(found); i++ {
		for _, p := range f.Trunks(found[i]) {
			if far := f.Nodes[found[i]].Ports[p].Peer; !seen[far] {
				seen[far] = true
				found = append(found, far)
			}
		}
	}
	return found
}

// slow has a cable run at one lane.
func slow(f *topology.Fabric, at topology.PortRef) {
	here := f.At(at)
	here.Rate.Width, f.At(topology.PortRef{Node: here.Peer, Port: here.PeerPort}).Rate.Width = 1, 1
}

// worn is a tree of which up to six of ten cables are gone, and some slow, where the seed is
// odd. It is nil if too little is left.
func worn(t *testing.T, seed uint64) *topology.FatTree {
	rng := rand.New(rand.NewPCG(seed, 5))
	whole := fabgen.Generate(fabgen.Spec{Spines: 2 + rng.IntN(5), Leaves: 3 + rng.IntN(5), Hosts: []int{2}})
	fabgen.AssignLIDs(whole, uint8(rng.IntN(3)))
	base, err := topology.NewBaseline(whole)
	if err != nil {
		t.Fatal(err)
	}
	f := whole.Clone()
	damage := rng.IntN(60)
	for i := range f.Nodes {
		for _, p := range f.Trunks(int32(i)) {
			if rng.IntN(100) < damage {
				f.Disconnect(topology.PortRef{Node: int32(i), Port: p})
			} else if seed%2 == 1 && rng.IntN(5) == 0 {
				slow(f, topology.PortRef{Node: int32(i), Port: p})
			}
		}
	}
	tree, _ := topology.Fit(f, base, nil)
	return tree
}

// TestShifted checks that tables do not depend on the numbers of LIDs: with all LIDs higher,
// each keeps its entries.
func TestShifted(t *testing.T) {
	const by = 77
	for seed := range uint64(60) {
		ft := worn(t, seed)
		if ft == nil || newUpDown(ft) != nil { // what is outside the tree takes turns by LID
			continue
		}
		f := ft.Fabric.Clone()
		for i := range f.Nodes {
			for p := range f.Nodes[i].Ports {
				if port := &f.Nodes[i].Ports[p]; port.LID != 0 {
					port.LID += by
				}
			}
		}
		shifted, err := topology.Fit(f, ft.Baseline, nil)
		if err != nil {
			t.Fatal(err)
		}
		was, now := build(t, ft), build(t, shifted)
		for i := range was.Switches {
			for lid, port := range was.Switches[i].Out {
				if got := now.Port(i, ib.LID(lid+by)); got != port {
					t.Fatalf("seed %d, switch %d, LID %d: port %d, and %d for LID %d", seed, i, lid, port, got, lid+by)
				}
			}
		}
	}
}
