package verify

import (
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

func TestTablesAccepts(t *testing.T) {
	for name, test := range map[string]struct {
		spec   fabgen.Spec
		broken [][2]int
	}{
		"FT(2;4,3)":               {fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}, nil},
		"shuffled cabling":        {fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2, Shuffle: 3}, nil},
		"parallel cables":         {small, nil},
		"LMC 0":                   {fabgen.Spec{Spines: 4, Leaves: 3}, nil},
		"one leaf":                {fabgen.Spec{Spines: 4, Leaves: 1, LMC: 2}, nil},
		"no spine":                {fabgen.Spec{Leaves: 1, Hosts: []int{5}, LMC: 2}, nil},
		"one cable dead":          {fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}, [][2]int{{0, 1}}},
		"half a pair of cables":   {small, [][2]int{{0, 1}, {1, 0}}},
		"a leaf cut off":          {fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1}, [][2]int{{0, 0}, {0, 1}}},
		"two leaves without lane": {fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1}, [][2]int{{0, 0}, {1, 1}}},
		"a dead spine":            {fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1}, [][2]int{{0, 0}, {1, 0}, {2, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			ft := tree(t, test.spec, test.broken...)
			tables := naiveTables(ft)
			if err := Tables(ft, tables); err != nil {
				t.Error(err)
			}
			if err := slowTables(ft, tables); err != nil {
				t.Error("reference walker:", err)
			}
		})
	}
}

// relay writes entries by which a switch's own LID goes from one spine to the
// others down and up again through a leaf.
func relay(t *topology.FatTree, tables *lft.Tables, leaf int) {
	for i := range t.Spines {
		for j := range t.Spines {
			if i != j {
				lid := t.Fabric.Nodes[t.Spines[j].Node].LID()
				*out(t, tables, t.Spines[i].GUID, lid) = t.Leaves[leaf].Cables[t.Spines[i].First].SpinePort
			}
		}
	}
}

// Entries beyond the up-then-down paths are welcome while they lead home.
func TestTablesAcceptsRelay(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 3, Leaves: 3, LMC: 2}, [2]int{0, 1})
	tables := naiveTables(ft)
	relay(ft, tables, 2)
	// Leaf 0 has lost its cable to spine 1: up by spine 0, down to leaf 2, up.
	lid := ft.Fabric.Nodes[ft.Spines[1].Node].LID()
	*out(ft, tables, ft.Leaves[0].GUID, lid) = ft.Leaves[0].Cables[0].LeafPort
	if err := Tables(ft, tables); err != nil {
		t.Error(err)
	}
}

// Hosts on spines, and ports that no switch leads to.
func TestTablesStrangers(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3, LMC: 2})
	nodes := f.Clone().Nodes
	for i := range nodes {
		if nodes[i].GUID == fabgen.SpineGUID {
			nodes[i].Ports = append(nodes[i].Ports, topology.Port{Peer: topology.None})
		}
	}
	nodes = append(nodes, topology.Node{Kind: topology.Adapter, GUID: 0x400000, Name: "Storage", Ports: []topology.Port{
		{Peer: topology.None}, {Peer: topology.None, GUID: 0x400001, LID: 0x100, LMC: 2}, {Peer: topology.None, GUID: 0x400002, LID: 0x200, LMC: 2}}})
	f, err := topology.NewFabric(nodes, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Connect(topology.PortRef{Node: f.Find(0x400000), Port: 1}, topology.PortRef{Node: f.Find(fabgen.SpineGUID), Port: 4}, ib.Rate{})
	b, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	ft := fit(t, f, b)
	tables := naiveTables(ft)
	if err := Tables(ft, tables); err != nil {
		t.Fatal(err)
	}
	if err := slowTables(ft, tables); err != nil {
		t.Fatal("reference walker:", err)
	}
	*out(ft, tables, fabgen.LeafGUID+1, 0x102) = lft.NoPath
	refused(t, Tables(ft, tables), LIDMissing, NoPhase, "Leaf001 has no entry for LID 258 of Storage port 1")
}

