package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

// fabric generates a fabric, fits it after the change to what it was before, and
// builds its tables.
func fabric(t rapid.TB, spec fabgen.Spec, change func(*topology.Fabric)) (*topology.FatTree, *lft.Tables) {
	t.Helper()
	ft := fabgen.Fitted(t, fabgen.Generate(spec), change)
	tables, err := lft.Build(ft)
	if err != nil {
		t.Fatal(err)
	}
	return ft, tables
}

func run(t testing.TB, f *topology.Fabric, tables *lft.Tables, rows []Row) *Result {
	t.Helper()
	res, err := Run(f, tables, rows)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestHealthyShift: the linear shift on base LIDs meets no conflict while the
// fabric is whole, in whatever order the cables are, also with servers missing
// in the middle: their slots are empty and nobody else moves.
func TestHealthyShift(t *testing.T) {
	for _, c := range []struct {
		spec    fabgen.Spec
		servers int
	}{
		{fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}, 360},
		{fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5, Shuffle: 7}, 360},
		{fabgen.Spec{Spines: 4, Leaves: 5, Cables: 2, Hosts: []int{8}, LMC: 3}, 40},
		{fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5, Missing: [][2]int{{0, 3}, {0, 4}, {7, 0}, {17, 19}}}, 356},
	} {
		ft, tables := fabric(t, c.spec, nil)
		res := run(t, ft.Fabric, tables, LinearShift(ft))
		if res.Servers != c.servers || res.Transfers != c.servers*(c.servers-1) || res.Lost != 0 {
			t.Errorf("%+v: %d servers, %d transfers, %d lost", c.spec, res.Servers, res.Transfers, res.Lost)
		}
		if res.Mean != 1 || res.Max != 1 || res.ConflictShare != 0 || res.PerPhaseMax[0] != 0 {
			t.Errorf("%+v: mean %g, max %d, conflict share %g", c.spec, res.Mean, res.Max, res.ConflictShare)
		}
	}
}

// TestHostLeavesLater: a server that is gone after the baseline was taken leaves
// its slot empty.
func TestHostLeavesLater(t *testing.T) {
	ft, tables := fabric(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}, func(f *topology.Fabric) {
		f.Disconnect(topology.PortRef{Node: f.Find(fabgen.HostGUID + 2*5), Port: 1})
	})
	res := run(t, ft.Fabric, tables, LinearShift(ft))
	want := 14.0 / 15 // 15 servers in the phases of 16 places
	if res.Servers != 15 || res.Max != 1 || math.Abs(res.RelativeThroughput-want) > 1e-12 {
		t.Errorf("%d servers, max %d, throughput %g, want %g", res.Servers, res.Max, res.RelativeThroughput, want)
	}
}

// TestDeadCable: with one cable gone the shift conflicts, and no worse than
// OpenSM's own engines, whose mean is 1.9 to 2.6.
func TestDeadCable(t *testing.T) {
	ft, tables := fabric(t, fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}, func(f *topology.Fabric) {
		f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: 21})
	})
	res := run(t, ft.Fabric, tables, LinearShift(ft))
	t.Logf("mean %.2f, max %d, busiest %+v", res.Mean, res.Max, *res.Busiest)
	if res.Lost != 0 || res.Mean < 1.5 || res.Mean > 2 || res.ConflictShare < 0.5 {
		t.Errorf("lost %d, mean %g, conflict share %g", res.Lost, res.Mean, res.ConflictShare)
	}
}

// TestByHand: FT(2;2,2) with two hosts on a leaf, one phase in which both hosts of
// leaf 0 go over the same lane, then one that is clean, in any order of the rows.
func TestByHand(t *testing.T) {
	ft, tables := fabric(t, fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1}, nil)
	h := ft.Hosts
	lid := func(d, lane int) ib.LID {
		v, ok := ft.DLID(&h[d], lane)
		if !ok {
			t.Fatalf("lane %d is closed to host %d", lane, d)
		}
		return v
	}
	rows := []Row{
		{2, lid(2, 0), h[0].GUID, h[2].GUID},
		{0, lid(2, 1), h[0].GUID, h[2].GUID},
		{0, lid(3, 1), h[1].GUID, h[3].GUID},
		{2, lid(3, 1), h[1].GUID, h[3].GUID},
		{2, h[0].LID, h[1].GUID, h[0].GUID}, // a second transfer out of host 1
	}
	want := &Result{Servers: 4, Phases: 3, Transfers: 5, PerPhaseMax: []int{2, 0, 2}, Mean: 2, Max: 2, ConflictShare: 1, RelativeThroughput: 0.75,
		Busiest: &Link{0, "Leaf000 port 4 – Spine001 port 1", 2}, Most: 3}
	if diff := cmp.Diff(want, run(t, ft.Fabric, tables, rows)); diff != "" {
		t.Error(diff)
	}
	rows = rows[:4]
	want.PerPhaseMax[2], want.Transfers, want.Mean, want.ConflictShare, want.RelativeThroughput, want.Most = 1, 4, 1.5, 0.5, 2.0/3, 2
	if diff := cmp.Diff(want, run(t, ft.Fabric, tables, rows)); diff != "" {
		t.Error(diff)
	}
}

