package topology_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

func TestNewBaseline(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, Hosts: []int{2, 1}, Cables: 2, LMC: 2})
	want := &topology.Baseline{Version: 1, Rate: "4xHDR",
		Spines: []topology.BaselineSpine{{0x300000, "Spine000", 2}, {0x300001, "Spine001", 2}},
		Leaves: []topology.BaselineLeaf{
			{0x200000, "Leaf000", []topology.Uplink{{3, 1}, {4, 2}, {5, 1}, {6, 2}},
				[]topology.Slot{{GUID: 0x100001, Name: "Hca0000", LeafPort: 1}, {GUID: 0x100003, Name: "Hca0001", LeafPort: 2}}, 0},
			{0x200001, "Leaf001", []topology.Uplink{{3, 3}, {4, 4}, {5, 3}, {6, 4}}, []topology.Slot{{GUID: 0x100005, Name: "Hca0002", LeafPort: 1}}, 0},
		}}
	if diff := cmp.Diff(want, baselineOf(t, f)); diff != "" {
		t.Error(diff)
	}
}

// Two leaves with fewer cables to a spine than the others have no cable on its
// later lanes.
func TestNewBaselineUnequalCables(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 3, Hosts: []int{2}, Cables: 2, LMC: 2})
	f.Disconnect(ref(t, f, fabgen.LeafGUID+1, 3)) // the first cable to spine 0
	ft := fitted(t, f, baselineOf(t, f))
	found(t, ft)
	if ft.Lanes != 4 || !ft.LaneUp(1, 0) || ft.Leaves[1].Cables[0].LeafPort != 4 || ft.Leaves[1].Cables[1].State != topology.NoCable {
		t.Errorf("cables of leaf 1: %v", ft.Leaves[1].Cables)
	}
	// The cable comes: it takes the free lane, and nothing else moves.
	f.Connect(ref(t, f, fabgen.LeafGUID+1, 3), ref(t, f, fabgen.SpineGUID, 3), hdr)
	again := fitted(t, f, ft.Baseline)
	found(t, again)
	if !again.LaneUp(1, 1) || again.Leaves[1].Cables[1].LeafPort != 3 || again.Leaves[1].Cables[0] != ft.Leaves[1].Cables[0] {
		t.Errorf("cables of leaf 1: %v", again.Leaves[1].Cables)
	}
	// A third one has no lane until the baseline is accepted again.
	f = newFabric(t, f.Nodes)
	f.Disconnect(ref(t, f, fabgen.LeafGUID+1, 2))
	f.Disconnect(ref(t, f, fabgen.LeafGUID+2, 3))
	f.Connect(ref(t, f, fabgen.LeafGUID+1, 2), ref(t, f, fabgen.SpineGUID, 5), hdr)
	if got := codes(fitted(t, f, again.Baseline)); len(got) == 0 || got[0] != topology.CableNew {
		t.Errorf("findings %v", got)
	}
	if k := baselineOf(t, f).Lanes(); k != 5 {
		t.Errorf("a new baseline has %d lanes, want 3 + 2", k)
	}
}

func TestBaselineRate(t *testing.T) {
	spec := fabgen.Spec{Spines: 3, Leaves: 3, LMC: 2}
	for _, test := range []struct {
		name string
		set  func(f *topology.Fabric, port *topology.Port, leaf, lane int)
		want string
		down int // degraded cables
	}{
		{"the common rate", func(_ *topology.Fabric, p *topology.Port, leaf, lane int) {
			if leaf == 0 && lane == 0 {
				p.Rate.Speed = ib.EDR
			}
		}, "4xHDR", 1},
		{"half and half", func(_ *topology.Fabric, p *topology.Port, _, lane int) {
			p.Rate.Speed = []ib.Speed{ib.EDR, ib.NDR, ib.UnknownSpeed}[lane]
		}, "4xNDR", 3},
		{"unknown", func(_ *topology.Fabric, p *topology.Port, _, _ int) {
			p.Rate = ib.Rate{}
		}, "0x?", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := fabgen.Generate(spec)
			for l := range spec.Leaves {
				for k := range spec.Spines {
					at := f.At(ref(t, f, fabgen.LeafGUID+ib.GUID(l), 4+k))
					test.set(f, at, l, k)
					f.Nodes[at.Peer].Ports[at.PeerPort].Rate = at.Rate
				}
			}
			b := baselineOf(t, f)
			if b.Rate != test.want {
				t.Errorf("rate %s, want %s", b.Rate, test.want)
			}
			if got := codes(fitted(t, f, b)); len(got) != test.down {
				t.Errorf("findings %v, want %d degraded cables", got, test.down)
			}
		})
	}
}

func TestBaselineRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := fabgen.Generate(fabgen.Spec{Spines: rapid.IntRange(1, 4).Draw(rt, "spines"), Leaves: rapid.IntRange(2, 4).Draw(rt, "leaves"),
			Hosts: rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(rt, "hosts"), Cables: rapid.IntRange(1, 2).Draw(rt, "cables"), Shuffle: rapid.Uint64().Draw(rt, "shuffle")})
		f.Nodes[0].Name = rapid.String().Draw(rt, "name")
		b := baselineOf(t, f)
		again, err := topology.ReadBaseline(b.Encode())
		if err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(again.Encode(), b.Encode()) {
			rt.Fatal(cmp.Diff(b, again))
		}
		if diff := cmp.Diff(numbersOf(fitted(t, f, b)), numbersOf(fitted(t, f, again))); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestReadBaselineRefuses(t *testing.T) {
	valid := string(baselineOf(t, fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})).Encode())
	if _, err := topology.ReadBaseline([]byte(valid)); err != nil {
		t.Fatal(err)
	}
	edit := func(from, to string) string { return strings.Replace(valid, from, to, 1) }
	for _, test := range []struct{ name, text, want string }{
		{"another version", edit(`"version": 1`, `"version": 2`), "version 2 is not 1"},
		{"no version", edit(`"version": 1,`, ``), "version 0 is not 1"},
		{"unknown key", edit(`"version": 1`, `"version": 1, "lanes": 4`), `unknown field "lanes"`},
		{"cut off", valid[:len(valid)-3], "read baseline: "},
		{"more text", valid + "{}", "text after the end"},
		{"bad GUID", edit(`"0x0000000000200000"`, `"leaf"`), `"leaf" is not a GUID`},
		{"a GUID twice", edit(`"0x0000000000200001"`, `"0x0000000000300000"`), "GUID 0x0000000000300000 stands for both spine 0 and leaf 1"},
		{"a host twice", edit(`"0x0000000000100001"`, `"0x0000000000100003"`), "GUID 0x0000000000100003 stands for both index 0 of leaf 0 and index 1 of leaf 0"},
		{"no cables", edit(`"cables": 1`, `"cables": 0`), "has 0 cables to a leaf"},
		{"too few uplinks", edit(`"cables": 1`, `"cables": 2`), "leaf 0x0000000000200000 has 2 uplinks for 3 lanes"},
		{"a port that cannot be", edit(`"leaf_port": 3`, `"leaf_port": 256`), "read baseline: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := topology.ReadBaseline([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q, got %v", test.want, err)
			}
			if b != nil {
				t.Error("a baseline comes with the error")
			}
		})
	}
}