func TestTablesRefuses(t *testing.T) {
	const leaf0, leaf1, leaf2, spine0, spine1 = fabgen.LeafGUID, fabgen.LeafGUID + 1, fabgen.LeafGUID + 2, fabgen.SpineGUID, fabgen.SpineGUID + 1
	type fixture struct {
		*testing.T
		ft     *topology.FatTree
		tables *lft.Tables
	}
	// FT(2;3,3): hosts in leaf ports 1–3, lane k in leaf port 4+k and spine port
	// 1+leaf. Server 3, the first of leaf 1, has LIDs 20–23.
	for _, test := range []struct {
		name, code string
		change     func(f *fixture)
		words      []string
	}{
		{"missing LID", LIDMissing, func(f *fixture) {
			*out(f.ft, f.tables, leaf0, 22) = lft.NoPath
		}, []string{"Leaf000 has no entry for LID 22 of Hca0003 port 1"}},
		{"missing LID at a spine", LIDMissing, func(f *fixture) {
			*out(f.ft, f.tables, spine1, 20) = lft.NoPath
		}, []string{"Spine001 has no entry for LID 20 of Hca0003 port 1"}},
		{"missing switch LID", LIDMissing, func(f *fixture) {
			*out(f.ft, f.tables, leaf0, 5) = lft.NoPath
		}, []string{"Leaf000 has no entry for LID 5 of Spine001"}},
		{"own LID missing", LIDMissing, func(f *fixture) {
			*out(f.ft, f.tables, leaf0, 1) = lft.NoPath
		}, []string{"Leaf000 has no entry for LID 1 of Leaf000"}},
		{"missing LID over a degraded cable", LIDMissing, func(f *fixture) {
			for k := range f.ft.Lanes {
				f.ft.Hold(0, k)
			}
			*out(f.ft, f.tables, leaf0, 22) = lft.NoPath
		}, []string{"Leaf000 has no entry for LID 22"}},
		{"short table", LIDMissing, func(f *fixture) {
			table := &f.tables.Switches[f.tables.Find(leaf2)]
			table.Out = table.Out[:23]
		}, []string{"Leaf002 has no entry for LID 23 of Hca0003 port 1"}},
		{"no table", TableMissing, func(f *fixture) {
			i := f.tables.Find(leaf2)
			f.tables.Switches = slices.Delete(f.tables.Switches, i, i+1)
		}, []string{"switch Leaf002 (0x0000000000200002) has no table"}},
		{"down port", DownPort, func(f *fixture) {
			f.ft.Fabric.Disconnect(topology.PortRef{Node: f.ft.Leaves[0].Node, Port: 5})
			f.ft = fit(f.T, f.ft.Fabric, f.ft.Baseline)
		}, []string{"Spine001 sends LID 1 of Leaf000 to a dead port: Spine001 port 1 is down: it has no cable"}},
		{"down port to a LID out of reach", DownPort, func(f *fixture) {
			f.ft.Fabric.Disconnect(topology.PortRef{Node: f.ft.Leaves[1].Node, Port: 4})
			f.ft = fit(f.T, f.ft.Fabric, f.ft.Baseline)
			f.tables = naiveTables(f.ft)
			*out(f.ft, f.tables, spine0, 20) = 2
		}, []string{"Spine000 sends LID 20 of Hca0003 port 1 to a dead port: Spine000 port 2"}},
		{"port beyond the switch", NoSuchPort, func(f *fixture) {
			*out(f.ft, f.tables, spine0, 20) = 4
		}, []string{"Spine000 sends LID 20 of Hca0003 port 1 to a dead port: Spine000 has no port 4: it has 3 ports"}},
		{"last port of all", NoSuchPort, func(f *fixture) {
			*out(f.ft, f.tables, spine0, 20) = 254
		}, []string{"Spine000 has no port 254"}},
		{"routing loop", Loop, func(f *fixture) {
			*out(f.ft, f.tables, spine1, 21) = 1 // back to leaf 0, which sends it up there
		}, []string{"LID 21 of Hca0003 port 1 from Leaf000 never arrives: Leaf000 port 5, Spine001 port 1, back at Leaf000"}},
		{"loop of a LID out of reach", Loop, func(f *fixture) {
			*out(f.ft, f.tables, spine0, 5) = 1
			*out(f.ft, f.tables, leaf0, 5) = 4
		}, []string{"LID 5 of Spine001 from Leaf000 never arrives"}},
		{"black hole", BlackHole, func(f *fixture) {
			// Spine 0 may be without a route to spine 1, so no entry is missing there.
			*out(f.ft, f.tables, leaf0, 5) = 4
		}, []string{"LID 5 of Spine001 from Leaf000 is lost: Spine000 has no entry for it (Leaf000 port 4, Spine000)"}},
		{"misdelivered", Misdelivered, func(f *fixture) {
			*out(f.ft, f.tables, leaf1, 20) = 2
		}, []string{"Leaf001 delivers LID 20 of Hca0003 port 1 to Hca0004 port 1 by port 2"}},
		{"misdelivered to the first host", Misdelivered, func(f *fixture) {
			*out(f.ft, f.tables, leaf0, 9) = 2
			*out(f.ft, f.tables, leaf0, 12) = 1
		}, []string{"Leaf000 delivers LID 9 of Hca0000 port 1 to Hca0001 port 1 by port 2"}},
		{"another's LID to the first host", Misdelivered, func(f *fixture) {
			*out(f.ft, f.tables, leaf0, 12) = 1
		}, []string{"Leaf000 delivers LID 12 of Hca0001 port 1 to Hca0000 port 1 by port 1"}},
		{"no table of two switches, one of them the first", TableMissing, func(f *fixture) {
			f.tables.Switches = f.tables.Switches[2:]
		}, []string{"switch Leaf000 (0x0000000000200000) has no table"}},
		{"port 0 for another's LID", Misdelivered, func(f *fixture) {
			*out(f.ft, f.tables, leaf1, 20) = 0
		}, []string{"Leaf001 delivers LID 20 of Hca0003 port 1 to Leaf001 by port 0"}},
		{"own LID sent away", Loop, func(f *fixture) {
			*out(f.ft, f.tables, leaf1, 2) = 4
		}, []string{"LID 2 of Leaf001", "never arrives"}},
		{"deadlock through two relays", Deadlock, func(f *fixture) {
			// LIDs 32 and 33 of a host on leaf 2 are on lanes 0 and 1. Spine 0
			// sends LID 33 home by leaf 1 and spine 1, spine 1 sends LID 32 home
			// by leaf 0 and spine 0. Every LID arrives.
			*out(f.ft, f.tables, spine0, 33) = 2
			*out(f.ft, f.tables, spine1, 32) = 1
		}, []string{"the channel dependency graph has a cycle: Leaf000 port 4 waits for Spine000 port 2 with LID 20, Spine000 port 2 waits for Leaf001 port 5 with LID 33, ",
			"Leaf001 port 5 waits for Spine001 port 1 with LID 9, Spine001 port 1 waits for Leaf000 port 4 with LID 32"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ft := tree(t, fabgen.Spec{Spines: 3, Leaves: 3, LMC: 2})
			f := &fixture{t, ft, naiveTables(ft)}
			if err := Tables(f.ft, f.tables); err != nil {
				t.Fatal(err)
			}
			test.change(f)
			err := Tables(f.ft, f.tables)
			refused(t, err, test.code, NoPhase, test.words...)
			if n := strings.Count(err.Error(), " waits for "); test.code == Deadlock && (n != 4 || strings.Contains(err.Error(), ",  (")) {
				t.Errorf("%d channels in %q, want 4", n, err)
			}
			if slowTables(f.ft, f.tables) == nil {
				t.Error("the reference walker accepts it")
			}
		})
	}
}

