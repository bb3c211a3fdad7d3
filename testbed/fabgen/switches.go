package fabgen

import (
	"fmt"
	"math/rand/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Attributes of the node on the port behind the last cage of NVIDIA's Quantum switches.
const (
	aggregationVendor = 0x2c9
	aggregationDevice = 0xcf09
	aggregationName   = "Mellanox Technologies Aggregation Node"
	// AggregationGUID plus the switch's GUID is the GUID of an aggregation node.
	AggregationGUID ib.GUID = 0x4000000
)

// WithAggregation is the fabric as Quantum switches show it: each has an aggregation
// node of SHARP on one more port, the last. only limits that to some switches, by their
// names. LIDs are given afresh, with the LMC that the hosts have.
func WithAggregation(f *topology.Fabric, only ...string) *topology.Fabric {
	f = f.Clone()
	lmc := uint8(0)
	for _, e := range f.EndPorts() {
		lmc = max(lmc, e.LMC)
	}
	named := map[string]bool{}
	for _, name := range only {
		named[name] = true
	}
	for i := range len(f.Nodes) {
		n := &f.Nodes[i]
		if n.Kind != topology.Switch || len(only) > 0 && !named[n.Name] {
			continue
		}
		n.Ports = append(n.Ports, topology.Port{Peer: topology.None})
		at := topology.PortRef{Node: int32(i), Port: uint8(len(n.Ports) - 1)}
		g := AggregationGUID + n.GUID
		f.Nodes = append(f.Nodes, topology.Node{Kind: topology.Adapter, GUID: g, System: n.System, Vendor: aggregationVendor, Device: aggregationDevice,
			Name: aggregationName, Ports: []topology.Port{{Peer: topology.None}, {Peer: topology.None, GUID: g + 1}}})
		f.Connect(topology.PortRef{Node: int32(len(f.Nodes) - 1), Port: 1}, at, rate)
	}
	return finished(f, lmc)
}

// PodSpec describes a fat tree of three levels: pods of leaves and spines, each leaf
// joined to each spine of its pod, and each spine to all tops.
type PodSpec struct {
	Pods, Leaves, Spines, Tops, Hosts int
	// Leaf, if not nil, returns the number of leaves of a pod.
	Leaf func(pod int) int
}

// Pods builds it: leaves Leaf000… pod by pod, then spines Mid000…, then tops Top000…; the
// hosts Hca0000… are on the first ports of the leaves. LMC is 0.
func Pods(s PodSpec) *topology.Fabric {
	if s.Leaf == nil {
		s.Leaf = func(int) int { return s.Leaves }
	}
	f := &topology.Fabric{}
	leaves := 0
	for p := range s.Pods {
		leaves += s.Leaf(p)
	}
	for l := range leaves {
		f.Nodes = append(f.Nodes, newSwitch(LeafGUID+ib.GUID(l), fmt.Sprintf("Leaf%03d", l), s.Hosts+s.Spines))
	}
	first := 0
	for p := range s.Pods {
		for m := range s.Spines {
			i := p*s.Spines + m
			f.Nodes = append(f.Nodes, newSwitch(SpineGUID+ib.GUID(i), fmt.Sprintf("Mid%03d", i), s.Leaf(p)+s.Tops))
			for l := range s.Leaf(p) {
				f.Connect(topology.PortRef{Node: int32(first + l), Port: uint8(s.Hosts + 1 + m)}, topology.PortRef{Node: int32(leaves + i), Port: uint8(l + 1)}, rate)
			}
		}
		first += s.Leaf(p)
	}
	mids := s.Pods * s.Spines
	for u := range s.Tops {
		f.Nodes = append(f.Nodes, newSwitch(SpineGUID+0x10000+ib.GUID(u), fmt.Sprintf("Top%03d", u), mids))
	}
	for p := range s.Pods {
		for m := range s.Spines {
			for u := range s.Tops {
				i := p*s.Spines + m
				f.Connect(topology.PortRef{Node: int32(leaves + i), Port: uint8(s.Leaf(p) + 1 + u)}, topology.PortRef{Node: int32(leaves + mids + u), Port: uint8(i + 1)}, rate)
			}
		}
	}
	for l := range leaves {
		for h := range s.Hosts {
			addHost(f, l*s.Hosts+h, topology.PortRef{Node: int32(l), Port: uint8(h + 1)}, rate)
		}
	}
	return finished(f, 0)
}

// finished gives LIDs, and puts the nodes in order.
func finished(f *topology.Fabric, lmc uint8) *topology.Fabric {
	AssignLIDs(f, lmc)
	g, err := topology.NewFabric(f.Nodes, 0)
	if err != nil {
		panic(fmt.Sprintf("fabgen: %v", err)) // the generator's own mistake
	}
	return g
}

// Random joins up to twelve switches at random, with hosts and routers on some of them,
// without regard to any shape. LMC is 0.
func Random(rng *rand.Rand) *topology.Fabric {
	o := &odd{rng: rng, f: &topology.Fabric{}, next: oddGUID, out: &OddFabric{}}
	n := 1 + rng.IntN(12)
	for range n {
		o.aSwitch()
	}
	for range rng.IntN(4 * n) {
		if a, b := rng.IntN(n), rng.IntN(n); a != b {
			o.join(int32(a), int32(b))
		}
	}
	for i := range n {
		for range rng.IntN(4) {
			o.host(fmt.Sprintf("host%06x", uint64(o.next)), int32(i))
			if rng.IntN(10) == 0 {
				o.f.Nodes[len(o.f.Nodes)-1].Kind = topology.Router
			}
		}
	}
	return finished(o.f, 0)
}
