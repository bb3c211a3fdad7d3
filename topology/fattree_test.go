package topology_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// hdr is the rate of generated cables.
var hdr = ib.Rate{Width: 4, Speed: ib.HDR}

// baselineOf recognises the tree in f.
func baselineOf(t testing.TB, f *topology.Fabric) *topology.Baseline {
	t.Helper()
	b, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fitted(t testing.TB, f *topology.Fabric, b *topology.Baseline) *topology.FatTree {
	t.Helper()
	ft, err := topology.Fit(f, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ft
}

// newFabric builds a new fabric from changed nodes.
func newFabric(t testing.TB, nodes []topology.Node) *topology.Fabric {
	t.Helper()
	f, err := topology.NewFabric(nodes, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// without takes nodes away, as a dump does that no longer lists them.
func without(t testing.TB, f *topology.Fabric, gone ...ib.GUID) *topology.Fabric {
	t.Helper()
	c := f.Clone()
	place := make([]int32, len(c.Nodes))
	var kept []topology.Node
	for i := range c.Nodes {
		if place[i] = int32(len(kept)); slices.Contains(gone, c.Nodes[i].GUID) {
			for p := range c.Nodes[i].Ports {
				c.Disconnect(topology.PortRef{Node: int32(i), Port: uint8(p)})
			}
			continue
		}
		kept = append(kept, c.Nodes[i])
	}
	for i := range kept {
		for p := range kept[i].Ports {
			if port := &kept[i].Ports[p]; port.Peer != topology.None {
				port.Peer = place[port.Peer]
			}
		}
	}
	return newFabric(t, kept)
}

// with adds a node without cables.
func with(t testing.TB, f *topology.Fabric, n topology.Node) *topology.Fabric {
	t.Helper()
	return newFabric(t, append(f.Clone().Nodes, n))
}

// bare is a switch without cables.
func bare(g ib.GUID, name string, lid ib.LID, ports int) topology.Node {
	n := topology.Node{Kind: topology.Switch, GUID: g, System: g, Name: name, Ports: make([]topology.Port, ports+1)}
	for p := range n.Ports {
		n.Ports[p].Peer = topology.None
	}
	n.Ports[0].GUID, n.Ports[0].LID, n.Ports[0].State = g, lid, topology.Active
	return n
}

// adapter is a host of one port without a cable.
func adapter(g ib.GUID, name string, lid ib.LID, lmc uint8) topology.Node {
	return topology.Node{Kind: topology.Adapter, GUID: g, System: g, Name: name,
		Ports: []topology.Port{{Peer: topology.None}, {Peer: topology.None, GUID: g + 1, LID: lid, LMC: lmc}}}
}

// ref names a port by GUID.
func ref(t testing.TB, f *topology.Fabric, g ib.GUID, port int) topology.PortRef {
	t.Helper()
	n := f.Find(g)
	if n == topology.None {
		t.Fatalf("no node %s", g)
	}
	return topology.PortRef{Node: n, Port: uint8(port)}
}

// codes lists the codes of the findings.
func codes(ft *topology.FatTree) []string {
	out := []string{}
	for _, f := range ft.Findings {
		out = append(out, f.Code)
	}
	return out
}

// found asserts the findings: pairs of a code and a part of its text.
func found(t testing.TB, ft *topology.FatTree, want ...string) {
	t.Helper()
	if len(ft.Findings) != len(want)/2 {
		t.Fatalf("want %d findings, got %v", len(want)/2, ft.Findings)
	}
	for i, f := range ft.Findings {
		if f.Code != want[2*i] || !strings.Contains(f.Text, want[2*i+1]) {
			t.Errorf("want finding %s with %q, got %s: %s", want[2*i], want[2*i+1], f.Code, f.Text)
		}
	}
}

// consistent checks a tree on its own: hosts in order, no index twice, cables
// where the fabric has them.
func consistent(t interface{ Fatalf(string, ...any) }, ft *topology.FatTree) {
	f := ft.Fabric
	used := map[[2]int]bool{}
	for i, h := range ft.Hosts {
		if at := f.At(h.PortRef); h.At != (topology.PortRef{Node: at.Peer, Port: at.PeerPort}) {
			t.Fatalf("host %s is not at %v", h.Name, h.At)
		}
		if h.Leaf < 0 {
			continue
		}
		if used[[2]int{h.Leaf, h.Alpha}] {
			t.Fatalf("index %d of leaf %d is taken twice", h.Alpha, h.Leaf)
		}
		used[[2]int{h.Leaf, h.Alpha}] = true
		if ft.Leaves[h.Leaf].Node != h.At.Node {
			t.Fatalf("host %s is on another leaf", h.Name)
		}
		if slot := ft.Baseline.Leaves[h.Leaf].Slots[h.Alpha]; slot.GUID != h.GUID || slot.LeafPort != h.At.Port {
			t.Fatalf("the baseline has %v for %s", slot, h.Name)
		}
		if i > 0 && (ft.Hosts[i-1].Leaf > h.Leaf || ft.Hosts[i-1].Leaf == h.Leaf && ft.Hosts[i-1].Alpha >= h.Alpha) {
			t.Fatalf("host %s is out of order", h.Name)
		}
	}
	taken := map[topology.PortRef]bool{}
	for l := range ft.Leaves {
		for k, c := range ft.Leaves[l].Cables {
			if !c.Usable() {
				if c.LeafPort != 0 || c.SpinePort != 0 {
					t.Fatalf("lane %d of leaf %d is %d and has ports", k, l, c.State)
				}
				continue
			}
			at := topology.PortRef{Node: ft.Leaves[l].Node, Port: c.LeafPort}
			if p := f.At(at); taken[at] || !p.Up() || p.Peer != ft.Spines[ft.LaneOf[k]].Node || p.PeerPort != c.SpinePort {
				t.Fatalf("lane %d of leaf %d is not the cable at %v", k, l, at)
			}
			taken[at] = true
		}
	}
}

func TestFitCables(t *testing.T) {
	const leaf1, spine0, spine1 = fabgen.LeafGUID + 1, fabgen.SpineGUID, fabgen.SpineGUID + 1
	plain := fabgen.Spec{Spines: 3, Leaves: 3, Hosts: []int{2}, LMC: 2}
	// Hosts are in leaf ports 1 and 2, lane k in leaf port 3+k.
	for _, test := range []struct {
		name   string
		spec   fabgen.Spec
		change func(t *testing.T, f *topology.Fabric)
		lanes  map[int]topology.CableState // of leaf 1, Full where not listed
		want   []string
	}{
		{"nothing", plain, func(*testing.T, *topology.Fabric) {}, nil, nil},
		{"dead cable", plain, func(t *testing.T, f *topology.Fabric) {
			f.Disconnect(ref(t, f, leaf1, 4))
		}, map[int]topology.CableState{1: topology.Missing}, []string{topology.CableDown, "Leaf001 port 4 – Spine001 port 2 is down"}},
		{"cable that is not active", plain, func(t *testing.T, f *topology.Fabric) {
			r := ref(t, f, leaf1, 4)
			peer := topology.PortRef{Node: f.At(r).Peer, Port: f.At(r).PeerPort}
			f.At(r).State, f.At(peer).State = topology.Init, topology.Init
		}, map[int]topology.CableState{1: topology.Missing}, []string{topology.CableDown, "Leaf001 port 4"}},
		{"slow cable", plain, func(t *testing.T, f *topology.Fabric) {
			f.At(ref(t, f, leaf1, 4)).Rate.Speed = ib.EDR
		}, map[int]topology.CableState{1: topology.Degraded}, []string{topology.CableDegraded, "Leaf001 port 4 – Spine001 port 2 runs at 4xEDR instead of 4xHDR"}},
		{"narrow cable, seen at the spine alone", plain, func(t *testing.T, f *topology.Fabric) {
			f.At(ref(t, f, spine1, 2)).Rate.Width = 1
		}, map[int]topology.CableState{1: topology.Degraded}, []string{topology.CableDegraded, "runs at 1xHDR instead of 4xHDR"}},
		{"unknown rate", plain, func(t *testing.T, f *topology.Fabric) {
			f.At(ref(t, f, leaf1, 4)).Rate = ib.Rate{}
		}, nil, nil},
		{"cable moved to a free leaf port", fabgen.Spec{Spines: 3, Leaves: 3, Hosts: []int{2}, Missing: [][2]int{{1, 1}}, LMC: 2}, func(t *testing.T, f *topology.Fabric) {
			f.Disconnect(ref(t, f, leaf1, 4))
			f.Connect(ref(t, f, leaf1, 2), ref(t, f, spine1, 2), hdr)
		}, nil, []string{topology.CableMoved, "Leaf001 – Spine001 is in ports 2 and 2: the baseline has it in 4 and 2"}},
		{"two cables swapped at the leaf", plain, func(t *testing.T, f *topology.Fabric) {
			f.Disconnect(ref(t, f, leaf1, 3))
			f.Disconnect(ref(t, f, leaf1, 4))
			f.Connect(ref(t, f, leaf1, 3), ref(t, f, spine1, 2), hdr)
			f.Connect(ref(t, f, leaf1, 4), ref(t, f, spine0, 2), hdr)
		}, nil, []string{topology.CableMoved, "Leaf001 – Spine001", topology.CableMoved, "Leaf001 – Spine000"}},
		{"cable to another spine", plain, func(t *testing.T, f *topology.Fabric) {
			f.Disconnect(ref(t, f, spine0, 1)) // a free port on spine 0
			f.Disconnect(ref(t, f, leaf1, 4))
			f.Connect(ref(t, f, leaf1, 4), ref(t, f, spine0, 1), hdr)
		}, map[int]topology.CableState{1: topology.Missing}, []string{topology.CableNew, "Leaf001 port 4 – Spine000 port 1 has no lane",
			topology.CableDown, "Leaf000 port 3", topology.CableDown, "Leaf001 port 4"}},
		{"cable between two leaves", plain, func(t *testing.T, f *topology.Fabric) {
			f.Disconnect(ref(t, f, leaf1, 5))
			f.Disconnect(ref(t, f, leaf1+1, 5))
			f.Connect(ref(t, f, leaf1, 5), ref(t, f, leaf1+1, 5), hdr)
		}, map[int]topology.CableState{2: topology.Missing}, []string{topology.CableDown, "Leaf001 port 5", topology.CableDown, "Leaf002 port 5",
			topology.PartlyCovered, "1 cable (Leaf001 port 5 – Leaf002 port 5 joins two leaves, and no path takes it)"}},
		{"one of two parallel cables dead", fabgen.Spec{Spines: 2, Leaves: 3, Hosts: []int{2}, Cables: 2, LMC: 2}, func(t *testing.T, f *topology.Fabric) {
			f.Disconnect(ref(t, f, leaf1, 3))
		}, map[int]topology.CableState{0: topology.Missing}, []string{topology.CableDown, "Leaf001 port 3 – Spine000 port 3 is down"}},
		{"parallel cables crossed at the spine", fabgen.Spec{Spines: 2, Leaves: 3, Hosts: []int{2}, Cables: 2, LMC: 2}, func(t *testing.T, f *topology.Fabric) {
			f.Disconnect(ref(t, f, leaf1, 3))
			f.Disconnect(ref(t, f, leaf1, 4))
			f.Connect(ref(t, f, leaf1, 3), ref(t, f, spine0, 4), hdr)
			f.Connect(ref(t, f, leaf1, 4), ref(t, f, spine0, 3), hdr)
		}, nil, []string{topology.CableMoved, "in ports 3 and 4", topology.CableMoved, "in ports 4 and 3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := fabgen.Generate(test.spec)
			b := baselineOf(t, f)
			saved := string(b.Encode())
			test.change(t, f)
			ft := fitted(t, f, b)
			consistent(t, ft)
			found(t, ft, test.want...)
			for k, c := range ft.Leaves[1].Cables {
				want, ok := test.lanes[k]
				if !ok {
					want = topology.Full
				}
				if c.State != want {
					t.Errorf("lane %d of leaf 1 is in state %d, want %d", k, c.State, want)
				}
				if ft.LaneUp(1, k) != (want == topology.Full) {
					t.Errorf("lane %d of leaf 1: LaneUp does not agree", k)
				}
			}
			if string(b.Encode()) != saved {
				t.Error("Fit has changed the baseline that it was given")
			}
		})
	}
}

func TestHold(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})
	b := baselineOf(t, f)
	f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: 3})
	ft := fitted(t, f, b)
	ft.Hold(0, 0)
	ft.Hold(0, 1)
	if got := []topology.CableState{ft.Leaves[0].Cables[0].State, ft.Leaves[0].Cables[1].State}; !slices.Equal(got, []topology.CableState{topology.Missing, topology.Degraded}) {
		t.Errorf("states after Hold: %v", got)
	}
}

