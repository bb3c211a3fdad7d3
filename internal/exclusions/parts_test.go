package exclusions

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// fitted returns a fabric seen through the baseline of FT(2;4,3).
func fitted(t *testing.T, changes ...func(*topology.Fabric)) *topology.FatTree {
	t.Helper()
	return fabgen.Fitted(t, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}), changes...)
}

// TestFind checks that parts are found by all names, present or absent, and checks the errors
// for other names.
func TestFind(t *testing.T) {
	whole, cut := fitted(t), fitted(t, fabgen.Fails(t, "Spine002", "Leaf001/5"))
	twin := fitted(t, func(f *topology.Fabric) { f.Nodes[f.Find(fabgen.LeafGUID+1)].Name = "Leaf000" })
	for _, c := range []struct {
		tree       *topology.FatTree
		spec, name string
		part       Part
		err        string
	}{
		{whole, "Spine002", "Spine002", Part{Spine, fabgen.SpineGUID + 2, 0}, ""},
		{cut, "Spine002", "Spine002", Part{Spine, fabgen.SpineGUID + 2, 0}, ""},
		{whole, "0x0000000000200001", "Leaf001", Part{Leaf, fabgen.LeafGUID + 1, 0}, ""},
		{whole, "Leaf001/6", "Leaf001 port 6 – Spine001 port 2", Part{Cable, fabgen.LeafGUID + 1, 6}, ""},
		{whole, "Spine001/2", "Leaf001 port 6 – Spine001 port 2", Part{Cable, fabgen.LeafGUID + 1, 6}, ""},
		{cut, "Leaf001/5", "Leaf001 port 5 – Spine000 port 2", Part{Cable, fabgen.LeafGUID + 1, 5}, ""},
		{cut, "Spine000/2", "Leaf001 port 5 – Spine000 port 2", Part{Cable, fabgen.LeafGUID + 1, 5}, ""},
		{whole, "Spine02", "", Part{}, `no spine and no leaf has the description or GUID "Spine02": did you mean "Spine002"?`},
		{whole, "Leef001/6", "", Part{}, `"Leef001": did you mean "Leaf001"?`},
		{whole, "Hca0003", "", Part{}, "Hca0003 is a host"},
		{whole, "Leaf001/1", "", Part{}, "port 1 of Leaf001 has no cable between a leaf and a spine"},
		{whole, "Leaf001/0", "", Part{}, `"0" is not a port of Leaf001`},
		{whole, "Leaf001/300", "", Part{}, `"300" is not a port`},
		{twin, "Leaf000", "", Part{}, `2 switches are called "Leaf000": say which by its GUID: 0x0000000000200000, 0x0000000000200001`},
	} {
		p, name, err := Find(c.tree, c.spec)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.spec, err, c.err)
			}
		} else if err != nil || p != c.part || name != c.name {
			t.Errorf("%s: %v, %q, %v; want %v, %q", c.spec, p, name, err, c.part, c.name)
		}
	}
}

