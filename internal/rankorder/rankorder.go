// Package rankorder orders the hosts of a job so that programs with fixed patterns do not send
// over the same cable at once. The patterns are a ring, in which each rank sends to the next,
// and recursive doubling, in which ranks whose numbers differ in one bit exchange in each step.
// Both use base LIDs and the current forwarding tables; only the assignment of ranks to hosts
// changes.
package rankorder

import (
	"context"
	"fmt"
	"slices"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Order is an order of hosts, and its effect on the cables between switches.
type Order struct {
	Order []int // hosts in order of ranks, as indices into the given hosts
	// Ring is the largest number of transfers on a cable, in one direction, when every rank
	// sends to the next, and the last to the first. Doubling is that of the worst step of
	// recursive doubling.
	Ring, Doubling int
	// RingBound and DoublingBound are lower bounds for every order of these hosts with these
	// tables.
	RingBound, DoublingBound int
}

// Find orders hosts, which are adapters on switches as listed by
// topology.Fabric.ConnectedHosts, with perHost consecutive ranks each. It returns an error if
// the tables do not lead from one of them to another, or if ctx ends. The same input yields the
// same order.
func Find(ctx context.Context, f *topology.Fabric, tables *lft.Tables, hosts []topology.EndPort, perHost int) (*Order, error) {
	if len(hosts) == 0 || perHost < 1 {
		return nil, fmt.Errorf("order ranks: %d hosts of %d ranks: want 1 or more of both", len(hosts), perHost)
	}
	r, err := newRoutes(f, tables, hosts)
	if err != nil {
		return nil, fmt.Errorf("order ranks: %w", err)
	}
	o := &Order{RingBound: min(1, len(r.leaves)-1), DoublingBound: r.doublingBound(perHost)}
	good := func(p *placement) bool {
		ring, doubling := p.most()
		return ring <= o.RingBound && doubling <= o.DoublingBound
	}
	best := newPlacement(r, perHost, slices.Concat(r.leaves...)) // a ring leaves each leaf once
	best.improve(ctx, good)
	if !good(best) {
		other := newPlacement(r, perHost, r.inBlocks())
		if other.improve(ctx, good); other.better(best) {
			best = other
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for _, h := range best.host {
		o.Order = append(o.Order, int(h))
	}
	o.Ring, o.Doubling = best.most()
	return o, nil
}

// routes has the paths between hosts.
type routes struct {
	hosts  int
	leaf   []int32     // [host] its leaf; leaves near each other have consecutive numbers
	leaves [][]int32   // [leaf] hosts
	way    [][][]int32 // [leaf][host] links between switches
	links  int
}

func newRoutes(f *topology.Fabric, tables *lft.Tables, hosts []topology.EndPort) (*routes, error) {
	r := &routes{hosts: len(hosts), leaf: make([]int32, len(hosts))}
	var nodes []int32 // [leaf]
	at := map[int32]int32{}
	for i := range hosts {
		node := f.At(hosts[i].PortRef).Peer
		if _, known := at[node]; !known {
			at[node] = int32(len(nodes))
			nodes = append(nodes, node)
		}
	}
	for i, n := range inOrder(f, nodes) {
		at[n] = int32(i)
	}
	r.leaves = make([][]int32, len(nodes))
	for i := range hosts {
		l := at[f.At(hosts[i].PortRef).Peer]
		r.leaf[i] = l
		r.leaves[l] = append(r.leaves[l], int32(i))
	}
	number := map[topology.PortRef]int32{}
	r.way = make([][][]int32, len(nodes))
	for l, on := range r.leaves {
		r.way[l] = make([][]int32, len(hosts))
		for d := range hosts {
			if int(r.leaf[d]) == l {
				continue
			}
			hops, err := tables.Trace(f, hosts[on[0]].PortRef, hosts[d].LID)
			if err != nil {
				return nil, err
			}
			for _, hop := range hops[1 : len(hops)-2] {
				out := topology.PortRef{Node: hop.Node, Port: hop.Out}
				if _, known := number[out]; !known {
					number[out] = int32(len(number))
				}
				r.way[l][d] = append(r.way[l][d], number[out])
			}
		}
	}
	r.links = len(number)
	return r, nil
}

// inOrder orders leaves so that each follows the nearest one before it: the leaves of a pod are
// together.
func inOrder(f *topology.Fabric, leaves []int32) []int32 {
	left := slices.Sorted(slices.Values(leaves))
	order := left[:1:1]
	for left = left[1:]; len(left) > 0; {
		far := distances(f, order[len(order)-1])
		near := 0
		for i := range left {
			if far[left[i]] < far[left[near]] {
				near = i
			}
		}
		order = append(order, left[near])
		left = slices.Delete(left, near, near+1)
	}
	return order
}

// distances returns the distances of all switches from one. An unreachable switch has a
// distance beyond any other.
func distances(f *topology.Fabric, from int32) []int {
	far := make([]int, len(f.Nodes))
	for i := range far {
		far[i] = len(f.Nodes)
	}
	far[from] = 0
	for queue := []int32{from}; len(queue) > 0; queue = queue[1:] {
		for p := range f.Nodes[queue[0]].Ports {
			port := &f.Nodes[queue[0]].Ports[p]
			if port.Up() && f.Nodes[port.Peer].Kind == topology.Switch && far[port.Peer] == len(f.Nodes) {
				far[port.Peer] = far[queue[0]] + 1
				queue = append(queue, port.Peer)
			}
		}
	}
	return far
}

// inBlocks returns an order of blocks of 2^k hosts of one leaf, large ones first, so that
// the partners of a block are together in every step.
func (r *routes) inBlocks() (order []int32) {
	for size := 1 << 30; size > 0; size /= 2 {
		for _, on := range r.leaves {
			if len(on)&size != 0 {
				begin := len(on) &^ (2*size - 1)
				order = append(order, on[begin:begin+size]...)
			}
		}
	}
	return order
}
