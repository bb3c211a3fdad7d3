package photonic

import "context"

// ladder is a sequence of plans with 1, 2, … topologies.
type ladder interface {
	// next adds a topology, the first one at first, and reports false at the end.
	next(context.Context) (bool, error)
	// sum is the hop sum so far, for messages of one size, or far without a plan.
	sum() int
	// plan returns the plan with the first d topologies, without costs. next must have
	// added that many.
	plan(ctx context.Context, d int) (*Plan, error)
}

// cycles is a ladder of shifts in which each class uses one shift (degree 1).
type cycles struct {
	n      int
	method Method
	least  *least
	shifts []int
	more   func() (int, bool) // the next shift
}

func newPaperCycles(n int) *cycles {
	order := PaperShifts(n)
	return &cycles{n: n, method: Paper, least: newLeast(n), more: func() (int, bool) {
		if len(order) == 0 {
			return 0, false
		}
		a := order[0]
		order = order[1:]
		return a, true
	}}
}

func newGreedyCycles(n int) *cycles {
	g := newGreedy(n)
	i := 0
	return &cycles{n: n, method: Greedy, least: newLeast(n), more: func() (int, bool) {
		if i == len(g.Shifts) && !g.next() {
			return 0, false
		}
		i++
		return g.Shifts[i-1], true
	}}
}

func (c *cycles) next(context.Context) (bool, error) {
	a, ok := c.more()
	if ok {
		c.least.add(a)
		c.shifts = append(c.shifts, a)
	}
	return ok, nil
}

func (c *cycles) sum() int { return c.least.sum }

func (c *cycles) plan(ctx context.Context, d int) (*Plan, error) {
	v := newServed(c.n, 1)
	for _, a := range c.shifts[:d] {
		v.add([]int{a})
	}
	r := newRouting(c.n, 1, c.shifts[:d])
	hops := make([]int32, d)
	for x := 1; x < c.n; x++ {
		hops[v.by[x]] = v.hops[x][0]
		r.set(x, hops)
		hops[v.by[x]] = 0
	}
	return r.plan(ctx, c.method)
}

// steps is the ladder of Carry.
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
	return true, s.route(ctx, s.d)
}

// route makes the routing of d topologies, unless it exists.
func (s *steps) route(ctx context.Context, d int) (err error) {
	if s.at[d] != nil {
		return nil
	}
	set := s.search.Sets[min(d*s.k, len(s.search.Sets))-1]
	for len(set) < d*s.k { // all classes have an offset already
		set = append(set[:len(set):len(set)], 1)
	}
	if d == 1 && s.k > 1 && s.k < s.n {
		s.at[d], err = chosenOffsets(ctx, s.n, s.k, s.search)
	} else {
		s.at[d], err = carryRouting(ctx, s.n, s.k, set)
	}
	return err
}

func (s *steps) sum() int {
	if s.k == 1 {
		return s.search.Totals[s.d-1]
	}
	return s.at[s.d].sum()
}

func (s *steps) plan(ctx context.Context, d int) (*Plan, error) {
	if err := s.route(ctx, d); err != nil {
		return nil, err
	}
	return s.at[d].plan(ctx, Carry)
}

// contractions is the ladder of the paper's circulants.
type contractions struct {
	n, k int
	*contraction
}

func (c *contractions) next(context.Context) (bool, error) {
	if c.contraction == nil {
		c.contraction = newContraction(c.n, c.k)
		return true, nil
	}
	return c.contraction.next(), nil
}

func (c *contractions) sum() int { return c.sums[len(c.sums)-1] }

func (c *contractions) plan(ctx context.Context, d int) (*Plan, error) {
	first := contraction{served: newServed(c.contraction.n, c.contraction.k)}
	for i := range d {
		first.add(c.offsets[i*first.k : (i+1)*first.k])
	}
	return first.plan(ctx)
}

// wides is the ladder of Greedy for higher degrees.
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

func (w *wides) plan(ctx context.Context, d int) (*Plan, error) {
	if d == len(w.routes) {
		return w.routing().plan(ctx, Greedy)
	}
	first, err := newWideGreedy(ctx, w.n, w.k, w.search)
	for ok := true; err == nil && ok && len(first.routes) < d; {
		ok, err = first.next(ctx)
	}
	if err != nil {
		return nil, err
	}
	return first.routing().plan(ctx, Greedy)
}

// meshes is the ladder of generalised Kautz graphs: the paper's, contracted repeatedly,
// or only the first, with its loads spread out.
type meshes struct {
	in     *Instance
	method Method
	*mesh
}

func (m *meshes) next(ctx context.Context) (bool, error) {
	if m.mesh != nil {
		if m.method != Paper {
			return false, nil
		}
		return m.contract()
	}
	m.mesh = newMesh(m.in.GPUs, m.in.Degree, kautz(m.in.GPUs, m.in.Degree))
	if m.method == Paper {
		return true, nil
	}
	err := m.spread(ctx)
	return err == nil, err
}

func (m *meshes) sum() int { return m.busiest() }

func (m *meshes) plan(ctx context.Context, d int) (*Plan, error) {
	if d == len(m.mesh.next) {
		return m.mesh.plan(ctx, m.in, m.method)
	}
	first := newMesh(m.n, m.k, m.mesh.next[0])
	for _, next := range m.mesh.next[1:d] {
		first.add(next)
	}
	return first.plan(ctx, m.in, m.method)
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

func (d *direct) plan(ctx context.Context, topologies int) (*Plan, error) {
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
	return r.plan(ctx, Greedy)
}

// ladders lists the ladders of a method, the fastest first. Plans without waiting are
// valid for Carry too, and Auto uses all ladders.
func ladders(in *Instance, o Options) []ladder {
	n, k := in.GPUs, in.Degree
	// The plan lists the hops of each chunk, so there must not be too many chunks.
	explicit := k > 1 && k < n && n <= MaxVaried && int64(n*n)*in.Link.Chunks(in.Message) <= MaxChunks
	var list []ladder
	published := o.Method == Paper || o.Method == Auto
	switch {
	case published && k == 1:
		list = append(list, newPaperCycles(n))
	case published:
		list = append(list, &contractions{n: n, k: k})
	}
	if o.Method != Paper {
		list = append(list, &direct{n: n, k: k})
	}
	if published && explicit {
		list = append(list, &meshes{in: in, method: Paper})
	}
	if o.Method == Paper {
		return list
	}
	if explicit {
		list = append(list, &meshes{in: in, method: Greedy})
	}
	if explicit || k > 1 && n > MaxVaried && n <= maxCayley && int64(n*n)*in.Link.Chunks(in.Message) <= maxReplayed {
		most := cayleyMost
		switch {
		case o.Method == Greedy:
			most = 1 // without waiting
		case n > MaxVaried:
			most = wideMost
		}
		list = append(list, newCayleys(in, o.Relabel, most))
	}
	if k == 1 {
		list = append(list, newGreedyCycles(n))
	} else {
		list = append(list, &wides{in: in})
	}
	if o.Method != Greedy {
		list = append(list, newSteps(in, o.Reconfigurations))
	}
	return list
}

// family is the family of a ladder's topologies.
func family(l ladder, k int) string {
	switch l.(type) {
	case *meshes:
		return "kautz"
	case *cayleys:
		return "cayley"
	}
	if k == 1 {
		return "cycle"
	}
	return "circulant"
}
