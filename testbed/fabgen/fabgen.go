// Package fabgen generates fat trees of two levels, FT(2;M0,M1), and of three, for
// tests, benchmarks and the simulated demo: any population, parallel cables,
// arbitrary cabling order.
package fabgen

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Spec describes a fat tree. The zero values of the optional fields give the
// full tree in orderly cabling.
type Spec struct {
	Spines int // M0
	Leaves int // M1
	// Hosts is the number of hosts of each leaf; nil means Spines on every
	// leaf, a shorter list is repeated.
	Hosts []int
	// Missing lists hosts left out, as "leaf/slot" pairs: the leaf's port stays
	// empty.
	Missing [][2]int
	Cables  int   // parallel cables between a leaf and a spine; 0 means 1
	LMC     uint8 // of the host ports
	Rate    ib.Rate
	Shuffle uint64 // seed that permutes the switch ports of leaf–spine cables; 0 leaves them in order
}

// GUIDs of generated nodes count up from these; a host's port GUID is its node
// GUID plus one.
const (
	LeafGUID  ib.GUID = 0x200000
	SpineGUID ib.GUID = 0x300000
	HostGUID  ib.GUID = 0x100000
)

// HostsOn returns the number of host slots of a leaf.
func (s *Spec) HostsOn(leaf int) int {
	if len(s.Hosts) == 0 {
		return s.Spines
	}
	return s.Hosts[leaf%len(s.Hosts)]
}

func (s *Spec) missing(leaf, slot int) bool {
	for _, m := range s.Missing {
		if m == [2]int{leaf, slot} {
			return true
		}
	}
	return false
}

// Generate builds the fabric: hosts Hca0000…, leaves Leaf000…, spines
// Spine000…; host slot α of a leaf is on leaf port α+1, the uplinks follow.
// LIDs are dense: switches first, then hosts, aligned to 2^LMC.
func Generate(s Spec) *topology.Fabric {
	s.Cables = cmp.Or(s.Cables, 1)
	if s.Rate == (ib.Rate{}) {
		s.Rate = ib.Rate{Width: 4, Speed: ib.HDR}
	}
	slots := 0
	for l := range s.Leaves {
		slots = max(slots, s.HostsOn(l))
	}
	up := s.Spines * s.Cables
	var nodes []topology.Node
	for l := range s.Leaves {
		nodes = append(nodes, newSwitch(LeafGUID+ib.GUID(l), fmt.Sprintf("Leaf%03d", l), slots+up))
	}
	for k := range s.Spines {
		nodes = append(nodes, newSwitch(SpineGUID+ib.GUID(k), fmt.Sprintf("Spine%03d", k), s.Leaves*s.Cables))
	}
	f := &topology.Fabric{Nodes: nodes}
	rng := rand.New(rand.NewPCG(s.Shuffle, 1))
	order := func(n int) []int {
		if s.Shuffle != 0 {
			return rng.Perm(n)
		}
		p := make([]int, n)
		for i := range p {
			p[i] = i
		}
		return p
	}
	spinePort := make([][]int, s.Spines)
	for k := range spinePort {
		spinePort[k] = order(s.Leaves * s.Cables)
	}
	number := 0
	for l := range s.Leaves {
		ports := order(up)
		for k := range s.Spines {
			for c := range s.Cables {
				f.Connect(topology.PortRef{Node: int32(l), Port: uint8(slots + 1 + ports[k*s.Cables+c])},
					topology.PortRef{Node: int32(s.Leaves + k), Port: uint8(1 + spinePort[k][l*s.Cables+c])}, s.Rate)
			}
		}
		for a := range s.HostsOn(l) {
			if !s.missing(l, a) {
				addHost(f, number, topology.PortRef{Node: int32(l), Port: uint8(a + 1)}, s.Rate)
			}
			number++
		}
	}
	return finished(f, s.LMC)
}

func newSwitch(g ib.GUID, name string, ports int) topology.Node {
	n := topology.Node{Kind: topology.Switch, GUID: g, System: g, Name: name, Ports: make([]topology.Port, ports+1)}
	for p := range n.Ports {
		n.Ports[p].Peer = topology.None
	}
	n.Ports[0].GUID, n.Ports[0].State = g, topology.Active
	return n
}

func addHost(f *topology.Fabric, number int, at topology.PortRef, rate ib.Rate) {
	g := HostGUID + ib.GUID(2*number)
	f.Nodes = append(f.Nodes, topology.Node{Kind: topology.Adapter, GUID: g, System: g, Name: fmt.Sprintf("Hca%04d", number),
		Ports: []topology.Port{{Peer: topology.None}, {Peer: topology.None, GUID: g + 1}}})
	f.Connect(topology.PortRef{Node: int32(len(f.Nodes) - 1), Port: 1}, at, rate)
}

// AssignLIDs numbers the end ports afresh: switches from 1, then the other
// ports in ascending GUID, each base LID aligned to 2^lmc.
func AssignLIDs(f *topology.Fabric, lmc uint8) {
	next := 1
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			f.Nodes[i].Ports[0].LID = ib.LID(next)
			next++
		}
	}
	size := 1 << lmc
	next = (next + size - 1) / size * size
	for _, e := range f.EndPorts() {
		if f.Nodes[e.Node].Kind != topology.Switch {
			p := f.At(e.PortRef)
			p.LID, p.LMC = ib.LID(next), lmc
			next += size
		}
	}
}
