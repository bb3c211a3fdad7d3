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
	layout(d int) (*group, [][]int32)
}

// router is a ladder of circulants.
type router interface {
	next(context.Context) (bool, error)
	sum() int
	route(d int) *routing
}

// circulants makes the plans of a router.
type circulants struct{ router }

func (c circulants) plan(ctx context.Context, d int) (*Plan, error) {
	r := c.route(d)
	if err := r.balance(ctx); err != nil {
		return nil, err
	}
	return r.plan(ctx)
}

func (c circulants) layout(d int) (*group, [][]int32) {
	r := c.route(d)
	sets := make([][]int32, d)
	for i, a := range r.offsets {
		sets[i/r.k] = append(sets[i/r.k], int32(a))
	}
	return cyclic(r.n), sets
}

// steps is the ladder of circulants in which chunks may wait for the next topology.
type steps struct {
	n, k   int
	search *stepSearch
	d      int
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
	return true, s.search.reach(ctx, s.d*s.k)
}

func (s *steps) route(d int) *routing {
	set := s.search.Sets[min(d*s.k, len(s.search.Sets))-1]
	for len(set) < d*s.k { // all classes have an offset already
		set = append(set[:len(set):len(set)], 1)
	}
	return carryRouting(s.n, s.k, set)
}

func (s *steps) sum() int {
	if s.k == 1 {
		return s.search.Totals[s.d-1]
	}
	return s.route(s.d).sum()
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
	if explicit && in.Sizes == nil && (o.Family == "" || o.Family == "kautz") {
		list = append(list, &kautzes{&kautz{in: in}})
	}
	if (explicit || k > 1 && n > MaxVaried && n <= maxCayley && chunks <= maxReplayed) && (o.Family == "" || o.Family == "cayley") {
		list = append(list, newCayleys(in))
	}
	if o.Family == "" || o.Family == circulant(k) {
		if k > 1 {
			list = append(list, circulants{newWides(in)})
		}
		list = append(list, circulants{&steps{n: n, k: k, search: newStepSearch(n)}})
	}
	return list
}
