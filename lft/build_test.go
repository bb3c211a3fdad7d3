package lft

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestDelivery: at every switch, every LID in use either has no entry, or the
// packet arrives; there is an entry at every leaf from which an up-then-down path
// exists, and it takes such a path; and the packets never wait in a ring.
func TestDelivery(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ft := drawTree(r)
		hold(r, ft)
		tables := build(r, ft)
		f := ft.Fabric
		w := newWalker(f, tables)
		for _, end := range f.EndPorts() {
			for lid := end.LID; int(lid) < int(end.LID)+1<<end.LMC; lid++ {
				for i := range f.Nodes {
					if f.Nodes[i].Kind != topology.Switch {
						continue
					}
					path, arrived, err := w.walk(int32(i), lid)
					if err != nil {
						r.Fatal(err)
					}
					if !arrived && len(path) > 1 {
						r.Fatalf("LID %d of %s is lost on the way %v", lid, f.PortLabel(end.PortRef), path)
					}
				}
				for l := range ft.Leaves {
					checkUpDown(r, ft, w, ft.Leaves[l].Node, end, lid)
				}
			}
		}
		if ringByHand(tables, f) {
			r.Fatal("packets can wait for each other in a ring")
		}
		if diff := cmp.Diff(tables, build(r, ft)); diff != "" {
			r.Fatalf("built again, the tables differ:\n%s", diff)
		}
	})
}

// checkUpDown checks that a leaf reaches an end on a switch of the tree by an up-then-down
// path if the fabric has one.
func checkUpDown(r *rapid.T, ft *topology.FatTree, w *walker, leaf int32, end topology.EndPort, lid ib.LID) {
	f := ft.Fabric
	at := end.Node // the switch where the LID leaves the tree
	if f.Nodes[at].Kind != topology.Switch {
		if at = f.At(end.PortRef).Peer; at == topology.None {
			return
		}
	}
	if leaf == topology.None {
		return
	}
	hops := 0 // switches on the shortest up-then-down path
	switch {
	case at == leaf:
		hops = 1
	case isUpper(ft, at) && joined(f, leaf, at):
		hops = 2
	case isLeaf(ft, at):
		for s := range ft.Spines {
			if top := ft.Spines[s].Node; top != topology.None && joined(f, leaf, top) && joined(f, top, at) {
				hops = 3
			}
		}
	}
	if hops == 0 {
		return
	}
	path, arrived, _ := w.walk(leaf, lid)
	if f.Nodes[end.Node].Kind != topology.Switch {
		hops++
	}
	if !arrived || len(path) != hops {
		r.Fatalf("from %s to LID %d of %s: path %v, want %d nodes", &f.Nodes[leaf], lid, f.PortLabel(end.PortRef), path, hops)
	}
}

// isUpper reports whether a switch is a spine of the baseline, or is new and connected to
// leaves only.
func isUpper(ft *topology.FatTree, node int32) bool {
	for s := range ft.Spines {
		if ft.Spines[s].Node == node {
			return true
		}
	}
	for i := range ft.Fabric.Nodes {
		if ft.Fabric.Nodes[i].Kind == topology.Switch && joined(ft.Fabric, node, int32(i)) && !isLeaf(ft, int32(i)) {
			return false
		}
	}
	return !isLeaf(ft, node)
}

func isLeaf(ft *topology.FatTree, node int32) bool {
	for l := range ft.Leaves {
		if ft.Leaves[l].Node == node {
			return true
		}
	}
	return false
}

// TestLanes checks that LID base+j travels lane (j+α) mod K, up and down, if that lane is
// Full at both leaves.
func TestLanes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ft := drawTree(r)
		hold(r, ft)
		tables := build(r, ft)
		for i := range ft.Hosts {
			h := &ft.Hosts[i]
			if h.Leaf < 0 {
				continue
			}
			for k := range ft.Lanes {
				lid, ok := ft.DLID(h, k)
				if !ok || !ft.LaneUp(h.Leaf, k) {
					continue
				}
				spine := tables.Find(ft.Spines[ft.LaneOf[k]].GUID)
				if got, want := tables.Port(spine, lid), ft.Leaves[h.Leaf].Cables[k].SpinePort; got != want {
					r.Fatalf("lane %d to %s comes down by port %d, not %d", k, h.Name, got, want)
				}
				for l := range ft.Leaves {
					if l == h.Leaf || !ft.LaneUp(l, k) {
						continue
					}
					if got, want := tables.Port(tables.Find(ft.Leaves[l].GUID), lid), ft.Leaves[l].Cables[k].LeafPort; got != want {
						r.Fatalf("lane %d from leaf %d to %s goes up by port %d, not %d", k, l, h.Name, got, want)
					}
				}
			}
		}
	})
}

