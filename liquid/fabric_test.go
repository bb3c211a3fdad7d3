package liquid_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

// small is FT(2;3,3) with tables of base LIDs, for tests that damage it.
func small(t *testing.T) (*topology.Fabric, *lft.Tables) {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3})
	tables, err := routed.Tables(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, tables
}

// TestPathsAreTheTables compares the links of every transfer with a walk through
// the tables that knows only their entries.
func TestPathsAreTheTables(t *testing.T) {
	f, tables := small(t)
	routes, err := liquid.Trace(f, tables, f.ConnectedHosts(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if routes.Traffic.Len() != 72 || len(routes.Cut) != 0 {
		t.Fatalf("%d transfers, %d cut, want 72 and none", routes.Traffic.Len(), len(routes.Cut))
	}
	for x := range routes.Traffic.Len() {
		p := routes.Traffic.Pair(liquid.Transfer(x))
		src, dst := routes.Hosts[p.Src], routes.Hosts[p.Dst]
		want := []string{f.CableLabel(src.PortRef)}
		for at := f.At(src.PortRef).Peer; at != dst.Node; {
			out := tables.Port(tables.Find(f.Nodes[at].GUID), dst.LID)
			want = append(want, f.CableLabel(topology.PortRef{Node: at, Port: out}))
			at = f.Nodes[at].Ports[out].Peer
		}
		var got []string
		for _, l := range routes.Traffic.Path(liquid.Transfer(x)) {
			got = append(got, routes.LinkName(l))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%d→%d takes %q, want %q", p.Src, p.Dst, got, want)
		}
	}
}

// TestCutPairs omits pairs that the tables do not join, with the reason.
func TestCutPairs(t *testing.T) {
	f, tables := small(t)
	hosts := f.ConnectedHosts()
	leaf := tables.Find(fabgen.LeafGUID)
	tables.Switches[leaf].Out[hosts[8].LID] = lft.NoPath // of leaf 0 to the last host
	tables.Switches[leaf].Out[hosts[1].LID] = 1          // to its neighbour
	routes, err := liquid.Trace(f, tables, hosts, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(routes.Cut) < 4 || routes.Traffic.Len()+len(routes.Cut) != 72 {
		t.Errorf("%d cut and %d left", len(routes.Cut), routes.Traffic.Len())
	}
	for _, c := range routes.Cut {
		if c.Dst != 8 && c.Dst != 1 || c.Dst == 8 && c.Src > 2 || c.Reason == nil {
			t.Errorf("%d→%d is cut: %v", c.Src, c.Dst, c.Reason)
		}
	}
}

func TestTraceRefuses(t *testing.T) {
	f, tables := small(t)
	for _, p := range []liquid.Pair{{Src: 0, Dst: 0}, {Src: 0, Dst: 9}, {Src: -1, Dst: 0}} {
		if _, err := liquid.Trace(f, tables, f.ConnectedHosts(), []liquid.Pair{p}); err == nil {
			t.Errorf("pair %v was taken", p)
		}
	}
}

// TestSpeedsOfCables slows one cable down: its transfers take longer, whichever end
// reports it; a cable of unknown speed counts as fast.
func TestSpeedsOfCables(t *testing.T) {
	f, tables := small(t)
	slow := topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: 4}
	f.At(slow).Rate = ib.Rate{Width: 1, Speed: ib.HDR}
	f.Nodes[f.Find(fabgen.LeafGUID+1)].Ports[4].Rate = ib.Rate{}
	routes, err := liquid.Trace(f, tables, f.ConnectedHosts(), nil)
	if err != nil {
		t.Fatal(err)
	}
	over := 0 // transfers over the slow cable, both ways
	for x := range routes.Traffic.Len() {
		for _, l := range routes.Traffic.Path(liquid.Transfer(x)) {
			if name := routes.LinkName(l); strings.Contains(name, "Leaf000 port 4 ") || strings.HasSuffix(name, "Leaf000 port 4") {
				over++
			}
		}
	}
	bounds := routes.Traffic.Bounds()
	if len(bounds) != 2 || bounds[0].Transfers != over || bounds[0].Rate != 50 || bounds[1].Rate != 200 || over == 0 {
		t.Errorf("bounds %+v with %d transfers over the slow cable", bounds, over)
	}
	r, err := liquid.Make(t.Context(), routes.Traffic, liquid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, least := routes.Traffic.Time(r.Schedule), routes.Traffic.TimeBound(); got < least || got > 1.2*least {
		t.Errorf("time %v, the bound is %v", got, least)
	}
	table, err := routes.Table(r.Schedule)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range table.Servers {
		if s.Leaf != i/3 || s.GUID != routes.Hosts[i].GUID {
			t.Errorf("server %d is %s on leaf %d, want %s on %d", i, s.GUID, s.Leaf, routes.Hosts[i].GUID, i/3)
		}
	}
	if err := routes.Check(table); err != nil {
		t.Error(err)
	}
}

// TestCheckFindsFaults breaks a phase table in every possible way.
func TestCheckFindsFaults(t *testing.T) {
	f, tables := small(t)
	routes, err := liquid.Trace(f, tables, f.ConnectedHosts(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := liquid.Make(t.Context(), routes.Traffic, liquid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want  string
		spoil func(to []int32, dlid []ib.LID)
	}{
		{"are in no phase", func(to []int32, _ []ib.LID) { to[0] = -1 }},
		{"once too often", func(to []int32, dlid []ib.LID) { to[9], dlid[9] = to[0], dlid[0] }},
		{"are lost", func(_ []int32, dlid []ib.LID) { dlid[0]++ }},
		{"transfers on", func(to []int32, dlid []ib.LID) {
			for i := 1; i < 9; i++ { // two hosts of a phase change what they do in the next
				to[i], to[9+i], dlid[i], dlid[9+i] = to[9+i], to[i], dlid[9+i], dlid[i]
			}
		}},
	} {
		table, err := routes.Table(r.Schedule)
		if err != nil {
			t.Fatal(err)
		}
		if err := routes.Check(table); err != nil {
			t.Fatal(err)
		}
		c.spoil(table.To, table.DLID)
		if err := routes.Check(table); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	table, err := routes.Table(r.Schedule)
	if err != nil {
		t.Fatal(err)
	}
	table.Servers[0], table.Servers[1] = table.Servers[1], table.Servers[0]
	if err := routes.Check(table); err == nil || !strings.Contains(err.Error(), "are not the 9 hosts") {
		t.Errorf("error %v with two servers in each other's place", err)
	}
	if _, err := routes.Table(liquid.Schedule{{0, 1}}); err == nil {
		t.Error("a host sends twice in a step of a table")
	}
}

// TestDirectory finds hosts by all their names.
func TestDirectory(t *testing.T) {
	f, _ := small(t)
	f.Nodes[f.Find(fabgen.HostGUID+2)].Name = "node001 mlx5_0"
	f.Nodes[f.Find(fabgen.HostGUID+4)].Name = "node002 mlx5_0"
	f.Nodes[f.Find(fabgen.HostGUID+6)].Name = "node002 mlx5_1"
	hosts := f.ConnectedHosts()
	d := liquid.NewDirectory(f, hosts)
	for name, want := range map[string]int32{"Hca0000": 0, "node001": 1, "node001 mlx5_0": 1, "node002 mlx5_1": 3, "0x100005": 2, "0x0000000000100004": 2} {
		if got, err := d.Find(name); err != nil || got != want {
			t.Errorf("%q is host %d (%v), want %d", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"node002": "2 host ports are called", "node003": "no host port", "Leaf000": "no host port", "": "no host port"} {
		if _, err := d.Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", name, err, want)
		}
	}
	only, err := d.Only([]string{"node001", "Hca0000", "node001"})
	if err != nil || len(only) != 2 || only[0] != hosts[0] || only[1] != hosts[1] {
		t.Errorf("hosts %v (%v)", only, err)
	}
}

func FuzzParsePairs(f *testing.F) {
	f.Add([]byte("a,b\n# c\n\nd , e # f\n"))
	f.Add([]byte("a\nb,\n,c\na,b,c"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pairs, err := liquid.ParsePairs(data, "fuzz")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz") {
				t.Errorf("error %q does not name the file", err)
			}
			return
		}
		var text strings.Builder
		for _, p := range pairs {
			text.WriteString(p[0] + "," + p[1] + "\n")
		}
		again, err := liquid.ParsePairs([]byte(text.String()), "again")
		if err != nil || !slices.Equal(pairs, again) {
			t.Errorf("%q is read as %q, and that as %q (%v)", data, pairs, again, err)
		}
	})
}
