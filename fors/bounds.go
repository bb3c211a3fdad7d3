package fors

import (
	"context"
	"slices"
)

// ComputeBounds returns f, m and the lower bound on the phases of a tree. The bound is the
// larger of two. By servers: a server sends to, and receives from, every server that it can
// reach, P−1 if all can be reached. By leaf: leaf A with n_A servers moves n_A·n_B
// transfers to leaf B, and those confined to a lane set S need ⌈Σ/|S|⌉ phases; the largest
// such quotient over all S is found exactly by maximum flow. Pairs without a usable common
// lane and leaves without servers are left out.
// Servers of different exchanges send each other nothing.
func ComputeBounds(t *Tree) Bounds {
	if t.Mixed() {
		_, b, _ := pairBounds(context.Background(), t, t.Demand().List()) // fails only if the context ends
		return b
	}
	return newDemands(t).bounds()
}

func (w *demands) bounds() Bounds {
	b := w.damage()
	b.LowerBound, b.Certificate = w.serverBound(), ByServers
	if leaf := w.leafBound(b.LowerBound); leaf > b.LowerBound {
		b.LowerBound, b.Certificate = leaf, ByLeaf
	}
	return b
}

// damage returns f and m.
func (w *demands) damage() (b Bounds) {
	t := w.t
	down := NewLaneSet(t.Lanes)
	for _, leaf := range w.leaves {
		up := w.up[leaf]
		b.Reduction = max(b.Reduction, len(t.Slots[leaf])-up.Size())
		for i := range down {
			down[i] |= w.all[i] &^ up[i]
		}
	}
	b.Affected = down.Size()
	return b
}

// demands computes, leaf by leaf, which transfers are confined to which lanes.
type demands struct {
	t      *Tree
	leaves []int     // those with servers
	base   []Server  // [leaf] its first server
	all    LaneSet   // every lane
	up     []LaneSet // [leaf]
	to     []LaneSet // [leaf] lanes that lead to it: those up, unless spines are known
	open   []LaneSet // [server] lanes on which it can be addressed; nil if all are open
	flow   LaneFlow
}

func newDemands(t *Tree) *demands {
	w := &demands{t: t, base: make([]Server, len(t.Slots)), all: NewLaneSet(t.Lanes), up: make([]LaneSet, len(t.Slots))}
	for k := range t.Lanes {
		w.all.Add(k)
	}
	servers := 0
	for leaf, slots := range t.Slots {
		w.base[leaf] = Server(servers)
		servers += len(slots)
		if len(slots) > 0 {
			w.leaves = append(w.leaves, leaf)
		}
		w.up[leaf] = NewLaneSet(t.Lanes)
		for k, up := range t.Up[leaf] {
			if up {
				w.up[leaf].Add(k)
			}
		}
	}
	w.to, w.open = w.up, openLanes(t, servers)
	w.flow.Reset(t.Lanes)
	return w
}

// openLanes returns, per server, the lanes on which it can be addressed; nil if all are
// open.
func openLanes(t *Tree, servers int) []LaneSet {
	if t.Closed == nil {
		return nil
	}
	open := make([]LaneSet, servers)
	for d := range open {
		open[d] = NewLaneSet(t.Lanes)
		for k := range t.Lanes {
			if !t.Closed(Server(d), Lane(k)) {
				open[d].Add(k)
			}
		}
	}
	return open
}

// sameExchange reports whether two leaves, in one exchange each, are in the same.
func (w *demands) sameExchange(A, B int) bool { return w.t.sameExchange(w.base[A], w.base[B]) }

// fan sets the flow's groups to the transfers from leaf A to leaf B; all of
// them count under the same lane set unless lanes are closed. It returns the
// number of servers of B that A can reach.
func (w *demands) fan(A, B int) (reached int) {
	nA, nB := len(w.t.Slots[A]), len(w.t.Slots[B])
	if !w.sameExchange(A, B) {
		return 0
	}
	if w.open == nil {
		if !w.flow.common(w.up[A], w.to[B], nil) {
			return 0
		}
		w.flow.add(nA * nB)
		return nB
	}
	for d := w.base[B]; d < w.base[B]+Server(nB); d++ {
		if w.flow.common(w.up[A], w.up[B], w.open[d]) {
			w.flow.add(nA)
			reached++
		}
	}
	return reached
}

// serverBound returns the most peers that one server sends to or receives from.
func (w *demands) serverBound() int {
	bound := 0
	for _, A := range w.leaves {
		local := len(w.t.Slots[A]) - 1
		w.flow.Clear()
		reached := 0
		for _, B := range w.leaves {
			if A != B {
				reached += w.fan(A, B)
			}
		}
		bound = max(bound, local+reached)
		if w.open == nil {
			continue // as many receive from A's servers as they send to
		}
		for d := w.base[A]; d <= w.base[A]+Server(local); d++ {
			bound = max(bound, local+w.heard(A, d))
		}
	}
	return bound
}

// heard returns the number of servers of other leaves that reach server d of leaf B.
func (w *demands) heard(B int, d Server) int {
	n := 0
	for _, A := range w.leaves {
		if A != B && w.sameExchange(A, B) && w.flow.common(w.up[A], w.up[B], w.open[d]) {
			n += len(w.t.Slots[A])
		}
	}
	return n
}

// leafBound returns the larger of least and the leaf bound over all leaves,
// each with its transfers out and, where closed lanes make them differ, in.
// Leaves with the same lanes and the same number of servers have the same bound.
func (w *demands) leafBound(least int) int {
	for i, A := range w.leaves {
		if w.open == nil && w.twin(i) {
			continue
		}
		w.flow.Clear()
		for _, B := range w.leaves {
			if A != B {
				w.fan(A, B)
			}
		}
		least = w.flow.Least(least)
		if w.open == nil {
			continue
		}
		w.flow.Clear()
		for _, B := range w.leaves {
			if A != B {
				w.fan(B, A)
			}
		}
		least = w.flow.Least(least)
	}
	return least
}

// twin reports whether a leaf before the i-th has the same lanes and as many servers.
func (w *demands) twin(i int) bool {
	A := w.leaves[i]
	for _, B := range w.leaves[:i] {
		if len(w.t.Slots[A]) == len(w.t.Slots[B]) && w.sameExchange(A, B) && slices.Equal(w.up[A], w.up[B]) {
			return true
		}
	}
	return false
}
