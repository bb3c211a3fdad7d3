package lft

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestMisfit compares tables with the fabric that they were made for and with other fabrics.
func TestMisfit(t *testing.T) {
	spec := fabgen.Spec{Spines: 3, Leaves: 3, LMC: 1}
	own := tree(t, fabgen.Generate(spec), nil)
	for _, c := range []struct {
		name   string
		fabric func(*topology.Fabric) *topology.Fabric
		tables func(*Tables)
		doubts []string
		err    string
	}{
		{name: "its own"},
		{name: "a host more", tables: func(t *Tables) { t.Switches[0].Out = append(t.Switches[0].Out, 1) }},
		{name: "dead cables", fabric: func(f *topology.Fabric) *topology.Fabric {
			f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: 4})
			f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: 1})
			return f
		}},
		{name: "a switch that came", tables: func(t *Tables) { t.Switches = t.Switches[1:] },
			doubts: []string{"switches have no table: Leaf000 (0x0000000000200000)"}},
		{name: "switches that came", tables: func(t *Tables) { t.Switches = t.Switches[2:] },
			doubts: []string{"switches have no table: Leaf000 (0x0000000000200000) and 1 more"}},
		{name: "a switch without cables", tables: func(t *Tables) { t.Switches = t.Switches[1:] }, fabric: func(f *topology.Fabric) *topology.Fabric {
			for p := range f.Nodes[f.Find(fabgen.LeafGUID)].Ports {
				if r := (topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: uint8(p)}); f.At(r).Connected() {
					f.Disconnect(r)
				}
			}
			return f
		}},
		{name: "a switch that left", tables: func(t *Tables) {
			t.Switches = append(t.Switches, Table{GUID: 0x999999, Name: "Old"}, Table{GUID: fabgen.HostGUID + 1<<40})
		}, doubts: []string{"the fabric lacks switches that have tables: Old (0x0000000000999999) and 1 more"}},
		{name: "both", tables: func(t *Tables) { t.Switches[5].GUID = 0x999999 },
			doubts: []string{"the fabric lacks switches that have tables: Spine002 (0x0000000000999999)", "switches have no table: Spine002 (0x0000000000300002)"}},
		{name: "an adapter's", tables: func(t *Tables) { t.Switches[5].GUID = fabgen.HostGUID },
			doubts: []string{"the fabric lacks switches that have tables: Spine002 (0x0000000000100000)", "switches have no table: Spine002 (0x0000000000300002)"}},
		{name: "other LIDs", fabric: func(*topology.Fabric) *topology.Fabric {
			f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 4, LMC: 1})
			return f
		}, err: "switch Spine000 (0x0000000000300000) has LID 4 in the tables and 5 in the fabric"},
		{name: "LIDs not told", fabric: func(*topology.Fabric) *topology.Fabric {
			return fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 4, LMC: 1})
		}, tables: func(t *Tables) {
			for i := range t.Switches {
				t.Switches[i].LID = 0
			}
		}, doubts: []string{"switches have no table: Leaf003 (0x0000000000200003)"}},
		{name: "a port too high", tables: func(t *Tables) { t.Switches[1].Out[8] = 7 },
			err: "switch Leaf001 (0x0000000000200001) sends LID 0x0008 to port 7: it has 6 ports"},
		{name: "the last port", tables: func(t *Tables) { t.Switches[1].Out[8] = 6 }},
		{name: "all others", tables: func(t *Tables) {
			for i := range t.Switches {
				t.Switches[i].GUID += 0x1000000
			}
		}, err: "no switch of the fabric has a table among the 6"},
		{name: "none", tables: func(t *Tables) { t.Switches = nil }, err: "no switch of the fabric has a table among the 0"},
	} {
		f, tables := own.Fabric.Clone(), build(t, own)
		if c.fabric != nil {
			f = c.fabric(f)
		}
		if c.tables != nil {
			c.tables(tables)
		}
		doubts, err := tables.Misfit(f)
		if said := ""; err != nil {
			if said = err.Error(); said != c.err {
				t.Errorf("%s: error %q, want %q", c.name, said, c.err)
			}
		} else if c.err != "" {
			t.Errorf("%s: no error, want %q", c.name, c.err)
		}
		if !slices.Equal(doubts, c.doubts) {
			t.Errorf("%s: doubts %q, want %q", c.name, doubts, c.doubts)
		}
	}
}

// TestDead counts the entries of LIDs in use that lead to a port without a cable, or to a port
// that the switch does not have.
func TestDead(t *testing.T) {
	own := tree(t, fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3, LMC: 1}), nil)
	leaf := own.Leaves[0].Node
	for _, c := range []struct {
		name   string
		change func(*topology.Fabric, *Tables)
		want   int
	}{
		{"its own", func(*topology.Fabric, *Tables) {}, 0},
		{"a host's cable, and two LIDs", func(f *topology.Fabric, _ *Tables) { f.Disconnect(topology.PortRef{Node: leaf, Port: 1}) }, 2},
		{"a port too many", func(f *topology.Fabric, t *Tables) { t.Switches[1].Out[8] = uint8(len(f.Nodes[leaf].Ports)) }, 1},
		{"port 0, and no entry", func(_ *topology.Fabric, t *Tables) { t.Switches[1].Out[8], t.Switches[1].Out[9] = 0, NoPath }, 0},
		{"an LID that is not in use", func(_ *topology.Fabric, t *Tables) { t.Switches[1].Out[7] = 99 }, 0},
		{"a table of no switch", func(_ *topology.Fabric, t *Tables) {
			t.Switches = slices.Insert(t.Switches, 0, Table{GUID: 1, Out: slices.Repeat([]uint8{99}, 30)})
			t.Switches[2].Out[8] = 99
		}, 1},
	} {
		f, tables := own.Fabric.Clone(), build(t, own)
		c.change(f, tables)
		if got := tables.Dead(f); got != c.want {
			t.Errorf("%s: %d dead entries, want %d", c.name, got, c.want)
		}
	}
}
