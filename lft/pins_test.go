package lft

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"

	"pgregory.net/rapid"
)

// drawPins pins random LIDs of random servers to lanes that join them with a
// leaf, as far as the tree can carry that.
func drawPins(r *rapid.T, ft *topology.FatTree) *Pins {
	p := &Pins{LIDs: rapid.IntRange(1, 4).Draw(r, "LIDs")}
	p.Lane = make([]int16, len(ft.Leaves)*len(ft.Servers)*p.LIDs)
	for i := range p.Lane {
		p.Lane[i] = -1
		leaf, h := i/p.LIDs/len(ft.Servers), &ft.Hosts[ft.Servers[i/p.LIDs%len(ft.Servers)]]
		if leaf == h.Leaf || i%p.LIDs >= 1<<h.LMC {
			continue
		}
		k := rapid.IntRange(-1, ft.Lanes-1).Draw(r, "lane")
		if k >= 0 && ft.LaneUp(leaf, k) && ft.LaneUp(h.Leaf, k) && ft.Spines[ft.LaneOf[k]].Cables == 1 {
			p.Lane[i] = int16(k)
		}
	}
	return p
}

// TestPins holds that a pinned LID takes its lane from the leaf that pins it,
// up and down, that every other entry by the rules of the tree is as it is without
// pins, that one which is there only to complete the tables leads to the LID, and
// that the packets never wait in a ring.
func TestPins(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ft := drawTree(r)
		if len(ft.Servers) == 0 || ft.Lanes == 0 {
			r.Skip("nothing to pin")
		}
		pins := drawPins(r, ft)
		rules, plain := makeTables(ft, nil), build(r, ft)
		tables, err := BuildPinned(ft, pins)
		if err != nil {
			r.Fatal(err)
		}
		w := newWalker(ft.Fabric, tables)
		pinned := map[[2]int]bool{} // switch of the tables, LID
		for i, k := range pins.Lane {
			if k < 0 {
				continue
			}
			leaf := &ft.Leaves[i/pins.LIDs/len(ft.Servers)]
			h := &ft.Hosts[ft.Servers[i/pins.LIDs%len(ft.Servers)]]
			lid := h.LID + topology.LID(i%pins.LIDs)
			pinned[[2]int{tables.Find(leaf.GUID), int(lid)}] = true
			up, down := tables.Port(tables.Find(leaf.GUID), lid), tables.Port(tables.Find(ft.Spines[ft.LaneOf[k]].GUID), lid)
			if up != leaf.Cables[k].LeafPort || down != ft.Leaves[h.Leaf].Cables[k].SpinePort {
				r.Fatalf("LID %d of %s leaves %s by port %d and its spine by port %d: not lane %d", lid, h.Name, leaf.Name, up, down, k)
			}
			if path, arrived, err := w.walk(leaf.Node, lid); err != nil || !arrived {
				r.Fatalf("LID %d of %s is lost on the way %v: %v", lid, h.Name, path, err)
			}
		}
		for i := range tables.Switches {
			for lid, port := range tables.Switches[i].Out {
				want := plain.Switches[i].Out[lid]
				if port == want || pinned[[2]int{i, lid}] {
					continue
				}
				if rules.Switches[i].Out[lid] != NoPath {
					r.Fatalf("switch %s: the entry of LID %d is port %d, and port %d without pins", tables.Switches[i].GUID, lid, port, want)
				}
				if port == NoPath {
					continue
				}
				if path, arrived, err := w.walk(ft.Fabric.Find(tables.Switches[i].GUID), topology.LID(lid)); err != nil || !arrived {
					r.Fatalf("LID %d is lost on the way %v: %v", lid, path, err)
				}
			}
		}
		if ringByHand(tables, ft.Fabric) {
			r.Fatal("packets may wait in a ring")
		}
	})
}

// TestPinsRefused spoils pins one way at a time.
func TestPinsRefused(t *testing.T) {
	ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3, LMC: 1}), func(f *topology.Fabric) {
		f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: 4})
	})
	double := tree(t, fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 3, Cables: 2, LMC: 1}), nil)
	for _, c := range []struct {
		name string
		tree *topology.FatTree
		lids int
		at   [3]int // leaf, server, LID
		lane int16
		want string
	}{
		{"good", ft, 2, [3]int{1, 8, 1}, 2, ""},
		{"dead lane", ft, 2, [3]int{0, 8, 0}, 0, "does not join them"},
		{"own leaf", ft, 2, [3]int{1, 3, 0}, 2, "does not join them"},
		{"no such lane", ft, 2, [3]int{1, 8, 0}, 3, "does not join them"},
		{"no such LID", ft, 3, [3]int{1, 8, 2}, 2, "whose LMC is 1"},
		{"no LIDs", ft, 0, [3]int{}, -1, "want one for each"},
		{"a cable of the spine", double, 2, [3]int{1, 5, 0}, 2, ""},
		{"down a cable of another spine", double, -2, [3]int{1, 5, 0}, 2, "of another spine"},
	} {
		p := &Pins{LIDs: max(c.lids, -c.lids)}
		if c.lids < 0 { // down from each lane by the first
			p.Down, c.lids = make([]int16, len(c.tree.Servers)*p.LIDs*c.tree.Lanes), p.LIDs
		}
		p.Lane = make([]int16, len(c.tree.Leaves)*len(c.tree.Servers)*c.lids)
		for i := range p.Lane {
			p.Lane[i] = -1
		}
		if c.lids > 0 {
			p.Lane[(c.at[0]*len(c.tree.Servers)+c.at[1])*c.lids+c.at[2]] = c.lane
		}
		_, err := BuildPinned(c.tree, p)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