// TestMeant checks that drains are found by all names, even if another cable has the lane of a
// drained cable.
func TestMeant(t *testing.T) {
	whole := fitted(t)
	cable, other, leaf := out(t, whole, "Leaf001/6"), out(t, whole, "Leaf002/7"), out(t, whole, "Leaf001")
	crossed := fitted(t, fabgen.Fails(t, "Leaf001/6"), func(f *topology.Fabric) { // and Leaf001 leads to Spine001 from the port to Spine003
		leaf, spine := f.Find(fabgen.LeafGUID+1), f.Find(fabgen.SpineGUID+1)
		rate := f.Nodes[leaf].Ports[8].Rate
		f.Disconnect(topology.PortRef{Node: leaf, Port: 8})
		f.Disconnect(topology.PortRef{Node: spine, Port: 3})
		f.Connect(topology.PortRef{Node: leaf, Port: 8}, topology.PortRef{Node: spine, Port: 3}, rate)
	})
	if _, _, err := Find(crossed, "Leaf001/6"); err == nil {
		t.Error("the port that has no cable has one")
	}
	all := []Drain{cable, other, leaf}
	for _, c := range []struct {
		tree *topology.FatTree
		text string
		want []Part
	}{
		{whole, "all", []Part{cable.Part, other.Part, leaf.Part}},
		{whole, "Leaf001/6", []Part{cable.Part}},
		{whole, "Spine001/2", []Part{cable.Part}},
		{crossed, "Leaf001/6", []Part{cable.Part}},
		{crossed, "Spine001/2", []Part{cable.Part}},
		{nil, "Leaf001/6", []Part{cable.Part}},
		{nil, "Leaf001 port 6 – Spine001 port 2", []Part{cable.Part}},
		{nil, "0x0000000000200001/6", []Part{cable.Part}},
		{nil, "0x0000000000200001", []Part{leaf.Part}},
		{crossed, "Leaf001", []Part{leaf.Part}},
		{crossed, "Leaf001/5", nil},
		{whole, "Leaf000", nil},
		{whole, "", nil},
	} {
		if got := Resolve(c.tree, all, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
}

// out returns a drain of a part that is out.
func out(t *testing.T, tree *topology.FatTree, spec string) Drain {
	t.Helper()
	p, name, err := Find(tree, spec)
	if err != nil {
		t.Fatal(err)
	}
	return Drain{Part: p, Name: name, State: Draining}
}

// TestCables checks the cables that drains take out, including a cable that was moved.
// Scheduled drains take out none.
func TestCables(t *testing.T) {
	whole := fitted(t)
	cable, spine, leaf := out(t, whole, "Leaf001/6"), out(t, whole, "Spine003"), out(t, whole, "Leaf002")
	at := func(l int, ports ...uint8) (all []ib.End) {
		for _, p := range ports {
			all = append(all, ib.End{GUID: fabgen.LeafGUID + ib.GUID(l), Port: p})
		}
		return all
	}
	later := cable
	later.State = Scheduled
	moved := fitted(t, func(f *topology.Fabric) {
		leaf := f.Find(fabgen.LeafGUID + 1)
		f.Disconnect(topology.PortRef{Node: leaf, Port: 6})
		f.Nodes[leaf].Ports = append(f.Nodes[leaf].Ports, topology.Port{Peer: topology.None})
		last := uint8(len(f.Nodes[leaf].Ports) - 1)
		f.Connect(topology.PortRef{Node: leaf, Port: last}, topology.PortRef{Node: f.Find(fabgen.SpineGUID + 1), Port: 2}, f.Nodes[leaf].Ports[5].Rate)
	})
	miswired := fitted(t, func(f *topology.Fabric) { // port 6 of Leaf001 leads to Spine003
		leaf := f.Find(fabgen.LeafGUID + 1)
		rate := f.Nodes[leaf].Ports[6].Rate
		f.Disconnect(topology.PortRef{Node: leaf, Port: 6})
		f.Disconnect(topology.PortRef{Node: leaf, Port: 8})
		f.Connect(topology.PortRef{Node: leaf, Port: 6}, topology.PortRef{Node: f.Find(fabgen.SpineGUID + 3), Port: 2}, rate)
	})
	other := out(t, whole, "Spine001")
	for _, c := range []struct {
		tree *topology.FatTree
		all  []Drain
		want []ib.End
	}{
		{whole, nil, nil},
		{miswired, []Drain{other}, slices.Concat(at(0, 6), at(2, 6))},
		{miswired, []Drain{spine}, slices.Concat(at(0, 8), at(1, 6), at(2, 8))},
		{whole, []Drain{later}, nil},
		{whole, []Drain{cable}, at(1, 6)},
		{moved, []Drain{cable}, at(1, 9)},
		{whole, []Drain{spine}, slices.Concat(at(0, 8), at(1, 8), at(2, 8))},
		{whole, []Drain{leaf, cable}, slices.Concat(at(1, 6), at(2, 5, 6, 7, 8))},
		{fitted(t, fabgen.Fails(t, "Spine003", "Leaf001/6")), []Drain{spine, cable}, slices.Concat(at(0, 8), at(1, 6, 8), at(2, 8))},
	} {
		if got := DrainedCables(Links(c.tree), c.all); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.all, got, c.want)
		}
	}
	if got := DrainedLeaves([]Drain{cable, spine, leaf, later}); !slices.Equal(got, []ib.GUID{fabgen.LeafGUID + 2}) {
		t.Errorf("leaves: %v", got)
	}
}

