package fors

import "context"

// pairBounds returns f, m and the lower bound on the phases of a set of pairs. The bound
// is the larger of two. By servers: the most pairs of the set that one server is the
// source, or the destination, of. By leaf: the transfers from a leaf, or to it, must pass
// its living lanes, and those confined to a lane set S need ⌈Σ/|S|⌉ phases; the largest
// such quotient over all S is found exactly by maximum flow. Pairs without a usable common
// lane are left out. The set must be of the tree's servers.
func pairBounds(ctx context.Context, t *Tree, pairs []Pair) (*pairDemands, Bounds, error) {
	demand, err := newPairDemands(ctx, t, pairs)
	if err != nil {
		return nil, Bounds{}, err
	}
	b := demand.damage()
	b.LowerBound, b.Certificate, err = demand.bound(ctx)
	return demand, b, err
}

// pairDemands counts the transfers of a list of pairs by their ends.
type pairDemands struct {
	*demands
	leaf    []int32     // [server]
	degree  [2][]int32  // [end][server]
	between []int32     // [A·leaves + B] transfers, where no lane is closed
	fanned  [2][][]Pair // [end][leaf] the transfers themselves, where some are
	apart   []Pair      // those that no lane joins, which count nowhere
	n       int         // leaves
}

// newPairDemands counts pairs.
func newPairDemands(ctx context.Context, t *Tree, pairs []Pair) (*pairDemands, error) {
	w := &pairDemands{demands: newDemands(t), leaf: t.leafOf(), n: len(t.Slots)}
	w.between = make([]int32, w.n*w.n)
	for end := range w.degree {
		w.degree[end] = make([]int32, len(w.leaf))
		if w.open != nil {
			w.fanned[end] = make([][]Pair, w.n)
		}
	}
	for i, x := range pairs {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		A, B := w.leaf[x.Src], w.leaf[x.Dst]
		if A != B && !w.flow.common(w.up[A], w.up[B], w.openAt(x.Dst)) {
			w.apart = append(w.apart, x)
			continue
		}
		w.degree[outward][x.Src]++
		w.degree[inward][x.Dst]++
		if A == B {
			continue
		}
		w.between[int(A)*w.n+int(B)]++
		if w.open != nil {
			w.fanned[outward][A] = append(w.fanned[outward][A], x)
			w.fanned[inward][B] = append(w.fanned[inward][B], x)
		}
	}
	return w, nil
}

// openAt returns the lanes on which a server can be addressed; nil if all.
func (w *pairDemands) openAt(d Server) LaneSet {
	if w.open == nil {
		return nil
	}
	return w.open[d]
}

// bound returns the lower bound on the phases of the pairs.
func (w *pairDemands) bound(ctx context.Context) (int, Certificate, error) {
	servers := 0
	for end := range w.degree {
		for _, x := range w.degree[end] {
			servers = max(servers, int(x))
		}
	}
	least := servers
	for A := range w.n {
		for end := range w.degree {
			if err := ctx.Err(); err != nil {
				return 0, ByNothing, err
			}
			w.flow.Clear()
			w.fan(end, A)
			least = w.flow.Least(least)
		}
	}
	if least > servers {
		return least, ByLeaf, nil
	}
	return servers, ByServers, nil
}

// fan sets the flow's groups to the transfers out of leaf A, or into it.
func (w *pairDemands) fan(end, A int) {
	if w.open != nil {
		for _, x := range w.fanned[end][A] {
			w.flow.common(w.up[w.leaf[x.Src]], w.up[w.leaf[x.Dst]], w.open[x.Dst])
			w.flow.add(1)
		}
		return
	}
	for B := range w.n {
		from, to := pair(end, A, B)
		if x := w.between[from*w.n+to]; x > 0 {
			w.flow.common(w.up[A], w.up[B], nil)
			w.flow.add(int(x))
		}
	}
}

// load returns the number of transfers out of leaf A, or into it.
func (w *pairDemands) load(end, A int) int {
	sum := 0
	for B := range w.n {
		from, to := pair(end, A, B)
		sum += int(w.between[from*w.n+to])
	}
	return sum
}

// leafOf returns the leaf of each server.
func (t *Tree) leafOf() []int32 {
	leaf := make([]int32, 0, t.Servers())
	for l, slots := range t.Slots {
		for range slots {
			leaf = append(leaf, int32(l))
		}
	}
	return leaf
}