// known counts the baseline's cables that are up where the baseline has them.
func known(f *topology.Fabric, t *topology.FatTree) (n int) {
	for l := range t.Leaves {
		for k, c := range t.Leaves[l].Cables {
			up := topology.Uplink{LeafPort: c.LeafPort, SpinePort: c.SpinePort}
			if c.Usable() && t.Baseline.Leaves[l].Uplinks[k] == up && f.At(topology.PortRef{Node: t.Leaves[l].Node, Port: c.LeafPort}).Up() {
				n++
			}
		}
	}
	return n
}

// trunkEnds counts the ends of the cables that join two switches.
func trunkEnds(f *topology.Fabric) (n int) {
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if port := &f.Nodes[i].Ports[p]; f.Nodes[i].Kind == topology.Switch && port.Up() && f.Nodes[port.Peer].Kind == topology.Switch {
				n++
			}
		}
	}
	return n
}

// TestStability: when cables die, no entry of a lane that lives at both leaves
// changes, and a substitute changes only when its own lane dies too.
func TestStability(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		before := drawTree(r)
		f := before.Fabric.Clone()
		all := cables(f)
		if len(all) == 0 {
			r.Skip("no cable is left")
		}
		for _, c := range rapid.SliceOfN(rapid.SampledFrom(all), 1, 3).Draw(r, "dies") {
			f.Disconnect(c)
		}
		after, err := topology.Fit(f, before.Baseline, nil)
		var other *topology.NotFatTree
		if errors.As(err, &other) && 4*known(f, before) < trunkEnds(f) {
			r.Skip("most of what is left are cables that the baseline lacks")
		}
		if err != nil {
			r.Fatal(err)
		}
		a, b := build(r, before), build(r, after)
		// The loss can turn an unknown switch into a new leaf.
		lives := func(leaf, lane int) bool { return leaf < len(before.Leaves) && after.LaneUp(leaf, lane) }
		for l := range before.Leaves {
			for k, c := range before.Leaves[l].Cables {
				if after.LaneUp(l, k) && c != after.Leaves[l].Cables[k] {
					r.Skip("a surplus cable took the place of the one that died")
				}
			}
		}
		for i := range after.Hosts {
			h := &after.Hosts[i]
			for j := 0; h.Leaf >= 0 && j < 1<<h.LMC; j++ {
				lid, k := h.LID+ib.LID(j), after.LIDLane(h, j)
				s := a.Find(after.Spines[after.LaneOf[k]].GUID)
				if lives(h.Leaf, k) && a.Port(s, lid) != b.Port(s, lid) {
					r.Fatalf("lane %d lives at leaf %d, and its entry for LID %d at the spine changes", k, h.Leaf, lid)
				}
				for l := range after.Leaves {
					s := a.Find(after.Leaves[l].GUID)
					if s < 0 || l == h.Leaf || a.Port(s, lid) == b.Port(s, lid) {
						continue
					}
					for lane, c := range after.Leaves[l].Cables {
						if c.LeafPort == a.Port(s, lid) && lives(l, lane) && lives(h.Leaf, lane) {
							r.Fatalf("LID %d (lane %d) left lane %d at leaf %d, which lives at both ends", lid, k, lane, l)
						}
					}
				}
			}
		}
	})
}

// TestMonitoring: while the fabric is whole, and with one cable gone, every LID
// is reached from every switch.
func TestMonitoring(t *testing.T) {
	cut := func(f *topology.Fabric) { f.Disconnect(cables(f)[0]) }
	for name, change := range map[string]func(*topology.Fabric){"whole": nil, "one cable gone": cut} {
		t.Run(name, func(t *testing.T) {
			ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 5, Leaves: 4, LMC: 2}), change)
			f := ft.Fabric
			w := newWalker(f, build(t, ft))
			for _, lid := range LIDs(f) {
				for i := range f.Nodes {
					if f.Nodes[i].Kind != topology.Switch {
						continue
					}
					if path, arrived, err := w.walk(int32(i), lid); !arrived || err != nil {
						t.Errorf("LID %d from %s: path %v, %v", lid, &f.Nodes[i], path, err)
					}
				}
			}
		})
	}
}

