package verify

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// small is FT(2;3,4) with two cables between a leaf and a spine: six lanes, six
// hosts a leaf, 24 servers.
var small = fabgen.Spec{Spines: 3, Leaves: 4, Hosts: []int{6}, Cables: 2, LMC: 3}

// refused asserts that err is a violation with the code, phase and words.
func refused(t *testing.T, err error, code string, phase int, words ...string) {
	t.Helper()
	var v *Violation
	if !errors.As(err, &v) {
		t.Fatalf("want a violation %s, got %v", code, err)
	}
	if v.Code != code || v.Phase != phase {
		t.Errorf("want code %s in phase %d, got %s in phase %d: %v", code, phase, v.Code, v.Phase, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("want %q in %q", w, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	t.Log(err)
}

func TestPlanAcceptsLinearShift(t *testing.T) {
	for name, spec := range map[string]fabgen.Spec{
		"FT(2;4,3)":            {Spines: 4, Leaves: 3, LMC: 2},
		"shuffled cabling":     {Spines: 4, Leaves: 3, LMC: 2, Shuffle: 7},
		"parallel cables":      small,
		"three populations":    {Spines: 4, Leaves: 3, Hosts: []int{4, 2, 3}, LMC: 2},
		"one leaf":             {Spines: 4, Leaves: 1, LMC: 2},
		"no spine":             {Leaves: 1, Hosts: []int{5}, LMC: 2},
		"one server":           {Spines: 2, Leaves: 2, Hosts: []int{1, 0}, LMC: 1},
		"LMC 0":                {Spines: 4, Leaves: 3},
		"more LIDs than lanes": {Spines: 3, Leaves: 3, LMC: 4},
	} {
		t.Run(name, func(t *testing.T) {
			ft := tree(t, spec)
			tables, rows := naiveTables(ft), linearShift(ft)
			// Unequal populations break the shift over the hosts present: one
			// transfer a phase is a valid plan for every tree.
			if len(spec.Hosts) > 1 {
				rows, _ = oneByOne(ft)
			}
			if err := Plan(ft, tables, rows, nil); err != nil {
				t.Error(err)
			}
			if err := slowPlan(ft, tables, rows, nil); err != nil {
				t.Error("reference walker:", err)
			}
		})
	}
}

func TestPlanAcceptsDamage(t *testing.T) {
	// Leaf 0 keeps lane 0, leaf 1 lane 1: no lane joins them.
	ft := tree(t, fabgen.Spec{Spines: 3, Leaves: 3, LMC: 2}, [][2]int{{0, 1}, {0, 2}, {1, 0}, {1, 2}}...)
	tables := naiveTables(ft)
	rows, unreachable := oneByOne(ft)
	if len(unreachable) != 18 {
		t.Fatalf("want 2·3·3 pairs without a lane, got %d", len(unreachable))
	}
	if err := Plan(ft, tables, rows, unreachable); err != nil {
		t.Error(err)
	}
	refused(t, Plan(ft, tables, rows, unreachable[1:]), PairMissing, NoPhase, "Hca0000 port 1 → Hca0003 port 1 is in no phase")
	refused(t, Plan(ft, tables, rows, append(slices.Clone(unreachable), unreachable[4])), PairTwice, NoPhase, "Hca0001 port 1 → Hca0004 port 1 is called unreachable twice")
}

// A destination with too few LIDs is out of reach of the lanes it has no LID
// for, though they are up.
func TestPlanAcceptsClosedLanes(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 3, Leaves: 2}, [2]int{0, 1})
	rows, unreachable := oneByOne(ft)
	if len(unreachable) != 6 { // host 1 of each leaf from the three of the other
		t.Fatalf("want 6 pairs without a lane, got %v", unreachable)
	}
	if err := Plan(ft, naiveTables(ft), rows, unreachable); err != nil {
		t.Error(err)
	}
}

// find returns the first element of the rows that fits.
func find(t *testing.T, r Rows, servers int, fits func(ph, src, dst int) bool) (i, ph int) {
	t.Helper()
	for i, d := range r.To {
		if d != Idle && fits(i/servers, i%servers, int(d)) {
			return i, i / servers
		}
	}
	t.Fatal("no such transfer")
	return 0, 0
}

// out gives a table's entry to change.
func out(_ *topology.FatTree, tables *lft.Tables, guid ib.GUID, lid ib.LID) *uint8 {
	return &tables.Switches[tables.Find(guid)].Out[lid]
}

func TestPlanRefuses(t *testing.T) {
	const leaf0, leaf1, spine0, spine1 = fabgen.LeafGUID, fabgen.LeafGUID + 1, fabgen.SpineGUID, fabgen.SpineGUID + 1
	type fixture struct {
		*testing.T
		ft          *topology.FatTree
		tables      *lft.Tables
		rows        Rows
		unreachable [][2]int32
	}
	host := func(f *fixture, s int) *topology.Host { return &f.ft.Hosts[f.ft.Servers[s]] }
	// In linear shift on FT(2;4,3), phase 0 holds one transfer from leaf 0 to
	// leaf 1: server 3 to server 4 over lane 0. Phase 3 sends server 0 to server 4
	// over lane 0 and server 1 to server 5 over lane 1.
	at := func(f *fixture, ph, s int) int { return ph*len(f.ft.Servers) + s }
	for _, test := range []struct {
		name, code string
		phase      int
		change     func(f *fixture)
		words      []string
	}{
		{"swapped destinations", WrongDLID, 3, func(f *fixture) {
			f.rows.To[at(f, 3, 0)], f.rows.To[at(f, 3, 1)] = f.rows.To[at(f, 3, 1)], f.rows.To[at(f, 3, 0)]
		}, []string{"Hca0000 port 1 → Hca0005 port 1 by LID 24", "the LIDs of Hca0005 port 1 are 28–31"}},
		{"swapped destinations with their LIDs", PairTwice, 3, func(f *fixture) {
			i, j := at(f, 3, 0), at(f, 3, 1)
			f.rows.To[i], f.rows.To[j] = f.rows.To[j], f.rows.To[i]
			f.rows.DLID[i], f.rows.DLID[j] = f.rows.DLID[j], f.rows.DLID[i]
			f.rows.Lane[i], f.rows.Lane[j] = f.rows.Lane[j], f.rows.Lane[i]
		}, []string{"Hca0001 port 1 → Hca0004 port 1 has had its transfer in phase 2"}},
		{"missing pair", PairMissing, NoPhase, func(f *fixture) {
			f.rows.To[at(f, 3, 1)] = Idle
		}, []string{"Hca0001 port 1 → Hca0005 port 1 is in no phase"}},
		{"missing phase", PairMissing, NoPhase, func(f *fixture) {
			n := len(f.ft.Servers) * (f.rows.Phases - 1)
			f.rows = Rows{f.rows.Phases - 1, f.rows.To[:n], f.rows.Lane[:n], f.rows.DLID[:n]}
		}, []string{"is in no phase"}},
		{"two transfers on a link", LinkTwice, 3, func(f *fixture) {
			// Server 1 takes lane 0 to server 5 as server 0 does to server 4.
			f.rows.Lane[at(f, 3, 1)], f.rows.DLID[at(f, 3, 1)] = 0, host(f, 5).LID+3
		}, []string{"the link Leaf000 port 5 – Spine000 port 1 carries both Hca0000 port 1 → Hca0004 port 1 by LID 24 and Hca0001 port 1 → Hca0005 port 1 by LID 31"}},
		{"two transfers on a link up alone", LinkTwice, 3, func(f *fixture) {
			// Server 1 takes lane 0 to server 9 of leaf 2, whose own transfers of the phase are left out.
			f.rows.To[at(f, 3, 1)], f.rows.Lane[at(f, 3, 1)], f.rows.DLID[at(f, 3, 1)] = 9, 0, host(f, 9).LID+3
		}, []string{"the link Leaf000 port 5 – Spine000 port 1 carries both Hca0000 port 1 → Hca0004 port 1 by LID 24 and Hca0001 port 1 → Hca0009 port 1 by LID 47"}},
		{"two transfers on a link down alone", LinkTwice, 3, func(f *fixture) {
			f.rows.To[at(f, 3, 8)], f.rows.Lane[at(f, 3, 8)], f.rows.DLID[at(f, 3, 8)] = 7, 0, host(f, 7).LID+1
			f.rows.To[at(f, 3, 3)] = Idle
		}, []string{"the link Spine000 port 2 – Leaf001 port 5 carries both Hca0000 port 1 → Hca0004 port 1 by LID 24 and Hca0008 port 1 → Hca0007 port 1 by LID 37"}},
		{"an idle server that has had the link", LinkTwice, 3, func(f *fixture) {
			f.rows.To[at(f, 3, 0)], f.rows.DLID[at(f, 3, 0)] = Idle, host(f, 5).LID
			f.rows.Lane[at(f, 3, 2)], f.rows.DLID[at(f, 3, 2)] = 1, host(f, 6).LID+3
		}, []string{"carries both Hca0001 port 1 → Hca0005 port 1 by LID 28 and Hca0002 port 1 → Hca0006 port 1 by LID 35"}},
		{"the next server's LID, delivered here", WrongDLID, 0, func(f *fixture) {
			*out(f.ft, f.tables, leaf1, host(f, 5).LID) = 1
			f.rows.Lane[at(f, 0, 3)], f.rows.DLID[at(f, 0, 3)] = 1, host(f, 5).LID
		}, []string{"Hca0003 port 1 → Hca0004 port 1 by LID 28: the LIDs of Hca0004 port 1 are 24–27"}},
		{"a LID before the destination's, delivered here", WrongDLID, 0, func(f *fixture) {
			*out(f.ft, f.tables, leaf1, host(f, 4).LID-1) = 1
			for _, sw := range []ib.GUID{leaf0, spine0} {
				*out(f.ft, f.tables, sw, host(f, 4).LID-1) = *out(f.ft, f.tables, sw, host(f, 4).LID)
			}
			f.rows.DLID[at(f, 0, 3)] = host(f, 4).LID - 1
		}, []string{"Hca0003 port 1 → Hca0004 port 1 by LID 23"}},
		{"wrong DLID to the first server", WrongDLID, 0, func(f *fixture) {
			f.rows.DLID[at(f, 0, 11)] = 7
		}, []string{"Hca0011 port 1 → Hca0000 port 1 by LID 7: the LIDs of Hca0000 port 1 are 8–11"}},
		{"wrong lane from the last leaf", WrongLane, 0, func(f *fixture) {
			f.rows.Lane[at(f, 0, 11)] = 2
		}, []string{"Hca0011 port 1 → Hca0000 port 1 by LID 8 has lane 2, which is Leaf002 port 7, then Spine002 port 1: the tables lead over Leaf002 port 5, Spine000 port 1, Leaf000 port 1"}},
		{"lane beyond the tree from the last leaf", NotLocal, 0, func(f *fixture) {
			f.rows.Lane[at(f, 0, 11)] = 4
		}, []string{"has lane 4: want 0 to 3"}},
		{"an entry that leads to another spine, once a lane of the LID is known", NoEntry, 3, func(f *fixture) {
			// Server 3 has sent by lane 2 to the LID by which server 8 sends by lane 3, over a
			// spine that has no entry.
			lid := host(f, 4).LID + 2
			f.rows.Lane[at(f, 0, 3)], f.rows.DLID[at(f, 0, 3)] = 2, lid
			*out(f.ft, f.tables, leaf0+2, lid) = 8
			*out(f.ft, f.tables, spine0+3, lid) = lft.NoPath
			f.rows.To[at(f, 3, 0)], f.rows.To[at(f, 3, 3)], f.rows.To[at(f, 7, 8)], f.rows.To[at(f, 3, 8)] = Idle, Idle, Idle, 4
			f.rows.Lane[at(f, 3, 8)], f.rows.DLID[at(f, 3, 8)] = 3, lid
		}, []string{"Hca0008 port 1 → Hca0004 port 1 by LID 26 is lost: Spine003 has no entry for it"}},
		{"receives twice", ReceivesTwice, 3, func(f *fixture) {
			f.rows.To[at(f, 3, 1)], f.rows.DLID[at(f, 3, 1)] = 4, host(f, 4).LID+1
		}, []string{"Hca0004 port 1 receives from both Hca0000 port 1 and Hca0001 port 1"}},
		{"wrong DLID", WrongDLID, 3, func(f *fixture) {
			f.rows.DLID[at(f, 3, 0)] = host(f, 4).LID + 4
		}, []string{"Hca0000 port 1 → Hca0004 port 1 by LID 28", "24–27"}},
		{"DLID of another lane", WrongLane, 3, func(f *fixture) {
			f.rows.DLID[at(f, 3, 0)]++
		}, []string{"has lane 0, which is Leaf000 port 5, then Spine000 port 2: the tables lead over Leaf000 port 6, Spine001 port 2, Leaf001 port 1"}},
		{"wrong lane", WrongLane, 3, func(f *fixture) {
			f.rows.Lane[at(f, 3, 0)] = 2
		}, []string{"has lane 2"}},
		{"lane beyond the tree", NotLocal, 3, func(f *fixture) {
			f.rows.Lane[at(f, 3, 0)] = 4
		}, []string{"has lane 4: want 0 to 3"}},
		{"local lane between leaves", NotLocal, 3, func(f *fixture) {
			f.rows.Lane[at(f, 3, 0)] = Local
		}, []string{"goes from leaf Leaf000 to leaf Leaf001 and has lane -1"}},
		{"lane on a local transfer", NotLocal, 0, func(f *fixture) {
			f.rows.Lane[at(f, 0, 0)] = 0
		}, []string{"stays on leaf Leaf000 and has lane 0"}},
		{"local transfer by another LID", WrongDLID, 0, func(f *fixture) {
			f.rows.DLID[at(f, 0, 0)]++
		}, []string{"want the base LID 12"}},
		{"lane held back", LaneDown, 0, func(f *fixture) {
			f.ft.Hold(1, 0)
		}, []string{"has lane 0, which is not up at full rate at leaf Leaf001"}},
		{"entry into a down port", DownPort, 0, func(f *fixture) {
			f.ft.Fabric.Disconnect(topology.PortRef{Node: f.ft.Leaves[0].Node, Port: 5})
			f.ft = fit(f.T, f.ft.Fabric, f.ft.Baseline)
		}, []string{"Hca0003 port 1 → Hca0004 port 1 by LID 24 is lost: Leaf000 port 5 is down: it has no cable"}},
		{"port not active", DownPort, 0, func(f *fixture) {
			f.ft.Fabric.Nodes[f.ft.Leaves[0].Node].Ports[5].State = topology.Init
		}, []string{"Leaf000 port 5 is down"}},
		{"port beyond the switch", NoSuchPort, 0, func(f *fixture) {
			*out(f.ft, f.tables, leaf0, host(f, 4).LID) = 9
		}, []string{"Leaf000 has no port 9: it has 8 ports"}},
		{"no entry", NoEntry, 0, func(f *fixture) {
			*out(f.ft, f.tables, spine0, host(f, 4).LID) = lft.NoPath
		}, []string{"is lost: Spine000 has no entry for it"}},
		{"table too short", NoEntry, 0, func(f *fixture) {
			table := &f.tables.Switches[f.tables.Find(leaf0)]
			table.Out = table.Out[:host(f, 4).LID]
		}, []string{"is lost: Leaf000 has no entry for it"}},
		{"no table", NoEntry, 1, func(f *fixture) {
			i := f.tables.Find(spine1)
			f.tables.Switches = slices.Delete(f.tables.Switches, i, i+1)
		}, []string{"is lost: Spine001 has no entry for it"}},
		{"routing loop", Loop, 0, func(f *fixture) {
			*out(f.ft, f.tables, spine0, host(f, 4).LID) = 1 // back down to leaf 0
		}, []string{"never arrives: Leaf000 port 5, Spine000 port 1, back at Leaf000"}},
		{"wrong destination", WrongDestination, 0, func(f *fixture) {
			*out(f.ft, f.tables, leaf1, host(f, 4).LID) = 2
		}, []string{"Hca0003 port 1 → Hca0004 port 1 by LID 24 ends at Hca0005 port 1"}},
		{"the switch itself", WrongDestination, 0, func(f *fixture) {
			*out(f.ft, f.tables, leaf1, host(f, 4).LID) = 0
		}, []string{"ends at Leaf001"}},
		{"detour", WrongLane, 0, func(f *fixture) {
			lid := host(f, 4).LID
			*out(f.ft, f.tables, spine0, lid) = 3 // to leaf 2, which sends it up to spine 1
			*out(f.ft, f.tables, leaf0+2, lid) = 6
		}, []string{"Leaf000 port 5, Spine000 port 3, Leaf002 port 6, Spine001 port 2, Leaf001 port 1"}},
		{"local transfer over a spine", WrongLane, 0, func(f *fixture) {
			ghost := *f.ft // the host claims to be on leaf 0 though its cable is in leaf 1
			f.ft = &ghost
			f.ft.Hosts = slices.Clone(f.ft.Hosts)
			host(f, 4).Leaf = 0
			i, j := at(f, 3, 0), at(f, 0, 0)
			f.rows.To[j], f.rows.To[i] = 4, 1
			f.rows.DLID[j], f.rows.DLID[i] = f.rows.DLID[i], f.rows.DLID[j]
		}, []string{"leaves the leaf that both are on"}},
		{"unreachable claimed falsely", NotUnreachable, NoPhase, func(f *fixture) {
			f.unreachable = [][2]int32{{0, 4}}
		}, []string{"Hca0000 port 1 → Hca0004 port 1 is called unreachable: lane 0 is up at both leaves, Leaf000 and Leaf001"}},
		{"unreachable on one leaf", NotUnreachable, NoPhase, func(f *fixture) {
			f.unreachable = [][2]int32{{0, 1}}
		}, []string{"Hca0000 port 1 → Hca0001 port 1 is called unreachable: both are on leaf Leaf000"}},
		{"unreachable and sent", NotUnreachable, 0, func(f *fixture) {
			for k := range f.ft.Lanes {
				f.ft.Hold(0, k)
			}
			f.unreachable = [][2]int32{{3, 4}}
		}, []string{"Hca0003 port 1 → Hca0004 port 1 is called unreachable and has a transfer"}},
		{"unreachable beyond the servers", BadRows, NoPhase, func(f *fixture) {
			f.unreachable = [][2]int32{{0, 12}}
		}, []string{"the unreachable pair of servers 0 and 12: there are 12 servers"}},
		{"sends to itself", BadRows, 3, func(f *fixture) {
			f.rows.To[at(f, 3, 0)] = 0
		}, []string{"Hca0000 port 1 sends to server 0"}},
		{"sends beyond the servers", BadRows, 3, func(f *fixture) {
			f.rows.To[at(f, 3, 0)] = 12
		}, []string{"sends to server 12"}},
		{"sends to a negative server", BadRows, 3, func(f *fixture) {
			f.rows.To[at(f, 3, 0)] = -2
		}, []string{"sends to server -2"}},
		{"unreachable before the servers", BadRows, NoPhase, func(f *fixture) {
			f.unreachable = [][2]int32{{-1, 3}}
		}, []string{"the unreachable pair of servers -1 and 3: there are 12 servers"}},
		{"fewer phases than none", BadRows, NoPhase, func(f *fixture) {
			f.rows = Rows{Phases: -1}
		}, []string{"-1 phases of 12 servers"}},
		{"short rows", BadRows, NoPhase, func(f *fixture) {
			f.rows.Lane = f.rows.Lane[1:]
		}, []string{"11 phases of 12 servers need 132 elements: there are 132 destinations, 131 lanes, 132 DLIDs"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
			f := &fixture{t, ft, naiveTables(ft), linearShift(ft), nil}
			if err := Plan(f.ft, f.tables, f.rows, nil); err != nil {
				t.Fatal(err)
			}
			test.change(f)
			refused(t, Plan(f.ft, f.tables, f.rows, f.unreachable), test.code, test.phase, test.words...)
		})
	}
}

// With parallel cables, the right spine by the wrong cable is the wrong lane.
func TestPlanRefusesParallelCable(t *testing.T) {
	ft := tree(t, small)
	tables, rows := naiveTables(ft), linearShift(ft)
	i, ph := find(t, rows, len(ft.Servers), func(_, s, d int) bool {
		return ft.Hosts[ft.Servers[s]].Leaf == 0 && ft.Hosts[ft.Servers[d]].Leaf == 1
	})
	port := out(ft, tables, ft.Leaves[0].GUID, rows.DLID[i])
	lane := int(rows.Lane[i])
	*port = ft.Leaves[0].Cables[lane^1].LeafPort
	refused(t, Plan(ft, tables, rows, nil), WrongLane, ph, "Leaf000")
}

// A spine may have a LID down by another one of its cables to the leaf, if that is Full.
func TestPlanAcceptsOtherCable(t *testing.T) {
	ft := tree(t, small)
	tables := naiveTables(ft)
	for l := range ft.Leaves {
		for k, c := range ft.Leaves[l].Cables {
			spine := &tables.Switches[tables.Find(ft.Spines[ft.LaneOf[k]].GUID)]
			for h := range ft.Hosts {
				for j := range 1 << ft.Hosts[h].LMC {
					if lid := ft.Hosts[h].LID + ib.LID(j); ft.Hosts[h].Leaf == l && spine.Out[lid] == c.SpinePort { // marked, so that none is moved twice
						spine.Out[lid] = ft.Leaves[l].Cables[k^1].SpinePort | 0x80
					}
				}
			}
		}
	}
	for i := range tables.Switches {
		for lid, p := range tables.Switches[i].Out {
			if p != lft.NoPath {
				tables.Switches[i].Out[lid] = p &^ 0x80
			}
		}
	}
	rows, unreachable := oneByOne(ft)
	if err := Plan(ft, tables, rows, unreachable); err != nil {
		t.Error(err)
	}
	if err := slowPlan(ft, tables, rows, unreachable); err != nil {
		t.Error("reference walker:", err)
	}
	ft.Hold(3, 2)
	_, ph := find(t, rows, len(ft.Servers), func(ph, s, d int) bool {
		return ft.Hosts[ft.Servers[d]].Leaf == 3 && rows.Lane[ph*len(ft.Servers)+s] == 3
	})
	refused(t, Plan(ft, tables, rows, unreachable), WrongLane, ph, "has lane 3")
}

func TestPutRefuses(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})
	r := NewRows(len(ft.Servers), 3)
	if err := r.Put(ft, 1, 0, 2, 0, 8); err != nil {
		t.Fatal(err)
	}
	refused(t, r.Put(ft, 1, 0, 3, 0, 8), SendsTwice, 1, "Hca0000 port 1 sends to both Hca0002 port 1 and Hca0003 port 1")
	refused(t, r.Put(ft, 3, 0, 3, 0, 8), BadRows, 3, "the plan has 3 phases")
	if err := r.Put(ft, 2, 3, 0, 1, 9); err != nil || r.To[11] != 0 || r.Lane[11] != 1 || r.DLID[11] != 9 {
		t.Errorf("%v %v", r, err)
	}
	refused(t, r.Put(ft, -1, 0, 3, 0, 8), BadRows, -1, "the plan has 3 phases")
	for _, pair := range [][2]int{{0, 4}, {0, -1}, {4, 0}, {-1, 0}} {
		refused(t, r.Put(ft, 0, pair[0], pair[1], 0, 8), BadRows, 0, "there are 4 servers")
	}
	if v := violation(LinkTwice, 0, "x"); v.Error() != "phase 0: x (link-twice)" {
		t.Error(v)
	}
	if v := violation(Loop, NoPhase, "x"); v.Error() != "x (loop)" {
		t.Error(v)
	}
}

func TestPlanReportsFirst(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	tables, rows := naiveTables(ft), linearShift(ft)
	count := len(ft.Servers)
	rows.DLID[5*count+2], rows.DLID[4*count+7], rows.DLID[4*count+3] = 0, 0, 0
	refused(t, Plan(ft, tables, rows, nil), WrongDLID, 4, "Hca0003 port 1 →")
}
