package lft

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestMisfit holds tables against the fabric that they were made for and against
// such as they were not.
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
		{name: "a port too high", tables: func(t *Tables) { t.Switches[1].Out[8] = 200 },
			err: "switch Leaf001 (0x0000000000200001) sends LID 0x0008 to port 200: it has 6 ports"},
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