// TestQuiet checks that only the findings that drains explain are left out.
func TestQuiet(t *testing.T) {
	whole := fitted(t)
	cable, spine, leaf := out(t, whole, "Leaf001/6"), out(t, whole, "Spine003"), out(t, whole, "Leaf002")
	codes := func(all []topology.Finding) (out []string) {
		for _, f := range all {
			out = append(out, f.Code)
		}
		return out
	}
	for _, c := range []struct {
		what []string
		all  []Drain
		want []string
	}{
		{[]string{"Leaf001/6"}, []Drain{cable}, nil},
		{[]string{"Leaf001/6"}, []Drain{leaf}, []string{topology.CableDown}},
		{[]string{"Leaf001/6", "Leaf001/7"}, []Drain{cable}, []string{topology.CableDown}},
		{[]string{"Leaf001/8"}, []Drain{spine}, nil},
		{[]string{"Leaf002/1"}, []Drain{leaf}, nil},
		{[]string{"Leaf001/1"}, []Drain{leaf, cable}, []string{topology.HostAbsent}},
		{[]string{"Leaf002/8"}, nil, []string{topology.CableDown}},
	} {
		tree := fitted(t, fabgen.Fails(t, c.what...))
		if got := codes(WithoutDrained(tree, c.all, tree.Findings)); !slices.Equal(got, c.want) {
			t.Errorf("%v fail, %v are out: %v, want %v", c.what, c.all, got, c.want)
		}
	}
	gone := []topology.Finding{{Code: topology.SpineDown, Node: uint64(spine.GUID)}, {Code: topology.LeafDown, Node: uint64(leaf.GUID)}}
	if got := WithoutDrained(whole, []Drain{spine, leaf}, gone); len(got) != 0 {
		t.Errorf("switches that are out: %v", got)
	}
	if got := WithoutDrained(whole, []Drain{cable}, gone); len(got) != 2 {
		t.Errorf("others that are out: %v", got)
	}
}

