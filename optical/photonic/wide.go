package photonic

import (
	"context"
	"slices"
)

// wides is the ladder of circulants of degree k ≥ 2 whose offsets are chosen for their
// savings. Each class stays on the circulant on which it takes the fewest hops.
type wides struct {
	n, k    int
	search  *stepSearch
	offsets []int   // k of each topology
	least   []int32 // [class] hops
}

func newWides(in *Instance) *wides {
	return &wides{n: in.GPUs, k: in.Degree, search: newStepSearch(in.GPUs), least: none(in.GPUs)}
}

func (w *wides) next(ctx context.Context) (bool, error) {
	if slices.Max(w.least) <= 1 {
		return false, nil
	}
	var offsets []int
	if w.offsets == nil {
		if err := w.search.reach(ctx, w.k); err != nil || len(w.search.Sets) < w.k {
			return false, err
		}
		offsets = w.search.Sets[w.k-1]
	}
	for len(offsets) < w.k {
		a, _, err := w.search.best(ctx, w.search.base(offsets, -1), w.least, offsets, lateEffort)
		if err != nil {
			return false, err
		}
		offsets = append(offsets, a)
	}
	w.offsets = append(w.offsets, offsets...)
	lower(w.least, w.search.base(offsets, -1))
	return true, nil
}

func (w *wides) route(d int) *routing {
	r := newRouting(w.n, w.k, w.offsets[:d*w.k])
	least, hops := none(w.n), make([]int32, d*w.k)
	for t := 0; t < d*w.k; t += w.k {
		st := newStages(w.n, r.offsets[t:t+w.k], nil)
		for x, h := range st[w.k] {
			if h < least[x] {
				least[x] = h
				clear(hops)
				st.split(r.offsets[t:t+w.k], x, hops[t:t+w.k])
				r.set(x, hops)
			}
		}
	}
	return r
}

func (w *wides) sum() int { return w.route(len(w.offsets) / w.k).sum() }