// One relay leaf is safe, two are not.
func TestTablesRefusesTwoRelays(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 3, Leaves: 3, LMC: 2})
	tables := naiveTables(ft)
	relay(ft, tables, 2)
	if err := Tables(ft, tables); err != nil {
		t.Fatal(err)
	}
	for i, leaf := range []int{0, 1} {
		lid := ft.Fabric.Nodes[ft.Spines[1-i].Node].LID()
		*out(ft, tables, ft.Spines[i].GUID, lid) = ft.Leaves[leaf].Cables[i].SpinePort
	}
	refused(t, Tables(ft, tables), Deadlock, NoPhase)
}

// TestTablesCutOff cuts all cables from the first switch to others. Entries that the other
// switches need are still required; entries for the first switch are not.
func TestTablesCutOff(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1}, [2]int{0, 0}, [2]int{0, 1})
	tables := naiveTables(ft)
	if err := Tables(ft, tables); err != nil {
		t.Fatal(err)
	}
	lid := ft.Hosts[ft.Servers[4]].LID
	*out(ft, tables, fabgen.LeafGUID+1, lid) = lft.NoPath
	refused(t, Tables(ft, tables), LIDMissing, NoPhase, "Leaf001 has no entry for LID")
}

// TestTablesManyPorts finds a ring over ports with high numbers, and takes the entry 255 for
// none where a switch has so many ports.
func TestTablesManyPorts(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 3, Leaves: 70, Hosts: []int{1}, LMC: 2})
	tables := naiveTables(ft)
	if err := Tables(ft, tables); err != nil {
		t.Fatal(err)
	}
	host := &ft.Hosts[ft.Servers[5]]
	// Leaves 63 and 64 are at ports 64 and 65 of spines.
	for j := range 1 << host.LMC {
		switch ft.LIDLane(host, j) {
		case 1:
			*out(ft, tables, fabgen.SpineGUID, host.LID+ib.LID(j)) = 64
		case 0:
			*out(ft, tables, fabgen.SpineGUID+1, host.LID+ib.LID(j)) = 65
		}
	}
	if n := strings.Count(Tables(ft, tables).Error(), " waits for "); n != 4 {
		t.Errorf("a ring of %d channels, want 4", n)
	}
	refused(t, Tables(ft, tables), Deadlock, NoPhase, "Spine000 port 64 waits for Leaf063 port 3", "Spine001 port 65 waits for Leaf064 port 2")

	ft = tree(t, fabgen.Spec{Spines: 1, Leaves: 255, Hosts: []int{1}})
	if ft.Fabric.At(topology.PortRef{Node: ft.Spines[0].Node, Port: 255}).Peer < 0 {
		t.Fatal("the spine has no cable at port 255")
	}
	n := newNetwork(ft.Fabric, naiveTables(ft))
	s := n.switchOf[ft.Spines[0].Node]
	if n.next[s<<portBits|255] != nowhere || n.next[s<<portBits|254] == nowhere {
		t.Error("the entry 255 leads over a cable")
	}
}

