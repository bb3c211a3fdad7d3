package lft

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestTrace: the way of a packet by hand, on FT(2;2,2) with one host on a leaf,
// whose LIDs are 1 to 4 for the switches and 5 and 6 for the hosts.
func TestTrace(t *testing.T) {
	const host0, host1, leaf0, leaf1, spine0 = 0, 1, 2, 3, 4
	ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, Hosts: []int{1}}), nil)
	f := ft.Fabric
	for _, c := range []struct {
		name   string
		from   topology.PortRef
		lid    ib.LID
		change func(*Tables)
		want   []Hop
		err    string
	}{
		{"to a host", topology.PortRef{Node: host0, Port: 1}, 6, nil, []Hop{{host0, 0, 1}, {leaf0, 1, 2}, {spine0, 1, 2}, {leaf1, 2, 1}, {host1, 1, 0}}, ""},
		{"to itself", topology.PortRef{Node: host0, Port: 1}, 5, nil, []Hop{{host0, 0, 0}}, ""},
		{"to a spine", topology.PortRef{Node: host0, Port: 1}, 3, nil, []Hop{{host0, 0, 1}, {leaf0, 1, 2}, {spine0, 1, 0}}, ""},
		{"from a switch", topology.PortRef{Node: spine0}, 6, nil, []Hop{{spine0, 0, 2}, {leaf1, 2, 1}, {host1, 1, 0}}, ""},
		{"no entry", topology.PortRef{Node: host0, Port: 1}, 6, func(t *Tables) { t.Switches[2].Out[6] = NoPath },
			[]Hop{{host0, 0, 1}, {leaf0, 1, 2}, {spine0, 1, 0}}, "switch Spine000 has no entry for LID 0x0006"},
		{"beyond the table", topology.PortRef{Node: host0, Port: 1}, 99, nil, []Hop{{host0, 0, 1}, {leaf0, 1, 0}}, "switch Leaf000 has no entry for LID 0x0063"},
		{"loop", topology.PortRef{Node: host0, Port: 1}, 6, func(t *Tables) { t.Switches[2].Out[6] = 1 },
			[]Hop{{host0, 0, 1}, {leaf0, 1, 2}, {spine0, 1, 1}, {leaf0, 2, 0}}, "LID 0x0006 goes round in a loop through switch Leaf000"},
		{"no such port", topology.PortRef{Node: leaf0}, 6, func(t *Tables) { t.Switches[0].Out[6] = 4 },
			[]Hop{{leaf0, 0, 0}}, "switch Leaf000 sends LID 0x0006 to port 4: it has 3 ports"},
		{"wrong host", topology.PortRef{Node: leaf0}, 6, func(t *Tables) { t.Switches[0].Out[6] = 1 },
			[]Hop{{leaf0, 0, 1}, {host0, 1, 0}}, "LID 0x0006 is delivered to Hca0000 port 1, which does not own it"},
		{"wrong switch", topology.PortRef{Node: leaf0}, 6, func(t *Tables) { t.Switches[0].Out[6] = 0 },
			[]Hop{{leaf0, 0, 0}}, "switch Leaf000 takes LID 0x0006 for its own"},
		{"no table", topology.PortRef{Node: leaf0}, 6, func(t *Tables) { t.Switches = t.Switches[1:] },
			[]Hop{{leaf0, 0, 0}}, "there is no table for switch Leaf000 (0x0000000000200000)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tables := build(t, ft)
			if c.change != nil {
				c.change(tables)
			}
			hops, err := tables.Trace(f, c.from, c.lid)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(c.want, hops); diff != "" || text != c.err {
				t.Errorf("error %q, want %q; hops:\n%s", text, c.err, diff)
			}
		})
	}
	t.Run("down", func(t *testing.T) {
		tables, cut := build(t, ft), f.Clone()
		cut.Disconnect(topology.PortRef{Node: leaf0, Port: 2})
		_, err := tables.Trace(cut, topology.PortRef{Node: leaf0}, 6)
		if err == nil || err.Error() != "switch Leaf000 sends LID 0x0006 to port 2, which is down" {
			t.Error(err)
		}
		cut.Disconnect(topology.PortRef{Node: host0, Port: 1})
		_, err = tables.Trace(cut, topology.PortRef{Node: host0, Port: 1}, 6)
		if err == nil || err.Error() != "Hca0000 port 1 is down" {
			t.Error(err)
		}
	})
}