// TestRelayForLeaves: two leaves without a common spine meet through a third.
func TestRelayForLeaves(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1})
	ft := tree(t, f, func(f *topology.Fabric) {
		for _, c := range cables(f) {
			leaf, spine := f.Nodes[c.Node].GUID-fabgen.LeafGUID, f.Nodes[f.At(c).Peer].GUID-fabgen.SpineGUID
			if leaf < 2 && leaf == spine {
				f.Disconnect(c)
			}
		}
	})
	tables := build(t, ft)
	w := newWalker(ft.Fabric, tables)
	h := &ft.Hosts[2] // the first one on leaf 1
	path, arrived, err := w.walk(ft.Leaves[0].Node, h.LID)
	want := []int32{ft.Leaves[0].Node, ft.Spines[1].Node, ft.Leaves[2].Node, ft.Spines[0].Node, ft.Leaves[1].Node, h.Node}
	if diff := cmp.Diff(want, path); !arrived || err != nil || diff != "" {
		t.Errorf("arrived %t, error %v, path:\n%s", arrived, err, diff)
	}
	if ringByHand(tables, ft.Fabric) {
		t.Error("packets can wait for each other in a ring")
	}
}

// TestEvenness: what one dead cable displaces spreads evenly over the living
// lanes, at the leaf that lost it and at the spines that send down to it.
func TestEvenness(t *testing.T) {
	for _, spec := range []fabgen.Spec{{Spines: 20, Leaves: 18, LMC: 5}, {Spines: 8, Leaves: 16, LMC: 3}, {Spines: 16, Leaves: 32, LMC: 4}, {Spines: 32, Leaves: 32, LMC: 5}} {
		const leaf, lane = 3, 2
		ft := tree(t, fabgen.Generate(spec), nil)
		whole := build(t, ft)
		ft.Fabric.Disconnect(topology.PortRef{Node: ft.Leaves[leaf].Node, Port: ft.Leaves[leaf].Cables[lane].LeafPort})
		ft, err := topology.Fit(ft.Fabric, ft.Baseline, nil)
		if err != nil {
			t.Fatal(err)
		}
		tables := build(t, ft)
		up, down := make([]int, ft.Lanes), make([]int, ft.Lanes)
		for i := range ft.Hosts {
			h := &ft.Hosts[i]
			for j := range 1 << h.LMC {
				lid := h.LID + ib.LID(j)
				for l := range ft.Leaves {
					s := tables.Find(ft.Leaves[l].GUID)
					port := tables.Port(s, lid)
					if l == h.Leaf || port == whole.Port(s, lid) {
						continue
					}
					for k, c := range ft.Leaves[l].Cables {
						if c.LeafPort == port && l == leaf {
							up[k]++
						} else if c.LeafPort == port {
							down[k]++
						}
					}
				}
			}
		}
		for name, load := range map[string][]int{"up": up, "down": down} {
			load = append(load[:lane:lane], load[lane+1:]...)
			least, most := load[0], load[0]
			for _, n := range load {
				least, most = min(least, n), max(most, n)
			}
			t.Logf("FT(2;%d,%d) %s: %d to %d displaced LIDs on a lane", spec.Spines, spec.Leaves, name, least, most)
			if least == 0 || float64(most) > 1.2*float64(least) {
				t.Errorf("FT(2;%d,%d) %s: the displaced LIDs are spread unevenly: %v", spec.Spines, spec.Leaves, name, load)
			}
		}
	}
}

// TestBuildRefuses: a fabric whose LIDs overlap gives an error.
func TestBuildRefuses(t *testing.T) {
	ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 2}), nil)
	ft.Fabric.Nodes[1].Ports[1].LID = ft.Fabric.Nodes[0].Ports[1].LID
	if _, err := Build(ft); err == nil {
		t.Error("tables for LIDs that two ports own")
	}
}