// TestTablesByRank gives ranks to a row of switches, the upper ones with the lower GUIDs.
func TestTablesByRank(t *testing.T) {
	const n = 5
	ask := func(lift func(switches []int32), spoil func(tables *lft.Tables)) error {
		f, tables, _ := chain(t, n)
		rank := make([]int32, len(f.Nodes))
		lift(rank[:n])
		spoil(tables)
		return TablesByRank(f, rank, tables)
	}
	// A way leads up and then down over the switch with the lowest GUID, S0, which is on top.
	top := func(r []int32) { copy(r, []int32{4, 3, 2, 1, 0}) }
	none := func(*lft.Tables) {}
	if err := ask(top, none); err != nil {
		t.Error(err)
	}
	refused(t, ask(top, func(x *lft.Tables) { x.Switches[4].Out[100] = lft.NoPath }), LIDMissing, NoPhase, "S4 has no entry for LID 100 of H0 port 1")
	refused(t, ask(top, func(x *lft.Tables) { x.Switches[0].Out[108] = lft.NoPath }), LIDMissing, NoPhase, "S0 has no entry for LID 108 of H4 port 1")
	refused(t, ask(top, func(x *lft.Tables) { x.Switches[1].Out[100] = lft.NoPath }), LIDMissing, NoPhase, "S1 has no entry for LID 100 of H0 port 1")
	// Over S2 alone, with the ends on top, nothing leads up and down from S0 to S4.
	without := func(x *lft.Tables) {
		for _, lid := range []int{5, 108, 109} {
			x.Switches[0].Out[lid], x.Switches[1].Out[lid] = lft.NoPath, lft.NoPath
		}
	}
	valley := func(r []int32) { copy(r, []int32{2, 1, 0, 1, 2}) }
	if err := ask(valley, without); err != nil {
		t.Error(err)
	}
	if err := ask(func(r []int32) { copy(r, []int32{0, 0, 1, 2, 3}) }, func(x *lft.Tables) { // S0 and S1 are on one level
		for lid := range x.Switches[0].Out {
			if lid != 1 && lid != 100 && lid != 101 {
				x.Switches[0].Out[lid] = lft.NoPath
			}
		}
		for i := 1; i < n; i++ {
			for _, lid := range []int{1, 100, 101} {
				x.Switches[i].Out[lid] = lft.NoPath
			}
		}
	}); err != nil {
		t.Error(err)
	}
	// The first switch is not reached from S2, and S1 is from both.
	refused(t, ask(func(r []int32) { copy(r, []int32{1, 0, 1, 0, 1}) }, func(x *lft.Tables) {
		for i := 2; i < n; i++ {
			x.Switches[i].Out[102] = lft.NoPath
		}
	}), LIDMissing, NoPhase, "S2 has no entry for LID 102 of H1 port 1")
	// The other way round every two are joined by ways up and down.
	peak := func(r []int32) { copy(r, []int32{0, 1, 2, 1, 0}) }
	if err := ask(peak, none); err != nil {
		t.Error(err)
	}
	refused(t, ask(peak, without), LIDMissing, NoPhase, "S0 has no entry for LID 5 of S4")
}

// TestSwitchesFirst has the switches have the lowest GUIDs, so that the first node is one.
func TestSwitchesFirst(t *testing.T) {
	f, tables, servers := chain(t, 4)
	rank := []int32{0, 1, 1, 0, 0, 0, 0, 0}
	tables.Switches[0].Out[102] = 0
	err := TablesByRank(f, rank, tables)
	refused(t, err, Misdelivered, NoPhase, "S0 delivers LID 102 of H1 port 1 to S0 by port 0")
	w, err := NewWalk(f, tables, servers)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, w.Phase([]Transfer{{0, 1, 102}}), WrongDestination, 0, "comes to S0")
}
