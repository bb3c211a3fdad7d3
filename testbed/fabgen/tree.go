package fabgen

import (
	"fmt"
	"math/rand/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// TreeSpec describes a fat tree of three levels: leaves and mids in pods, and mid j of
// every pod with cables to the tops of plane j.
type TreeSpec struct {
	Pods   int
	Leaves int // of a pod
	Mids   int // of a pod: planes
	Tops   int // of a plane
	Hosts  int // of a leaf
	// Missing lists hosts left out, as "leaf/slot" pairs: the leaf's port stays empty.
	Missing    [][2]int
	LeafCables int // parallel cables between a leaf and a mid; 0 means 1
	TopCables  int // parallel cables between a mid and a top; 0 means 1
	Shared     int // planes that the switches of the highest level serve together; 0 means 1
	LMC        uint8
	Rate       ib.Rate
	Shuffle    uint64 // seed that permutes the ports of cables between switches; 0 leaves them in order
}

// KAry is the k-ary 3-tree of switches with k ports: k pods, k³/4 hosts.
func KAry(k int) TreeSpec {
	return TreeSpec{Pods: k, Leaves: k / 2, Mids: k / 2, Tops: k / 2, Hosts: k / 2}
}

// GUIDs of mids and tops count up from these; leaves and hosts are as in two levels.
const (
	MidGUID ib.GUID = SpineGUID
	TopGUID ib.GUID = 0x400000
)

// GenerateTree builds the fabric: hosts Hca0000…, leaves Leaf000… and mids Mid000… pod by
// pod, tops Top000… plane by plane. Host slot α of a leaf is on port α+1, cables upwards
// follow; the cables of a mid downwards come first. LIDs are dense, as in Generate.
func GenerateTree(s TreeSpec) *topology.Fabric {
	s.LeafCables, s.TopCables, s.Shared = max(1, s.LeafCables), max(1, s.TopCables), max(1, s.Shared)
	if s.Rate == (ib.Rate{}) {
		s.Rate = rate
	}
	groups := (s.Mids + s.Shared - 1) / s.Shared
	leaves, mids, tops := s.Pods*s.Leaves, s.Pods*s.Mids, groups*s.Tops
	rng := rand.New(rand.NewPCG(s.Shuffle, 1))
	f := &topology.Fabric{}
	var order [][]int // [switch] the place of each port between switches
	add := func(g ib.GUID, name string, hosts, ports int) {
		f.Nodes = append(f.Nodes, newSwitch(g, name, hosts+ports))
		places := make([]int, ports)
		for i := range places {
			places[i] = hosts + 1 + i
		}
		if s.Shuffle != 0 {
			rng.Shuffle(ports, func(a, b int) { places[a], places[b] = places[b], places[a] })
		}
		order = append(order, places)
	}
	for l := range leaves {
		add(LeafGUID+ib.GUID(l), fmt.Sprintf("Leaf%03d", l), s.Hosts, s.Mids*s.LeafCables)
	}
	for m := range mids {
		add(MidGUID+ib.GUID(m), fmt.Sprintf("Mid%03d", m), 0, s.Leaves*s.LeafCables+s.Tops*s.TopCables)
	}
	for t := range tops {
		add(TopGUID+ib.GUID(t), fmt.Sprintf("Top%03d", t), 0, s.Pods*s.Shared*s.TopCables)
	}
	at := func(node, port int) topology.PortRef {
		return topology.PortRef{Node: int32(node), Port: uint8(order[node][port])}
	}
	for p := range s.Pods {
		for j := range s.Mids {
			mid := leaves + p*s.Mids + j
			for l := range s.Leaves {
				for c := range s.LeafCables {
					f.Connect(at(p*s.Leaves+l, j*s.LeafCables+c), at(mid, l*s.LeafCables+c), s.Rate)
				}
			}
			for u := range s.Tops {
				for c := range s.TopCables {
					f.Connect(at(mid, s.Leaves*s.LeafCables+u*s.TopCables+c),
						at(leaves+mids+j/s.Shared*s.Tops+u, (p*s.Shared+j%s.Shared)*s.TopCables+c), s.Rate)
				}
			}
		}
	}
	missing := map[[2]int]bool{}
	for _, m := range s.Missing {
		missing[m] = true
	}
	for l := range leaves {
		for a := range s.Hosts {
			if !missing[[2]int{l, a}] {
				addHost(f, l*s.Hosts+a, topology.PortRef{Node: int32(l), Port: uint8(a + 1)}, s.Rate)
			}
		}
	}
	return finished(f, s.LMC)
}

// Damage is the extent of failures of a fat tree of three levels.
type Damage struct{ LeafCables, TopCables, Mids, Tops int }

// Draw draws failures, as arguments of topology.Fabric.Fail, different ones each.
func (s *TreeSpec) Draw(rng *rand.Rand, d Damage) []string {
	var out []string
	seen := map[string]bool{}
	draw := func(count int, one func() string) {
		for tries := 0; count > 0 && tries < 1000; tries++ {
			if x := one(); !seen[x] {
				seen[x] = true
				out = append(out, x)
				count--
			}
		}
	}
	leafCables, topCables := max(1, s.LeafCables), max(1, s.TopCables)
	draw(d.LeafCables, func() string {
		return fmt.Sprintf("Leaf%03d/%d", rng.IntN(s.Pods*s.Leaves), s.Hosts+1+rng.IntN(s.Mids*leafCables))
	})
	draw(d.TopCables, func() string {
		return fmt.Sprintf("Mid%03d/%d", rng.IntN(s.Pods*s.Mids), s.Leaves*leafCables+1+rng.IntN(s.Tops*topCables))
	})
	draw(d.Mids, func() string { return fmt.Sprintf("Mid%03d", rng.IntN(s.Pods*s.Mids)) })
	draw(d.Tops, func() string {
		return fmt.Sprintf("Top%03d", rng.IntN((s.Mids+max(1, s.Shared)-1)/max(1, s.Shared)*s.Tops))
	})
	return out
}
