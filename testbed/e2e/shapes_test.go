package e2e

import (
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestShapes brings up fabrics that are not the textbook's, and takes a cable
// out of each.
func TestShapes(t *testing.T) {
	t.Parallel()
	population := make([]int, 18)
	for l := range population {
		population[l] = []int{20, 18, 16}[l%3]
	}
	population[1] = 20
	for _, c := range []struct {
		name            string
		fabric          *topology.Fabric
		lmc             uint8
		servers, phases int
	}{
		{"326 hosts on FT(2;20,18)", fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18, Hosts: population}), 5, 326, 359},
		{"two cables between leaf and spine", fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, Cables: 2, Hosts: []int{8}}), 3, 32, 31},
		{"shuffled cables", fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 5, Shuffle: 11}), 3, 30, 29},
		{"adapter on a spine", withSpineAdapter(fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})), 2, 16, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, s := up(t, 4*time.Minute, Options{Fabric: c.fabric, LMC: c.lmc, Host: fabgen.HostGUID.String()})
			st := x.settled(nil)
			if st.Servers != c.servers || st.Phases > c.phases || st.Gap < 0 {
				t.Errorf("%d servers, %d phases by %s; want %d and at most %d", st.Servers, st.Phases, st.Engine, c.servers, c.phases)
			}
			broken := false
			x.toggle(s, 1, 2, &broken)
			x.settled(Cable(1, 2, "missing"))
			x.unmoved(s, x.check(), 2)
			x.noRoutingErrors()
		})
	}
}

// withSpineAdapter adds an adapter to the first spine, on a new port.
func withSpineAdapter(f *topology.Fabric) *topology.Fabric {
	const guid ib.GUID = 0x400000
	f.Nodes = append(f.Nodes, topology.Node{Kind: topology.Adapter, GUID: guid, System: guid, Name: "Storage",
		Ports: []topology.Port{{Peer: topology.None}, {Peer: topology.None, GUID: guid + 1}}})
	spine := f.Find(fabgen.SpineGUID)
	ports := &f.Nodes[spine].Ports
	*ports = append(*ports, topology.Port{Peer: topology.None})
	f.Connect(topology.PortRef{Node: int32(len(f.Nodes) - 1), Port: 1}, topology.PortRef{Node: spine, Port: uint8(len(*ports) - 1)},
		ib.Rate{Width: 4, Speed: ib.HDR})
	g, err := topology.NewFabric(f.Nodes, 0)
	if err != nil {
		panic(err) // a mistake of this function
	}
	return g
}
