package linkstate

import (
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// BenchmarkTrap handles a trap, the leaf's answer and the sweep that follows, on
// FT(2;32,32).
func BenchmarkTrap(b *testing.B) {
	f := fabgen.Generate(fabgen.Spec{Spines: 32, Leaves: 32})
	leaf := f.Find(fabgen.LeafGUID + 7)
	trunks := f.Trunks(leaf)
	said := Answer{Switch: f.Nodes[leaf].GUID}
	for _, p := range trunks {
		said.Ports = append(said.Ports, Port{Number: p, State: topology.Active})
	}
	said.Ports[3].State = topology.Down
	cut := f.Without(topology.PortRef{Node: leaf, Port: trunks[3]})
	for _, part := range []string{"trap and answer", "sweep"} {
		b.Run(part, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				l := New(Settings{Reads: true})
				l.Step(start, Shown{Fabric: f})
				b.StartTimer()
				if part == "sweep" {
					l.Step(start, Shown{Fabric: cut, Swept: true})
					continue
				}
				l.Step(start, Trap{LID: f.Nodes[leaf].LID(), At: start})
				l.Step(start, PortsRead{[]Answer{said}})
				l.Wake()
			}
		})
	}
}
