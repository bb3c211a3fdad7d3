package photonic

import (
	"context"
	"slices"
)

// ladder is a sequence of plans with 1, 2, … topologies.
type ladder interface {
	// next adds a topology, the first one at first, and reports false at the end.
	next(context.Context) (bool, error)
	// sum is the hop sum so far, for messages of one size, or far without a plan.
	sum() int
	// plan returns the plan for messages of one size with the first d topologies, without
	// costs, or nil if it would have too many moves. next must have added that many.
	plan(ctx context.Context, d int) (*Plan, error)
}

// symmetric is a ladder of topologies on groups.
type symmetric interface {
	ladder
	// layout returns the group and the sets of the first d topologies.
	layout(ctx context.Context, d int) (*group, [][]int32, error)
}

// router is a ladder of circulants.
type router interface {
	next(context.Context) (bool, error)
	sum() int
	route(ctx context.Context, d int) (*routing, error)
}

// circulants makes the plans of a router.
type circulants struct{ router }

func (c circulants) plan(ctx context.Context, d int) (*Plan, error) {
	r, err := c.route(ctx, d)
	if err != nil {
		return nil, err
	}
	return r.plan(ctx)
}

func (c circulants) layout(ctx context.Context, d int) (*group, [][]int32, error) {
	r, err := c.route(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	sets := make([][]int32, d)
	for i, a := range r.offsets {
		sets[i/r.k] = append(sets[i/r.k], int32(a))
	}
	return cyclic(r.n), sets, nil
}

// steps is the ladder of circulants in which chunks may wait for the next topology.
type steps struct {
	n, k   int
	search *stepSearch
	first  int // the fewest topologies for which sum is called
	d      int
	at     map[int]*routing // by number of topologies, routings made so far
}

func newSteps(in *Instance, first int) *steps {
	return &steps{n: in.GPUs, k: in.Degree, search: newStepSearch(in.GPUs), first: first, at: map[int]*routing{}}
}

// reach extends the search to a number of shifts, or to its end.
func (s *stepSearch) reach(ctx context.Context, shifts int) error {
	for len(s.Sets) < shifts {
		if ok, err := s.next(ctx); err != nil || !ok {
			return err
		}
	}
	return nil
}

func (s *steps) next(ctx context.Context) (bool, error) {
	if s.d*s.k >= s.n-1 {
		return false, nil
	}
	s.d++
	if err := s.search.reach(ctx, s.d*s.k); err != nil {
		return false, err
	}
	if s.k == 1 || s.d < s.first {
		return true, nil
	}
	_, err := s.route(ctx, s.d)
	return err == nil, err
}

func (s *steps) route(ctx context.Context, d int) (r *routing, err error) {
	if s.at[d] == nil {
		set := s.search.Sets[min(d*s.k, len(s.search.Sets))-1]
		for len(set) < d*s.k { // all classes have an offset already
			set = append(set[:len(set):len(set)], 1)
		}
		if r, err = carryRouting(ctx, s.n, s.k, set); err != nil {
			return nil, err
		}
		s.at[d] = r
	}
	return s.at[d], nil
}

func (s *steps) sum() int {
	if s.k == 1 {
		return s.search.Totals[s.d-1]
	}
	return s.at[s.d].sum()
}

// wides is the ladder of circulants on which each class stays on one topology.
type wides struct {
	in *Instance
	*wideGreedy
}

func (w *wides) next(ctx context.Context) (bool, error) {
	if w.wideGreedy == nil {
		search := newStepSearch(w.in.GPUs)
		if err := search.reach(ctx, w.in.Degree); err != nil || len(search.Sets) < w.in.Degree {
			return false, err
		}
		var err error
		w.wideGreedy, err = newWideGreedy(ctx, w.in.GPUs, w.in.Degree, search)
		return err == nil, err
	}
	return w.wideGreedy.next(ctx)
}

func (w *wides) route(ctx context.Context, d int) (*routing, error) {
	if d == len(w.routes) {
		return w.routing(), nil
	}
	first, err := newWideGreedy(ctx, w.n, w.k, w.search)
	for ok := true; err == nil && ok && len(first.routes) < d; {
		ok, err = first.next(ctx)
	}
	if err != nil {
		return nil, err
	}
	return first.routing(), nil
}

// direct is the ladder whose only plan has a direct link for each pair.
type direct struct {
	n, k int
	d    int
}

func (d *direct) next(context.Context) (bool, error) {
	d.d++
	return d.d <= (d.n-2+d.k)/d.k, nil
}

func (d *direct) sum() int {
	if d.d*d.k < d.n-1 {
		return far
	}
	return d.d
}

func (d *direct) route(_ context.Context, topologies int) (*routing, error) {
	r := newRouting(d.n, d.k, make([]int, topologies*d.k))
	hops := make([]int32, topologies*d.k)
	for i := range r.offsets {
		r.offsets[i] = min(i+1, d.n-1)
		if i+1 < d.n {
			hops[i] = 1
			r.set(i+1, hops)
			hops[i] = 0
		}
	}
	return r, nil
}

// kautzes is the ladder whose only plan has one generalised Kautz graph.
type kautzes struct{ *kautz }

func (k *kautzes) next(ctx context.Context) (bool, error) {
	if k.links != nil {
		return false, nil
	}
	if err := k.join(ctx); err != nil {
		return false, err
	}
	return true, k.spread(ctx)
}

func (k *kautzes) sum() int { return slices.Max(k.load) }

func (k *kautzes) plan(ctx context.Context, _ int) (*Plan, error) {
	n, degree := k.in.GPUs, k.in.Degree
	next := make([][]int32, degree)
	for link, v := range k.links {
		next[link%degree] = append(next[link%degree], v)
	}
	p := &Plan{GPUs: n, Degree: degree, Family: "kautz", Topologies: []Topology{{Next: next}}}
	return p.pack(ctx, k.in, [][]leg{k.legs()}, never)
}

// circulant is the family of circulants of k offsets.
func circulant(k int) string {
	if k == 1 {
		return "cycle"
	}
	return "circulant"
}

// ladders lists the ladders of a family of topologies or, for "", all, the fastest first.
func ladders(in *Instance, o Options) []ladder {
	n, k := in.GPUs, in.Degree
	// The plan lists the hops of each chunk, so there must not be too many chunks.
	chunks := int64(n*n) * in.Link.Chunks(in.Message)
	explicit := k > 1 && k < n && n <= MaxVaried && chunks <= MaxChunks
	var list []ladder
	if o.Family == "" || o.Family == circulant(k) {
		list = append(list, circulants{&direct{n: n, k: k}})
	}
	if explicit && in.Sizes == nil && (o.Family == "" || o.Family == "kautz") {
		list = append(list, &kautzes{&kautz{in: in}})
	}
	if (explicit || k > 1 && n > MaxVaried && n <= maxCayley && chunks <= maxReplayed) && (o.Family == "" || o.Family == "cayley") {
		list = append(list, newCayleys(in))
	}
	if o.Family == "" || o.Family == circulant(k) {
		if k > 1 {
			list = append(list, circulants{&wides{in: in}})
		}
		list = append(list, circulants{newSteps(in, o.Reconfigurations)})
	}
	return list
}