// Whatever the baseline says, it is refused or reads back the same, and fits
// any fabric without moving a number of its own.
func FuzzReadBaseline(f *testing.F) {
	fabric := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, Cables: 2, LMC: 1})
	b, err := topology.NewBaseline(fabric)
	if err != nil {
		f.Fatal(err)
	}
	text := string(b.Encode())
	f.Add([]byte(text))
	f.Add([]byte(text[:len(text)/2]))
	f.Add([]byte(strings.ReplaceAll(text, `"0x0000000000300001"`, `"0x0000000000100000"`))) // a host as a spine
	f.Add([]byte(strings.ReplaceAll(text, `"0x0000000000200001"`, `"0x0000000000100000"`))) // a host as a leaf
	f.Add([]byte(strings.ReplaceAll(text, `"leaf_port": 4`, `"leaf_port": 3`)))
	f.Add([]byte(strings.ReplaceAll(text, `"0x0000000000100003"`, `"0x0000000000000000"`)))
	f.Add([]byte(`{"version": 1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := topology.ReadBaseline(data)
		if err != nil {
			return
		}
		again, err := topology.ReadBaseline(b.Encode())
		if err != nil || !bytes.Equal(again.Encode(), b.Encode()) {
			t.Fatalf("reads back as %v (%v)", again, err)
		}
		ft, err := topology.Fit(fabric, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ft.Lanes != b.Lanes() || len(ft.Spines) != len(b.Spines) || len(ft.Leaves) < len(b.Leaves) {
			t.Fatalf("%d lanes, %d spines, %d leaves of %v", ft.Lanes, len(ft.Spines), len(ft.Leaves), b)
		}
		consistent(t, ft)
	})
}

// numbering is everything that must not move: the lane of every cable in the
// tree by its leaf end, and the index of every host port.
type numbering struct {
	Lanes  int
	Leaves []ib.GUID
	Spines []ib.GUID
	Cables map[cableAt]int // lane
	Alpha  map[hostAt]int
}

type cableAt struct {
	Leaf, Spine         ib.GUID
	LeafPort, SpinePort uint8
}

type hostAt struct{ Leaf, Port ib.GUID }

func numbersOf(ft *topology.FatTree) numbering {
	n := numbering{Lanes: ft.Lanes, Cables: map[cableAt]int{}, Alpha: map[hostAt]int{}}
	for l := range ft.Leaves {
		leaf := &ft.Leaves[l]
		n.Leaves = append(n.Leaves, leaf.GUID)
		for k, c := range leaf.Cables {
			if c.Usable() {
				n.Cables[cableAt{leaf.GUID, ft.Spines[ft.LaneOf[k]].GUID, c.LeafPort, c.SpinePort}] = k
			}
		}
	}
	for s := range ft.Spines {
		n.Spines = append(n.Spines, ft.Spines[s].GUID)
	}
	for _, h := range ft.Hosts {
		if h.Leaf >= 0 {
			n.Alpha[hostAt{ft.Leaves[h.Leaf].GUID, h.GUID}] = h.Alpha
		}
	}
	return n
}

// Nothing that was once numbered is ever numbered otherwise, whatever goes and
// comes.
func TestFitNeverRenumbers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		whole := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 4, Hosts: []int{3, 2}, Cables: rapid.IntRange(1, 2).Draw(rt, "cables"),
			LMC: 2, Shuffle: rapid.Uint64Range(0, 5).Draw(rt, "shuffle")})
		partly := func() *topology.Fabric {
			var gone []ib.GUID
			for i := range whole.Nodes {
				n := &whole.Nodes[i]
				if often := 4 + 4*int(n.Kind&topology.Switch); rapid.IntRange(0, often).Draw(rt, "gone") == 0 {
					gone = append(gone, n.GUID)
				}
			}
			f := without(t, whole, gone...)
			for range rapid.IntRange(0, 3).Draw(rt, "dead cables") {
				if len(f.Nodes) > 0 {
					node := rapid.IntRange(0, len(f.Nodes)-1).Draw(rt, "node")
					f.Disconnect(topology.PortRef{Node: int32(node), Port: uint8(rapid.IntRange(1, len(f.Nodes[node].Ports)-1).Draw(rt, "port"))})
				}
			}
			return f
		}
		b, err := topology.NewBaseline(partly())
		if err != nil {
			rt.Skip(err)
		}
		known := numbering{Lanes: b.Lanes(), Cables: map[cableAt]int{}, Alpha: map[hostAt]int{}}
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			ft, err := topology.Fit(partly(), b, nil)
			var verdict *topology.NotFatTree
			if errors.As(err, &verdict) {
				continue // most of it is new, and no tree
			}
			if err != nil {
				rt.Fatal(err)
			}
			consistent(rt, ft)
			now := numbersOf(ft)
			if now.Lanes != known.Lanes || !slices.Equal(now.Leaves[:len(known.Leaves)], known.Leaves) || len(known.Spines) > 0 && !slices.Equal(now.Spines, known.Spines) {
				rt.Fatalf("switches renumbered: %v, were %v", now, known)
			}
			keepsUplinks(rt, b, ft)
			for h, a := range now.Alpha {
				if old, ok := known.Alpha[h]; ok && old != a {
					rt.Fatalf("host %v has index %d, had %d", h, a, old)
				}
				known.Alpha[h] = a
			}
			known.Leaves, known.Spines, b = now.Leaves, now.Spines, ft.Baseline
			again, err := topology.ReadBaseline(b.Encode())
			if err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(string(b.Encode()), string(again.Encode())); diff != "" {
				rt.Fatal(diff)
			}
		}
	})
}

// keepsUplinks checks that what the baseline has of a lane stays, and that a
// cable in the baseline's ports has the baseline's lane.
func keepsUplinks(t *rapid.T, b *topology.Baseline, ft *topology.FatTree) {
	for l := range b.Leaves {
		for k, u := range b.Leaves[l].Uplinks {
			if u == (topology.Uplink{}) {
				continue
			}
			if now := ft.Baseline.Leaves[l].Uplinks[k]; now != u {
				t.Fatalf("lane %d of leaf %d was %v, is %v", k, l, u, now)
			}
			leaf, spine := ft.Leaves[l].Node, ft.Spines[ft.LaneOf[k]].Node
			if leaf == topology.None || spine == topology.None {
				continue
			}
			c := ft.Leaves[l].Cables[k]
			if p := ft.Fabric.At(topology.PortRef{Node: leaf, Port: u.LeafPort}); p.Up() && p.Peer == spine && p.PeerPort == u.SpinePort &&
				(c.LeafPort != u.LeafPort || c.SpinePort != u.SpinePort || !c.Usable()) {
				t.Fatalf("lane %d of leaf %d is %v though its cable is in %v", k, l, c, u)
			}
		}
	}
}
