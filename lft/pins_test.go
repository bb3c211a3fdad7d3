package lft

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
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

// TestPins checks that a pinned LID takes its lane from the leaf that pins it, up and down, that
// every other entry by the rules of the tree is the same as without pins, that an entry that only
// completes the tables leads to the LID, and that the packets never wait in a ring.
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
			lid := h.LID + ib.LID(i%pins.LIDs)
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
				if path, arrived, err := w.walk(ft.Fabric.Find(tables.Switches[i].GUID), ib.LID(lid)); err != nil || !arrived {
					r.Fatalf("LID %d is lost on the way %v: %v", lid, path, err)
				}
			}
		}
		if ringByHand(tables, ft.Fabric) {
			r.Fatal("packets may wait in a ring")
		}
	})
}

// pinnable is a tree of two spines with two cables to each leaf, so of the lanes 0 and 1, and 2
// and 3; leaf 1 has lost lane 0, leaf 2 lanes 0 and 1, leaf 3 lanes 2 and 3. Its last host
// is on a spine.
func pinnable(t *testing.T) *topology.FatTree {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 5, Cables: 2, Hosts: []int{3}, LMC: 1})
	addHost(f, f.Find(fabgen.SpineGUID), 0x900000)
	fabgen.AssignLIDs(f, 1)
	return tree(t, f, func(f *topology.Fabric) {
		for _, c := range [][2]int{{1, 0}, {2, 0}, {2, 1}, {3, 2}, {3, 3}} {
			f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID + ib.GUID(c[0])), Port: uint8(4 + c[1])})
		}
	})
}

// up is true if one of some lanes lives at a leaf.
func up(ft *topology.FatTree, leaf int, lanes ...int) bool {
	return slices.ContainsFunc(lanes, func(k int) bool { return ft.Leaves[leaf].Cables[k].State == topology.Full })
}

// TestPinRefused tries every pin, and ones for an LID and a lane too many.
func TestPinRefused(t *testing.T) {
	ft := pinnable(t)
	good := 0
	for leaf := range ft.Leaves {
		for i := range ft.Hosts {
			for lid := range 3 {
				for lane := range 5 {
					h, want := &ft.Hosts[i], ""
					switch {
					case lid == 2:
						want = fmt.Sprintf("build tables: LID 2 of %s is pinned, whose LMC is 1", h.Name)
					case lane == 4 || h.Leaf < 0 || leaf == h.Leaf || !up(ft, leaf, lane) || !up(ft, h.Leaf, lane/2*2, lane/2*2+1):
						want = fmt.Sprintf("build tables: lane %d is pinned from leaf %d to %s on leaf %d: it does not join them", lane, leaf, h.Name, h.Leaf)
					}
					tables, err := BuildPinned(ft, nil, Pin{leaf, i, lid, lane})
					if (err == nil) != (want == "") || err != nil && (err.Error() != want || tables != nil) {
						t.Fatalf("leaf %d to %s by LID %d on lane %d: %v, want %q", leaf, h.Name, lid, lane, err, want)
					}
					if s := ft.Servers; err == nil {
						good++
						if got, want := tables.Port(tables.Find(ft.Leaves[leaf].GUID), h.LID+ib.LID(lid)), ft.Leaves[leaf].Cables[lane].LeafPort; got != want {
							t.Fatalf("pinned to lane %d: port %d, want %d", lane, got, want)
						}
					} else if at := slices.Index(s, i); at >= 0 { // the same, as one of many
						pins := unpinned(ft, lid+1)
						pins.Lane[(leaf*len(s)+at)*pins.LIDs+lid] = int16(lane)
						if _, err := BuildPinned(ft, pins); err == nil || err.Error() != want {
							t.Fatalf("as one of many: %v, want %q", err, want)
						}
					}
				}
			}
		}
	}
	if good < 100 {
		t.Errorf("%d pins are good", good)
	}
}

