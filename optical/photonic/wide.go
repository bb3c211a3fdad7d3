package photonic

import (
	"context"
	"slices"
)

// served is a sequence of circulants, each of which serves some classes. A class is served
// by the circulant on which it takes the fewest hops.
type served struct {
	n, k    int
	offsets []int     // k of each topology
	hops    [][]int32 // [class][switch]
	by      []int     // [class] the topology
	least   []int     // [class] hops
}

func newServed(n, k int) served {
	v := served{n: n, k: k, hops: make([][]int32, n), by: make([]int, n), least: make([]int, n)}
	for x := range v.least {
		v.least[x] = far
	}
	return v
}

// add adds a topology; classes that it serves in fewer hops move to it.
func (v *served) add(offsets []int) {
	st := newStages(v.n, offsets, nil)
	for x := 1; x < v.n; x++ {
		if h := int(st[v.k][x]); h < v.least[x] {
			v.hops[x] = make([]int32, v.k)
			st.split(offsets, x, v.hops[x])
			v.least[x], v.by[x] = h, len(v.offsets)/v.k
		}
	}
	v.offsets = append(v.offsets, offsets...)
}

// wideGreedy is a sequence of circulants of degree k ≥ 2 whose offsets are chosen for
// their savings; each class stays on one topology.
type wideGreedy struct {
	served
	routes []*routing // [topology] of the classes served there
	search *stepSearch
	try    []int32 // scratch
}

// newWideGreedy starts with one topology. The search must have k sets.
func newWideGreedy(ctx context.Context, n, k int, search *stepSearch) (*wideGreedy, error) {
	w := &wideGreedy{served: newServed(n, k), search: search, try: make([]int32, n)}
	first, err := carryRouting(ctx, n, k, search.Sets[k-1])
	if err != nil {
		return nil, err
	}
	w.add(first.offsets)
	w.routes = []*routing{first}
	return w, nil
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
	base := none(w.n)
	for range w.k {
		a, err := w.best(ctx, base, offsets)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, a)
		extend(base, a, 1)
	}
	for i := range offsets {
		base := none(w.n)
		for j, a := range offsets {
			if j != i {
				extend(base, a, 1)
			}
		}
		others := slices.Delete(slices.Clone(offsets), i, i+1)
		if offsets[i], err = w.best(ctx, base, others); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

// best returns the offset that, added to the given ones, minimizes the sum of hops.
func (w *wideGreedy) best(ctx context.Context, base []int32, offsets []int) (offset int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	offset, sum := 1, far*w.n
	tries := min(w.n-1, max(32, lateEffort/(2*w.n)))
	for i := range tries {
		a := 1 + i*(w.n-1)/tries
		if slices.Contains(offsets, a) {
			continue
		}
		copy(w.try, base)
		extend(w.try, a, 1)
		left := 0
		for x, h := range w.try {
			left += min(int(h), w.least[x])
		}
		if left < sum {
			offset, sum = a, left
		}
	}
	return offset, nil
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
