package arrival

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

// TestCheck checks that every fault is found.
func TestCheck(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1})
	leaf, other, host := f.Find(fabgen.LeafGUID), f.Find(fabgen.LeafGUID+1), f.Find(fabgen.HostGUID)
	const up, up2 = 3, 4 // ports of leaves
	for _, tt := range []struct {
		name, want string
		spoil      func(at func(node int32, lid ib.LID) *uint8, dead func(topology.PortRef))
	}{
		{"sound", "", func(func(int32, ib.LID) *uint8, func(topology.PortRef)) {}},
		{"hole", "is lost at", func(at func(int32, ib.LID) *uint8, _ func(topology.PortRef)) {
			*at(other, f.Nodes[host].Ports[1].LID) = lft.NoPath
		}},
		{"dead port", "the dead port", func(_ func(int32, ib.LID) *uint8, dead func(topology.PortRef)) {
			dead(topology.PortRef{Node: leaf, Port: up})
		}},
		{"another host", "is delivered to", func(at func(int32, ib.LID) *uint8, _ func(topology.PortRef)) {
			*at(leaf, f.Nodes[host].Ports[1].LID) = 2
		}},
		{"ring of a LID", "runs in a ring", func(at func(int32, ib.LID) *uint8, _ func(topology.PortRef)) {
			*at(leaf, f.Nodes[host].Ports[1].LID) = up
		}},
		{"ring of channels", "wait for one another", func(at func(int32, ib.LID) *uint8, _ func(topology.PortRef)) {
			// Each spine reaches one leaf by way of another one, and that one by way of the first.
			for l, via := range map[int32]int32{leaf: other, other: leaf} {
				for s := range int32(2) {
					spine := f.Find(fabgen.SpineGUID + ib.GUID(s))
					lid := f.Nodes[l].LID()
					for p := range f.Nodes[spine].Ports {
						if s == 0 && f.Nodes[spine].Ports[p].Up() && f.Nodes[spine].Ports[p].Peer == via {
							*at(spine, lid) = uint8(p)
							*at(via, lid) = up2
						}
					}
				}
			}
			for l, via := range map[int32]int32{leaf: other, other: leaf} {
				spine := f.Find(fabgen.SpineGUID + 1)
				lid := f.Nodes[f.Nodes[l].Ports[1].Peer].Ports[1].LID
				for p := range f.Nodes[spine].Ports {
					if f.Nodes[spine].Ports[p].Up() && f.Nodes[spine].Ports[p].Peer == via {
						*at(spine, lid) = uint8(p)
						*at(via, lid) = up
					}
				}
				for p := range f.Nodes[f.Find(fabgen.SpineGUID)].Ports {
					if port := f.Nodes[f.Find(fabgen.SpineGUID)].Ports[p]; port.Up() && port.Peer == l {
						*at(f.Find(fabgen.SpineGUID), lid) = uint8(p)
					}
				}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tables, err := routed.Tables(f)
			if err != nil {
				t.Fatal(err)
			}
			fabric := f.Clone()
			tt.spoil(func(node int32, lid ib.LID) *uint8 {
				return &tables.Switches[tables.Find(f.Nodes[node].GUID)].Out[lid]
			}, fabric.Disconnect)
			err = Check(fabric, leaf, tables)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