func TestFitSwitches(t *testing.T) {
	spec := fabgen.Spec{Spines: 3, Leaves: 3, Hosts: []int{2}, LMC: 2}
	f := fabgen.Generate(spec)
	b := baselineOf(t, f)
	before := fitted(t, f, b)

	t.Run("spine goes and comes back", func(t *testing.T) {
		ft := fitted(t, without(t, f, fabgen.SpineGUID+1), b)
		consistent(t, ft)
		found(t, ft, topology.SpineDown, "Spine001 (0x0000000000300001) is absent")
		if ft.Lanes != 3 || ft.Spines[1].Node != topology.None || ft.Leaves[2].Cables[1].State != topology.Missing || !ft.LaneUp(2, 2) {
			t.Error("the other lanes have moved")
		}
		back := fitted(t, f, ft.Baseline)
		found(t, back)
		if diff := cmp.Diff(numbersOf(before), numbersOf(back)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("leaf goes and comes back", func(t *testing.T) {
		ft := fitted(t, without(t, f, fabgen.LeafGUID), b)
		consistent(t, ft)
		found(t, ft, topology.LeafDown, "Leaf000 (0x0000000000200000) is absent")
		if len(ft.Servers) != 4 || ft.Hosts[0].Leaf != 1 {
			t.Errorf("%d servers, the first on leaf %d", len(ft.Servers), ft.Hosts[0].Leaf)
		}
		back := fitted(t, f, ft.Baseline)
		found(t, back)
		if diff := cmp.Diff(numbersOf(before), numbersOf(back)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("leaf cut off", func(t *testing.T) {
		cut := f.Clone()
		for p := 3; p <= 5; p++ {
			cut.Disconnect(ref(t, cut, fabgen.LeafGUID, p))
		}
		ft := fitted(t, cut, b)
		consistent(t, ft)
		found(t, ft, topology.CableDown, "Leaf000 port 3", topology.CableDown, "Leaf000 port 4", topology.CableDown, "Leaf000 port 5")
		if diff := cmp.Diff(numbersOf(before).Alpha, numbersOf(ft).Alpha); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("new leaf", func(t *testing.T) {
		// Without one of the leaves at first; its GUID is below the others'.
		small := without(t, f, fabgen.LeafGUID, fabgen.HostGUID, fabgen.HostGUID+2)
		old := fitted(t, small, baselineOf(t, small))
		ft := fitted(t, f, old.Baseline)
		consistent(t, ft)
		found(t, ft, topology.LeafNew, "Leaf000 (0x0000000000200000) is new: it has index 2",
			topology.HostNew, "Hca0000 port 1 is new on Leaf000 port 1: it has index 0", topology.HostNew, "Hca0001 port 1 is new on Leaf000 port 2: it has index 1")
		if !slices.Equal(ft.Leaves[2].Cables, before.Leaves[0].Cables) || ft.Leaves[2].GUID != fabgen.LeafGUID {
			t.Error("the new leaf has other lanes")
		}
		found(t, fitted(t, f, ft.Baseline))
	})
	t.Run("new spine", func(t *testing.T) {
		old := fitted(t, without(t, f, fabgen.SpineGUID+1), baselineOf(t, without(t, f, fabgen.SpineGUID+1)))
		ft := fitted(t, f, old.Baseline)
		consistent(t, ft)
		found(t, ft, topology.SpineNew, "Spine001 (0x0000000000300001) is new: its lanes are used after forsctl baseline accept")
		if diff := cmp.Diff(numbersOf(old), numbersOf(ft)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("new leaf and new spine at once", func(t *testing.T) {
		small := without(t, f, fabgen.LeafGUID+2, fabgen.SpineGUID+2)
		ft := fitted(t, f, baselineOf(t, small))
		consistent(t, ft)
		got := codes(ft)
		slices.Sort(got)
		if !slices.Equal(got, []string{topology.HostNew, topology.HostNew, topology.LeafNew, topology.SpineNew}) || ft.Lanes != 2 || !ft.LaneUp(2, 1) {
			t.Errorf("%d lanes, findings %v", ft.Lanes, ft.Findings)
		}
	})
	t.Run("unknown switch", func(t *testing.T) {
		odd := with(t, f, bare(0x500000, "Odd", 200, 4))
		odd.Disconnect(ref(t, odd, fabgen.LeafGUID, 5))
		odd.Disconnect(ref(t, odd, fabgen.SpineGUID, 2))
		odd.Connect(ref(t, odd, 0x500000, 1), ref(t, odd, fabgen.LeafGUID, 5), hdr)
		odd.Connect(ref(t, odd, 0x500000, 2), ref(t, odd, fabgen.SpineGUID, 2), hdr)
		ft := fitted(t, odd, b)
		consistent(t, ft)
		last := ft.Findings[len(ft.Findings)-1]
		if len(ft.Leaves) != 3 || last.Code != topology.PartlyCovered || !strings.Contains(last.Text, "does not cover 1 switch (Odd (0x0000000000500000)):") {
			t.Errorf("findings %v", ft.Findings)
		}
	})
	t.Run("renamed switch", func(t *testing.T) {
		renamed := f.Clone()
		renamed.Nodes[renamed.Find(fabgen.LeafGUID+1)].Name = "rack/7; upper \"row\""
		if renamed.Hash() != f.Hash() {
			t.Error("the hash has changed")
		}
		ft := fitted(t, renamed, b)
		found(t, ft)
		if diff := cmp.Diff(numbersOf(before), numbersOf(ft)); diff != "" {
			t.Error(diff)
		}
		if ft.Leaves[1].Name != "rack/7; upper \"row\"" || ft.Baseline.Leaves[1].Name != ft.Leaves[1].Name {
			t.Errorf("the leaf is called %q", ft.Leaves[1].Name)
		}
	})
	t.Run("everything gone", func(t *testing.T) {
		ft := fitted(t, newFabric(t, nil), b)
		if len(ft.Findings) != 6 || len(ft.Servers) != 0 || ft.Lanes != 3 {
			t.Errorf("findings %v", ft.Findings)
		}
	})
}

// DLID and LIDLane are each other's inverse, and a host's first K LIDs take K
// different lanes.
func TestLIDLaneInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ft := &topology.FatTree{Lanes: rapid.IntRange(1, 140).Draw(t, "K")}
		h := &topology.Host{Alpha: rapid.IntRange(0, 300).Draw(t, "alpha")}
		h.LID, h.LMC = ib.LID(rapid.IntRange(1, 40000).Draw(t, "lid")), uint8(rapid.IntRange(0, ib.MaxLMC).Draw(t, "lmc"))
		open := 0
		for k := range ft.Lanes {
			lid, ok := ft.DLID(h, k)
			if !ok {
				continue
			}
			open++
			j := int(lid) - int(h.LID)
			if j < 0 || j >= min(ft.Lanes, 1<<h.LMC) || ft.LIDLane(h, j) != k {
				t.Fatalf("lane %d has offset %d, which has lane %d", k, j, ft.LIDLane(h, j))
			}
		}
		if open != min(ft.Lanes, 1<<h.LMC) {
			t.Fatalf("%d of %d lanes are open with LMC %d", open, ft.Lanes, h.LMC)
		}
	})
}

func TestLIDLaneOfOneLeaf(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Leaves: 1, Hosts: []int{3}, LMC: 1})
	ft := fitted(t, f, baselineOf(t, f))
	if k := ft.LIDLane(&ft.Hosts[2], 1); ft.Lanes != 0 || k != -1 {
		t.Errorf("LID 1 of host 2 has lane %d of %d", k, ft.Lanes)
	}
}

func TestFitExclude(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})
	ft, err := topology.Fit(f, baselineOf(t, f), regexp.MustCompile(`Hca000[03]`))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ft.Servers, []int{1, 2}) || len(ft.Hosts) != 4 {
		t.Errorf("servers %v of %d hosts", ft.Servers, len(ft.Hosts))
	}
}
