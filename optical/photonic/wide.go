package photonic

import (
	"context"
	"slices"
)

// wideGreedy is a sequence of circulants of degree k ≥ 2 whose offsets are chosen for
// their savings. Each class stays on the circulant on which it takes the fewest hops.
type wideGreedy struct {
	n, k   int
	hops   [][]int32  // [class][switch]
	by     []int      // [class] the topology
	least  []int32    // [class] hops
	routes []*routing // [topology] of the classes served there
	search *stepSearch
}

// newWideGreedy starts with one topology. The search must have k sets.
func newWideGreedy(ctx context.Context, n, k int, search *stepSearch) (*wideGreedy, error) {
	w := &wideGreedy{n: n, k: k, hops: make([][]int32, n), by: make([]int, n), least: slices.Repeat([]int32{far}, n), search: search}
	first, err := carryRouting(ctx, n, k, search.Sets[k-1])
	if err != nil {
		return nil, err
	}
	w.add(first.offsets)
	w.routes = []*routing{first}
	return w, nil
}

// add adds a topology; classes that it serves in fewer hops move to it.
func (w *wideGreedy) add(offsets []int) {
	st := newStages(w.n, offsets, nil)
	for x := 1; x < w.n; x++ {
		if h := st[w.k][x]; h < w.least[x] {
			w.hops[x] = make([]int32, w.k)
			st.split(offsets, x, w.hops[x])
			w.least[x], w.by[x] = h, len(w.routes)
		}
	}
}

// next adds a topology, and reports false if every class has a direct link.
func (w *wideGreedy) next(ctx context.Context) (bool, error) {
	if slices.Max(w.least[1:]) <= 1 {
		return false, nil
	}
	offsets, err := w.choose(ctx)
	if err != nil {
		return false, err
	}
	old := slices.Clone(w.by)
	w.add(offsets)
	r := newRouting(w.n, w.k, offsets)
	at := len(w.routes)
	for x := 1; x < w.n; x++ {
		if w.by[x] == at {
			w.routes[old[x]].set(x, make([]int32, w.k))
			r.set(x, w.hops[x])
		}
	}
	w.routes = append(w.routes, r)
	return true, r.balance(ctx)
}

// choose picks k offsets one by one, then repicks each with the others fixed.
func (w *wideGreedy) choose(ctx context.Context) (offsets []int, err error) {
	for range w.k {
		a, _, err := w.search.best(ctx, w.search.base(offsets, -1), w.least, offsets, lateEffort)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, a)
	}
	for i := range offsets {
		others := slices.Delete(slices.Clone(offsets), i, i+1)
		if offsets[i], _, err = w.search.best(ctx, w.search.base(others, -1), w.least, others, lateEffort); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

// routing returns the routing of all topologies so far.
func (w *wideGreedy) routing() *routing {
	r := newRouting(w.n, w.k, nil)
	for _, t := range w.routes {
		r.offsets = append(r.offsets, t.offsets...)
	}
	r = newRouting(w.n, w.k, r.offsets)
	hops := make([]int32, len(r.offsets))
	for x := 1; x < w.n; x++ {
		clear(hops)
		copy(hops[w.by[x]*w.k:], w.routes[w.by[x]].of(x))
		r.set(x, hops)
	}
	return r
}

// sum is the hop sum.
func (w *wideGreedy) sum() int {
	sum := 0
	for _, r := range w.routes {
		sum += r.length(0)
	}
	return sum
}