// TestLost: transfers that do not arrive are counted, and the first is explained.
func TestLost(t *testing.T) {
	ft, tables := fabric(t, fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1}, nil)
	a, b := &ft.Hosts[0], &ft.Hosts[2]
	for want, c := range map[string]struct {
		lid  ib.LID
		port uint8
	}{
		"phase 0, Hca0000 port 1 to Hca0002 port 1: LID 0x0006 is not one of the destination's":                       {a.LID, 3},
		"phase 0, Hca0000 port 1 to Hca0002 port 1: switch Leaf000 has no entry for LID 0x000a":                       {b.LID, lft.NoPath},
		"phase 0, Hca0000 port 1 to Hca0002 port 1: switch Leaf000 takes LID 0x000a for its own":                      {b.LID, 0},
		"phase 0, Hca0000 port 1 to Hca0002 port 1: LID 0x000a is delivered to Hca0001 port 1, which does not own it": {b.LID, 2},
	} {
		tables.Switches[0].Out[b.LID] = c.port
		res := run(t, ft.Fabric, tables, []Row{{0, c.lid, a.GUID, b.GUID}})
		if res.Lost != 1 || res.FirstLost != want {
			t.Errorf("%d lost: %s\nwant %s", res.Lost, res.FirstLost, want)
		}
	}
}

// TestLongWay: a transfer over a row of 100 switches arrives.
func TestLongWay(t *testing.T) {
	f := fabgen.WithChain(fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1}), "Leaf001", 100)
	tables, err := routed.Tables(f)
	if err != nil {
		t.Fatal(err)
	}
	ends := f.EndPorts()
	from, to := ends[0], ends[len(ends)-1]
	if res := run(t, f, tables, []Row{{0, to.LID, from.GUID, to.GUID}}); res.Lost != 0 {
		t.Error(res.FirstLost)
	}
}

// TestRefuses: rows that cannot be meant.
func TestRefuses(t *testing.T) {
	ft, tables := fabric(t, fabgen.Spec{Spines: 2, Leaves: 2}, nil)
	g := ft.Hosts[0].GUID
	for want, row := range map[string]Row{
		"simulate: row 0: no port of the fabric has GUID 0x0000000000000007": {0, 1, 7, g},
		"simulate: row 0: no port of the fabric has GUID 0x0000000000000000": {0, 1, g, 0},
		"simulate: row 0 has phase -1: phases count from 0":                  {-1, 1, g, g},
		"simulate: phase 2000000000 is beyond any schedule":                  {2e9, 1, g, g},
	} {
		if _, err := Run(ft.Fabric, tables, []Row{row}); fmt.Sprint(err) != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// TestAgainstTrace: on random schedules over random lanes the loads are those that
// the hops of Trace give.
func TestAgainstTrace(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ft, tables := fabric(t, fabgen.Spec{Spines: 3, Leaves: 3, LMC: 2, Shuffle: rapid.Uint64().Draw(r, "cabling")}, nil)
		n := len(ft.Hosts)
		rows := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) Row {
			src, dst := &ft.Hosts[rapid.IntRange(0, n-1).Draw(r, "src")], &ft.Hosts[rapid.IntRange(0, n-1).Draw(r, "dst")]
			return Row{int32(rapid.IntRange(0, 3).Draw(r, "phase")), dst.LID + ib.LID(rapid.IntRange(0, 3).Draw(r, "lane")), src.GUID, dst.GUID}
		}), 1, 60).Draw(r, "rows")
		loads := map[string]int{}
		most := make([]int, 4)
		phases := 0
		for _, row := range rows {
			phases = max(phases, int(row.Phase)+1)
			from := topology.PortRef{Node: ft.Fabric.Find(row.Src - 1), Port: 1}
			hops, err := tables.Trace(ft.Fabric, from, row.DLID)
			if err != nil {
				r.Fatal(err)
			}
			for _, hop := range hops[:len(hops)-1] {
				key := fmt.Sprint(row.Phase, hop.Node, hop.Out)
				loads[key]++
				most[row.Phase] = max(most[row.Phase], loads[key])
			}
		}
		res := run(t, ft.Fabric, tables, rows)
		if diff := cmp.Diff(most[:phases], res.PerPhaseMax); diff != "" || res.Lost != 0 {
			r.Fatalf("%d lost; per phase:\n%s", res.Lost, diff)
		}
	})
}

// TestJSON holds the names of the contract.
func TestJSON(t *testing.T) {
	out, err := json.Marshal(Result{PerPhaseMax: []int{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"per_phase_max", "mean", "max", "conflict_share", "relative_throughput"} {
		if !strings.Contains(string(out), `"`+key+`":`) {
			t.Errorf("%s lacks %s", out, key)
		}
	}
}
