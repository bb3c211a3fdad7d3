package fabgen

import (
	"fmt"
	"math/rand/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// LookAlikes are fabrics with the irregular parts that clusters have, small enough to be
// simulated. The fabrics follow from the seed.
func LookAlikes(seed uint64) map[string]*topology.Fabric {
	return map[string]*topology.Fabric{
		"rail leaves, cables missing": RailLeaves(seed),
		"uneven leaves":               Uneven(seed),
		"rails, one hub":              RailsOnly(4, 8),
		"directors, hosts off":        Directors(seed),
		"login leaf":                  LoginLeaf(seed),
		"two levels, cables missing":  Spoilt(Generate(Spec{Spines: 4, Leaves: 5, Hosts: []int{4, 3}}), seed, 3),
		"three levels, hosts missing": Spoilt(GenerateTree(TreeSpec{Pods: 4, Leaves: 3, Mids: 3, Tops: 3, Hosts: 3, Missing: [][2]int{{0, 1}, {4, 0}, {4, 2}, {9, 1}}}), seed, 2),
		"four levels":                 FourLevels(2),
	}
}

// Spoilt is a fabric without some of its cables between switches, at most one of a switch
// that hosts are on.
func Spoilt(f *topology.Fabric, seed uint64, cables int) *topology.Fabric {
	rng, spoilt := rand.New(rand.NewPCG(seed, 7)), map[int32]bool{}
	for tries := 0; cables > 0 && tries < 1000; tries++ {
		i := int32(rng.IntN(len(f.Nodes)))
		if n := &f.Nodes[i]; n.Kind == topology.Switch && !spoilt[i] {
			p := 1 + rng.IntN(len(n.Ports)-1)
			if peer := n.Ports[p].Peer; peer != topology.None && f.Nodes[peer].Kind == topology.Switch && !spoilt[peer] {
				f.Disconnect(topology.PortRef{Node: i, Port: uint8(p)})
				spoilt[i] = true
				cables--
			}
		}
	}
	return f
}

// RailLeaves is a cluster of servers with several adapters, each on a leaf of its own, under
// spines with two cables to each leaf: leaves with different numbers of hosts, some of which
// lack cables, aggregation nodes, hosts without names of their own, and a host of a fabric
// manager.
func RailLeaves(seed uint64) *topology.Fabric {
	f := WithAggregation(Generate(Spec{Spines: 3, Leaves: 8, Cables: 2, Hosts: []int{6, 5, 6, 5, 7}}))
	f = Spoilt(Spoilt(f, seed, 2), seed+1, 2)
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Kind == topology.Adapter && i%7 == 3 && n.Vendor == 0 {
			n.Name = "MT4129 ConnectX7   Mellanox Technologies"
		}
	}
	return finished(f, 0)
}

// Uneven is a fabric whose leaves have 12, 6 or 4 cables to four spines.
func Uneven(seed uint64) *topology.Fabric {
	f := Generate(Spec{Spines: 4, Leaves: 6, Cables: 3, Hosts: []int{9, 4, 10, 7, 2, 8}, Shuffle: seed | 1})
	for l, keep := range []int{3, 2, 3, 1, 1, 3} { // cables to each spine
		i := f.Find(LeafGUID + ib.GUID(l))
		seen := map[int32]int{}
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if !port.Connected() || f.Nodes[port.Peer].Kind != topology.Switch {
				continue
			}
			if seen[port.Peer]++; seen[port.Peer] > keep || l == 1 && f.Nodes[port.Peer].GUID == SpineGUID {
				f.Disconnect(topology.PortRef{Node: i, Port: uint8(p)})
			}
		}
	}
	return finished(f, 0)
}

// RailsOnly is a cluster without spines: a switch for each rail, each joined by one cable to
// one more switch.
func RailsOnly(rails, hosts int) *topology.Fabric {
	f := Generate(Spec{Spines: 1, Leaves: rails, Hosts: []int{hosts}})
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Kind == topology.Switch {
			n.Name = "Quantum-2 Mellanox Technologies"
		}
	}
	return f
}

// Directors is a tree of three levels whose mids and tops are the switches of directors, with
// their usual names, and with some hosts without a LID.
func Directors(seed uint64) *topology.Fabric {
	f := GenerateTree(TreeSpec{Pods: 2, Leaves: 4, Mids: 4, Tops: 2, Hosts: 4, Shared: 4})
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch g := n.GUID; {
		case g >= TopGUID && n.Kind == topology.Switch:
			n.Name = fmt.Sprintf("MF0;core-1:MCS8500/S%02d/U1", g-TopGUID+1)
		case g >= MidGUID && n.Kind == topology.Switch:
			n.Name = fmt.Sprintf("MF0;core-1:MCS8500/L%02d/U%d", (g-MidGUID)/2+1, (g-MidGUID)%2+1)
		case g >= LeafGUID && n.Kind == topology.Switch:
			n.Name = fmt.Sprintf("MF0;rack-%02d:MQM8700/U1", g-LeafGUID+1)
		default:
			n.Name = fmt.Sprintf("node%03d ibp%ds0f0", (g-HostGUID)/4, (g-HostGUID)/2%2+11)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 8))
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter && rng.IntN(6) == 0 {
			f.Nodes[i].Ports[1].LID = 0
		}
	}
	return f
}

// LoginLeaf is a tree with one more leaf, of a few service hosts, that has two cables only.
func LoginLeaf(seed uint64) *topology.Fabric {
	f := Generate(Spec{Spines: 6, Leaves: 7, Hosts: []int{6, 6, 6, 6, 6, 6, 4}, Shuffle: seed | 1})
	i := f.Find(LeafGUID + 6)
	cables := 0
	for p := range f.Nodes[i].Ports {
		port := &f.Nodes[i].Ports[p]
		switch {
		case !port.Connected():
		case f.Nodes[port.Peer].Kind != topology.Switch:
			f.Nodes[port.Peer].Name = fmt.Sprintf("login%d mlx5_0", p)
		default:
			if cables++; cables > 2 {
				f.Disconnect(topology.PortRef{Node: i, Port: uint8(p)})
			}
		}
	}
	return finished(f, 0)
}

// FourLevels is the k-ary 4-tree: k³ switches on each level, and k hosts on each leaf.
// Switches are S0-000…, by level from the leaves, and position.
func FourLevels(k int) *topology.Fabric {
	f := &topology.Fabric{}
	width := k * k * k
	for level := range 4 {
		for x := range width {
			f.Nodes = append(f.Nodes, newSwitch(LeafGUID+ib.GUID(level*0x10000+x), fmt.Sprintf("S%d-%03d", level, x), 2*k))
		}
	}
	digit := 1 // the digit of the position that a cable changes
	for level := range 3 {
		for x := range width {
			rest := x - x/digit%k*digit
			for d := range k {
				f.Connect(topology.PortRef{Node: int32(level*width + x), Port: uint8(k + 1 + d)},
					topology.PortRef{Node: int32((level+1)*width + rest + d*digit), Port: uint8(1 + x/digit%k)}, rate)
			}
		}
		digit *= k
	}
	for x := range width {
		for h := range k {
			addHost(f, x*k+h, topology.PortRef{Node: int32(x), Port: uint8(h + 1)}, rate)
		}
	}
	return finished(f, 0)
}
