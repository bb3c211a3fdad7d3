package liquid

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Routes is the set of transfers between hosts of a running fabric, on the paths of its
// forwarding tables.
type Routes struct {
	Fabric  *topology.Fabric
	Tables  *lft.Tables
	Hosts   []topology.EndPort // pairs hold indices into it
	Traffic *Traffic
	// Cut lists the pairs without a path from source to destination in the tables; they
	// are not in the traffic.
	Cut []CutPair

	first []int32 // [node] number of the link out of its port 0
}

// CutPair is a pair of hosts without a path, and the reason.
type CutPair struct {
	Pair
	Reason error
}

// Trace takes the paths of pairs of hosts, by their base LIDs, from forwarding
// tables. Nil pairs mean all pairs of different hosts. Links are the directed cables
// of the fabric, with their actual speeds; an unknown speed counts as the fastest.
// Trace fails on a pair of a host with itself or with one that does not exist.
func Trace(f *topology.Fabric, tables *lft.Tables, hosts []topology.EndPort, pairs []Pair) (*Routes, error) {
	r := &Routes{Fabric: f, Tables: tables, Hosts: hosts, first: make([]int32, len(f.Nodes)+1)}
	for i := range f.Nodes {
		r.first[i+1] = r.first[i] + int32(len(f.Nodes[i].Ports))
	}
	if pairs == nil {
		pairs = allPairs(len(hosts))
	}
	paths := make([][]Link, 0, len(pairs))
	joined := make([]Pair, 0, len(pairs))
	var links []Link // of all paths, one after the other
	for i, p := range pairs {
		if p.Src < 0 || int(p.Src) >= len(hosts) || p.Dst < 0 || int(p.Dst) >= len(hosts) || p.Src == p.Dst {
			return nil, fmt.Errorf("trace pairs of hosts: pair %d is %d→%d: want two different ones of %d hosts", i, p.Src, p.Dst, len(hosts))
		}
		hops, err := tables.Trace(f, hosts[p.Src].PortRef, hosts[p.Dst].LID)
		if err == nil {
			err = arrives(f, hops, hosts[p.Dst])
		}
		if err != nil {
			r.Cut = append(r.Cut, CutPair{p, err})
			continue
		}
		start := len(links)
		for _, h := range hops[:len(hops)-1] {
			links = append(links, Link(r.first[h.Node]+int32(h.Out)))
		}
		paths, joined = append(paths, links[start:len(links):len(links)]), append(joined, p)
	}
	var err error
	if r.Traffic, err = NewTraffic(int(r.first[len(f.Nodes)]), joined, paths); err != nil {
		return nil, err
	}
	return r, r.Traffic.SetRates(r.rates())
}

// arrives returns an error if a trace does not end at the port of dst, since two
// adapters may have the same LID.
func arrives(f *topology.Fabric, hops []lft.Hop, dst topology.EndPort) error {
	last := hops[len(hops)-1]
	if last.Node != dst.Node || last.In != dst.Port {
		return fmt.Errorf("LID 0x%04x is delivered to %s", dst.LID, f.PortLabel(topology.PortRef{Node: last.Node, Port: last.In}))
	}
	return nil
}

// allPairs returns each ordered pair of n hosts once.
func allPairs(n int) []Pair {
	pairs := make([]Pair, 0, n*max(0, n-1))
	for src := range n {
		for dst := range n {
			if src != dst {
				pairs = append(pairs, Pair{int32(src), int32(dst)})
			}
		}
	}
	return pairs
}

// rates returns the speed of every link in Gb/s: that of the slower end.
func (r *Routes) rates() []float64 {
	rates := make([]float64, r.first[len(r.Fabric.Nodes)])
	fastest := 0.0
	for i := range r.Fabric.Nodes {
		for p := range r.Fabric.Nodes[i].Ports {
			port := &r.Fabric.Nodes[i].Ports[p]
			if !port.Connected() {
				continue
			}
			rate := port.Rate.Gbps()
			if far := r.Fabric.Nodes[port.Peer].Ports[port.PeerPort].Rate.Gbps(); far > 0 && (rate == 0 || far < rate) {
				rate = far
			}
			rates[r.first[i]+int32(p)] = rate
			fastest = max(fastest, rate)
		}
	}
	fastest = cmp.Or(fastest, 1)
	for l, rate := range rates {
		if rate == 0 {
			rates[l] = fastest
		}
	}
	return rates
}

// LinkName names a link by both ends of its cable, in the direction of the
// traffic: "Leaf000 port 21 – Spine003 port 1".
func (r *Routes) LinkName(l Link) string {
	node, _ := slices.BinarySearch(r.first, int32(l)+1)
	node--
	return r.Fabric.CableLabel(topology.PortRef{Node: int32(node), Port: uint8(int32(l) - r.first[node])})
}