// TestUses checks the uses of parts by plans and tables, and that plans and tables made without
// the parts do not use them.
func TestUses(t *testing.T) {
	whole := fitted(t)
	made := func(tree *topology.FatTree) (*lft.Tables, *phasetable.View) {
		t.Helper()
		r, err := planner.Make(t.Context(), tree, planner.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := phasetable.New(r.Table(1))
		if err != nil {
			t.Fatal(err)
		}
		return r.Tables, plan
	}
	tables, plan := made(whole)
	for _, spec := range []string{"Leaf001/6", "Spine003", "Leaf002"} {
		d := out(t, whole, spec)
		held := *whole
		held.Leaves = slices.Clone(held.Leaves)
		for l := range held.Leaves {
			held.Leaves[l].Cables = slices.Clone(held.Leaves[l].Cables)
		}
		for _, x := range Links(whole) {
			if slices.Contains(DrainedCables(Links(whole), []Drain{d}), x.Lower.End) {
				held.Hold(x.Lane.Leaf, x.Lane.Lane)
			}
		}
		if d.Kind == Leaf {
			held.Servers = slices.DeleteFunc(slices.Clone(held.Servers), func(i int) bool { return held.Hosts[i].Leaf == 2 })
		}
		without, planned := made(&held)
		old, now := Plan{Name: "the old plan", View: plan}, Plan{Name: "the plan", View: planned}
		want := map[string][4][]string{
			"Leaf001/6": {{"the old plan sends 16 transfers over it", "tables lead to 12 LIDs of hosts over it"}, {"tables lead to 12 LIDs of hosts over it"}, nil, nil},
			"Spine003":  {{"the old plan sends 24 transfers over it", "tables lead to 12 LIDs of hosts over it"}, {"tables lead to 12 LIDs of hosts over it"}, nil, nil},
			"Leaf002":   {{"the old plan has 4 of its hosts"}, nil, {"the old plan has 4 of its hosts"}, nil},
		}[spec]
		for i, on := range [][]*lft.Tables{{tables}, {tables}, {without}, {without}} {
			p := []Plan{old, now, old, now}[i]
			got := Uses(whole, on, []Plan{p}, []Drain{d, {Part: Part{Spine, 77, 0}, State: Scheduled}})
			if !maps.EqualFunc(got, map[Part][]string{d.Part: want[i]}, slices.Equal) {
				t.Errorf("%s, %s, %d: %q, want %q", spec, p.Name, i, got, want[i])
			}
		}
		now.Members = []ib.GUID{whole.Hosts[0].GUID, whole.Hosts[9].GUID, whole.Hosts[10].GUID, 77} // two on Leaf002
		if got := Uses(whole, []*lft.Tables{without}, []Plan{now}, []Drain{d})[d.Part]; d.Kind == Leaf && !slices.Equal(got, []string{"the plan has 2 of its hosts"}) || d.Kind != Leaf && got != nil {
			t.Errorf("%s: of a job that still has hosts there: %q", spec, got)
		}
		if got := Uses(whole, []*lft.Tables{without, tables}, []Plan{now}, []Drain{d})[d.Part]; d.Kind != Leaf && len(got) == 0 {
			t.Errorf("%s: the switches may hold tables that lead over it", spec)
		}
	}
}

// TestThreeLevels finds the parts of a tree of three levels, and checks their uses before and
// after the plan is made without them.
func TestThreeLevels(t *testing.T) {
	s := fabgen.KAry(4)
	s.LMC = 1
	f := fabgen.GenerateTree(s)
	pods := fabgen.FittedPods(t, f)
	whole := pods.Exchange()
	made := func(tree *topology.PodTree) (*lft.Tables, Plan) {
		t.Helper()
		r, err := podplan.Make(t.Context(), tree, podplan.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		table, err := phasetable.New(r.Compact(1))
		if err != nil {
			t.Fatal(err)
		}
		return r.Tables, Plan{Name: "the plan", View: table}
	}
	tables, plan := made(pods)
	for _, c := range []struct {
		spec   string
		kind   Kind
		cables int
	}{{"Leaf001/4", Cable, 1}, {"Mid003/4", Cable, 1}, {"Mid002", Mid, 4}, {"Top001", Top, 4}, {"Leaf002", Leaf, 2}} {
		d := out(t, whole, c.spec)
		cables := DrainedCables(Links(whole), []Drain{d})
		if d.Kind != c.kind || len(cables) != c.cables {
			t.Errorf("%s: a %s with %d cables, want a %s with %d", c.spec, d.Kind, len(cables), c.kind, c.cables)
		}
		if uses := Uses(whole, []*lft.Tables{tables}, []Plan{plan}, []Drain{d})[d.Part]; len(uses) == 0 {
			t.Errorf("%s: nothing leads over it, though nothing has changed", c.spec)
		}
		held := *pods
		held.Leaves, held.Mids = slices.Clone(held.Leaves), slices.Clone(held.Mids)
		for _, x := range Links(whole) {
			if !slices.Contains(cables, x.Lower.End) || d.Kind == Leaf {
				continue
			}
			if leaf, plane := x.Lane.Leaf, x.Lane.Lane; plane < held.Planes {
				held.Leaves[leaf].Cables = slices.Clone(held.Leaves[leaf].Cables)
				held.HoldLeaf(leaf, plane)
			} else {
				held.Mids[leaf].Cables = slices.Clone(held.Mids[leaf].Cables)
				held.HoldMid(leaf, plane-held.Planes)
			}
		}
		if d.Kind == Leaf {
			held.Servers = slices.DeleteFunc(slices.Clone(held.Servers), func(i int) bool { return held.Hosts[i].Leaf == 2 })
		}
		later, without := made(&held)
		if uses := Uses(whole, []*lft.Tables{later}, []Plan{without}, []Drain{d})[d.Part]; len(uses) != 0 {
			t.Errorf("%s is drained, and %q", c.spec, uses)
		}
	}
	for spec, want := range map[string]string{"Mid02": `no leaf, mid or top has the description or GUID "Mid02": did you mean "Mid002"?`, "Leaf001/1": "no cable between levels"} {
		if _, _, err := Find(whole, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}