// unpinned pins nothing.
func unpinned(ft *topology.FatTree, lids int) *Pins {
	fill := func(n int) []int16 { return slices.Repeat([]int16{-1}, n) }
	return &Pins{lids, fill(len(ft.Leaves) * len(ft.Servers) * lids), fill(len(ft.Servers) * lids * ft.Lanes)}
}

// TestPinnedDown tries every lane, and one too many, by which a spine may have an LID that
// comes up by a lane, and then many at once.
func TestPinnedDown(t *testing.T) {
	ft := pinnable(t)
	rng := rand.New(rand.NewPCG(3, 3))
	plain, many := build(t, ft), unpinned(ft, 2)
	want := unpinned(ft, 2)
	for i := range many.Down {
		s, j, lane := i/8, i/4%2, i%4
		h := &ft.Hosts[ft.Servers[s]]
		pins := unpinned(ft, 2)
		for k := range int16(5) {
			pins.Down[i] = k
			said := ""
			if k == 4 || k/2 != int16(lane)/2 || !up(ft, h.Leaf, int(k)) {
				said = fmt.Sprintf("build tables: lane %d is pinned down to %s for what comes up by lane %d: it is of another spine or down", k, h.Name, lane)
			} else if first := i - lane%2; rng.IntN(4) > 0 && max(many.Down[first], many.Down[first+1]) < 0 {
				many.Down[i] = k
				want.Down[s*8+j*4+lane/2] = k
			}
			if _, err := BuildPinned(ft, pins); (err == nil) != (said == "") || err != nil && err.Error() != said {
				t.Fatalf("LID %d of %s comes up by lane %d, and down by lane %d: %v, want %q", j, h.Name, lane, k, err, said)
			}
		}
	}
	tables, err := BuildPinned(ft, many)
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for s, i := range ft.Servers {
		h := &ft.Hosts[i]
		for j := range 2 {
			for spine := range ft.Spines {
				lid, at := h.LID+ib.LID(j), tables.Find(ft.Spines[spine].GUID)
				port := plain.Port(at, lid)
				if k := want.Down[s*8+j*4+spine]; k >= 0 {
					port = ft.Leaves[h.Leaf].Cables[k].SpinePort
				}
				if got := tables.Port(at, lid); got != port {
					t.Errorf("LID %d of %s comes down from spine %d by port %d, want %d", j, h.Name, spine, got, port)
				}
				if port != plain.Port(at, lid) {
					moved++
				}
			}
		}
	}
	if moved < 10 {
		t.Errorf("the pins move %d entries", moved)
	}
}

// TestPinsOfOtherTrees refuses pins that are too many or too few for the tree.
func TestPinsOfOtherTrees(t *testing.T) {
	ft := pinnable(t) // five leaves, fifteen servers
	for want, spoil := range map[string]func(*Pins){
		"": func(*Pins) {},
		"149 lanes are pinned, want one for each of 5 leaves, 15 servers and 2 LIDs":     func(p *Pins) { p.Lane = p.Lane[1:] },
		"151 lanes are pinned, want one for each of 5 leaves, 15 servers and 2 LIDs":     func(p *Pins) { p.Lane = append(p.Lane, -1) },
		"0 lanes are pinned, want one for each of 5 leaves, 15 servers and 0 LIDs":       func(p *Pins) { *p = Pins{} },
		"119 lanes down are pinned, want one for each of 15 servers, 2 LIDs and 4 lanes": func(p *Pins) { p.Down = p.Down[1:] },
		"121 lanes down are pinned, want one for each of 15 servers, 2 LIDs and 4 lanes": func(p *Pins) { p.Down = append(p.Down, -1) },
		"0 lanes down are pinned, want one for each of 15 servers, 2 LIDs and 4 lanes":   func(p *Pins) { p.Down = p.Down[:0] },
	} {
		p := unpinned(ft, 2)
		spoil(p)
		if _, err := BuildPinned(ft, p); (err == nil) != (want == "") || err != nil && err.Error() != "build tables: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
