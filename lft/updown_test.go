package lft

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestChained hangs a switch on a new leaf by two cables, and has one of them be no use: not
// up at either end, or on a port that tables cannot name. The other one then carries
// everything; where both are of use, both do. What hangs on nothing has a table, too.
func TestChained(t *testing.T) {
	wide := func(f *topology.Fabric, i int32) {
		for len(f.Nodes[i].Ports) < 255 {
			addPort(f, i)
		}
	}
	for name, c := range map[string]struct {
		before func(f *topology.Fabric, x, y int32)
		after  func(f *topology.Fabric, x, y topology.PortRef)
		used   bool
	}{
		"both are up":              {nil, nil, true},
		"not up at the far end":    {nil, func(f *topology.Fabric, _, y topology.PortRef) { f.At(y).State = topology.Armed }, false},
		"not up at the near end":   {nil, func(f *topology.Fabric, x, _ topology.PortRef) { f.At(x).State = topology.Init }, false},
		"port 255 at the far end":  {func(f *topology.Fabric, _, y int32) { wide(f, y) }, nil, false},
		"port 255 at the near end": {func(f *topology.Fabric, x, _ int32) { wide(f, x) }, nil, false},
	} {
		var a, b topology.PortRef // the ends of the second cable
		ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2}), func(f *topology.Fabric) {
			addSwitch(f, 0xA00000, f.Find(fabgen.SpineGUID))
			x := int32(len(f.Nodes) - 2)
			addSwitch(f, 0xA10000, x)
			y := int32(len(f.Nodes) - 2)
			if c.before != nil {
				c.before(f, x, y)
			}
			a, b = addPort(f, x), addPort(f, y)
			f.Connect(a, b, hdr)
			if c.after != nil {
				c.after(f, a, b)
			}
			f.Nodes = append(f.Nodes, topology.Node{Kind: topology.Switch, GUID: 0xC00000, Ports: []topology.Port{{Peer: topology.None}}})
			fabgen.AssignLIDs(f, 2)
			f.Nodes = append(f.Nodes, topology.Node{Kind: topology.Switch, GUID: 0xC00001})
		})
		f, tables := ft.Fabric, build(t, ft)
		w := newWalker(f, tables)
		lone := int32(len(f.Nodes) - 2)
		for _, lid := range LIDs(f) {
			for i := range f.Nodes {
				if f.Nodes[i].Kind != topology.Switch {
					continue
				}
				path, arrived, err := w.walk(int32(i), lid)
				if want := int32(i) < lone && lid != f.Nodes[lone].LID() || int32(i) == lone && lid == f.Nodes[lone].LID(); err != nil || arrived != want {
					t.Errorf("%s: LID %d from switch %d: %v, %v", name, lid, i, path, err)
				}
			}
		}
		for _, end := range []topology.PortRef{a, b} {
			if out := w.table[f.Nodes[end.Node].GUID]; slices.Contains(out, end.Port) != c.used && end.Port != NoPath {
				t.Errorf("%s: entries lead to port %d: %t", name, end.Port, !c.used)
			}
		}
	}
}

// TestGate hangs a switch on a leaf, and a second one on a leaf and the first, and has a spine
// lose its cables to both leaves: it sends what goes to a switch outside the tree as it sends
// what goes to the leaf nearest to that.
func TestGate(t *testing.T) {
	for near := range int32(4) {
		for far := range int32(4) {
			if near == far {
				continue
			}
			var ends [2]int32
			ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 4, Cables: 5}), func(f *topology.Fabric) {
				leaf := f.Find(fabgen.LeafGUID)
				addSwitch(f, 0xA00000, leaf+far)
				ends[1] = int32(len(f.Nodes) - 2)
				addSwitch(f, 0xA10000, leaf+near, ends[1])
				ends[0] = int32(len(f.Nodes) - 2)
				fabgen.AssignLIDs(f, 1)
				for _, c := range cables(f) {
					if f.Nodes[f.At(c).Peer].GUID == fabgen.SpineGUID+1 && (c.Node == leaf+near || c.Node == leaf+far) {
						f.Disconnect(c)
					}
				}
			})
			f, tables := ft.Fabric, build(t, ft)
			w := newWalker(f, tables)
			spine := w.table[fabgen.SpineGUID+1]
			for i, leaf := range []int32{near, far} {
				sw := &f.Nodes[ends[i]]
				as := spine[f.Nodes[f.Find(fabgen.LeafGUID)+leaf].LID()]
				host := f.Nodes[ends[i]+1].Ports[1].LID
				for _, lid := range []ib.LID{sw.LID(), host, host + 1} {
					path, arrived, err := w.walk(f.Find(fabgen.SpineGUID+1), lid)
					if !arrived || err != nil {
						t.Errorf("leaves %d and %d: LID %d takes %v: %v", near, far, lid, path, err)
					} else if spine[lid] != as {
						t.Errorf("leaves %d and %d: LID %d goes by port %d, and to leaf %d by %d", near, far, lid, spine[lid], leaf, as)
					}
				}
			}
		}
	}
}
