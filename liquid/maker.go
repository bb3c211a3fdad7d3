package liquid

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// maker is the state of Make.
type maker struct {
	t *Traffic
	o Options
	r *Result

	quotient bool     // the traffic is of orbits, whose symmetries were used
	begun    Schedule // the longest partial schedule of a search that found no schedule
}

// run makes the schedule. First fit comes first: it is the result if no other method
// has one in time. Half of the time that it takes is reserved for the verification,
// which takes a quarter.
func (m *maker) run(ctx context.Context) error {
	start := time.Now()
	last, err := firstFit(ctx, m.t)
	if err != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok {
		within, cancel := context.WithDeadline(ctx, end.Add(-time.Since(start)/2))
		defer cancel()
		ctx = within
	}
	if ctx.Err() == nil {
		m.attempt(ctx)
	}
	if m.r.Schedule == nil || m.o.Method == MethodAuto {
		m.offer(MethodFirstFit, last)
	}
	return nil
}

// attempt runs the method. If it has no result, Dsatur makes one.
func (m *maker) attempt(ctx context.Context) {
	switch m.o.Method {
	case MethodAuto:
		m.auto(ctx)
	case MethodSearch:
		if m.searchable(ctx) {
			m.search(ctx, newSearcher(m.t, m.o.Seed), m.o.Nodes)
		}
	case MethodColouring:
		c := m.newColouring(ctx, m.t.Duration())
		m.colour(ctx, c)
		m.colourUp(ctx, c)
	case MethodRoundRobin:
		m.offer(MethodRoundRobin, RoundRobin(ctx, m.t))
	case MethodRandom:
		m.offer(MethodRandom, Random(ctx, m.t, m.o.Seed))
	case MethodFirstFit:
		return
	}
	if m.r.Schedule == nil {
		m.offer(MethodDsatur, Dsatur(ctx, m.t))
	}
}

// auto searches a little, tries the orbits of symmetries, colours, searches up to the limit of
// nodes, and then continues colouring from the best schedule. Transfers that a colouring leaves
// over get extra steps, so that there is a schedule whenever time is up. Unless time is up, no
// other method has a better one.
func (m *maker) auto(ctx context.Context) {
	m.offer(MethodRoundRobin, RoundRobin(ctx, m.t))
	var s *searcher
	first := m.o.Nodes / 16
	if m.searchable(ctx) {
		s = newSearcher(m.t, m.o.Seed)
		m.search(ctx, s, first)
	}
	if m.done(ctx) {
		return
	}
	m.symmetric(ctx)
	if m.complete(ctx); m.done(ctx) {
		return
	}
	m.offer(MethodRandom, Random(ctx, m.t, m.o.Seed))
	m.offer(MethodDsatur, Dsatur(ctx, m.t))
	if m.alone(ctx); m.done(ctx) {
		return
	}
	c := m.newColouring(ctx, m.r.Bound)
	if m.colour(ctx, c); m.done(ctx) {
		return
	}
	if s != nil && !m.done(ctx) && !m.r.NoLiquid {
		m.search(ctx, s, m.o.Nodes-first)
	}
	if m.colourUp(ctx, c); !m.done(ctx) {
		m.prove(ctx)
	}
}

// alone colours regardless of the best schedule so far.
func (m *maker) alone(ctx context.Context) {
	if m.done(ctx) || m.quotient {
		return
	}
	r := m.coloured(ctx, m.t, m.o.Moves)
	m.offer(r.Method, r.Schedule)
}

// coloured schedules a traffic by colouring only.
func (m *maker) coloured(ctx context.Context, t *Traffic, moves int64) *Result {
	within, cancel := half(ctx)
	defer cancel()
	o := m.o
	o.Method, o.Moves = MethodColouring, moves
	q := &maker{t: t, o: o, r: &Result{Bound: t.Duration()}}
	q.attempt(within)
	m.r.Moves += q.r.Moves
	return q.r
}

// symmetric schedules the orbits of symmetries of the traffic, if any: of one shift, then of
// more and more together, which have fewer orbits. It searches all of them before it tries the
// method of the options.
func (m *maker) symmetric(ctx context.Context) {
	if m.quotient {
		return
	}
	within, cancel := half(ctx)
	defer cancel()
	search := m.o
	search.Method, search.Nodes = MethodSearch, m.o.Nodes/16
	var list []*orbits
	for o := range m.t.orbits(within) {
		if m.scheduleOrbits(within, o, search); m.done(within) {
			return
		}
		list = append(list, o)
	}
	for _, o := range list {
		m.scheduleOrbits(within, o, m.o)
	}
}

// scheduleOrbits offers a schedule of orbits, unless the best so far is optimal.
func (m *maker) scheduleOrbits(ctx context.Context, of *orbits, o Options) {
	if m.done(ctx) {
		return
	}
	q := &maker{t: of.quotient, o: o, r: &Result{Bound: of.quotient.Duration()}, quotient: true}
	q.attempt(ctx)
	m.r.Nodes, m.r.Moves = m.r.Nodes+q.r.Nodes, m.r.Moves+q.r.Moves
	if len(q.begun) > len(m.begun) {
		m.begun = of.whole(q.begun)
	}
	if q.r.Schedule != nil {
		had := m.r.Schedule
		if m.offer(q.r.Method, of.whole(q.r.Schedule)); had == nil || len(m.r.Schedule) < len(had) {
			m.r.Orbits = len(of.members)
		}
	}
}

// searchable reports whether the search supports the traffic and can still help.
func (m *maker) searchable(ctx context.Context) bool {
	most := maxSearched
	if m.quotient {
		most = maxOrbits
	}
	return !m.done(ctx) && m.t.Uniform() && m.t.Len() > 0 && m.t.Len() <= most
}

// done reports whether the schedule is optimal or time is up.
func (m *maker) done(ctx context.Context) bool { return m.r.Optimal() || ctx.Err() != nil }

// offer keeps a schedule if it is not nil and better than the best so far.
func (m *maker) offer(by Method, s Schedule) {
	if s == nil || m.r.Schedule != nil && m.compare(s, m.r.Schedule) >= 0 {
		return
	}
	m.r.Schedule, m.r.Method, m.r.Orbits = s, by, 0
	m.r.Liquid = len(s) == m.t.Duration() && (m.t.Uniform() || m.t.Time(s) <= m.t.TimeBound()*(1+1e-9))
}

// compare is negative if schedule a takes less time than b, or the same in fewer steps.
func (m *maker) compare(a, b Schedule) int {
	if c := cmp.Compare(m.t.Time(a), m.t.Time(b)); c != 0 && !m.t.Uniform() {
		return c
	}
	return len(a) - len(b)
}

// half returns a context that ends after half of the remaining time.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/2)
	}
	return context.WithCancel(ctx)
}

// search continues a search.
func (m *maker) search(ctx context.Context, s *searcher, nodes int64) {
	within, cancel := half(ctx)
	defer cancel()
	before := s.nodes
	switch s.run(within, nodes) {
	case found:
		m.offer(MethodSearch, s.schedule())
	case none:
		m.r.NoLiquid, m.r.Bound = true, m.t.Duration()+1
	case undecided:
		if len(s.mostAt) > len(m.begun) {
			m.begun = s.schedule()
		}
	}
	m.r.Nodes += s.nodes - before
}

// complete adds steps for the remaining transfers to the partial schedule of a search: they
// are few, and colouring only them keeps the steps that are as full as possible.
func (m *maker) complete(ctx context.Context) {
	if m.done(ctx) || m.quotient || len(m.begun) == 0 {
		return
	}
	begun := make([]bool, m.t.Len())
	for _, step := range m.begun {
		for _, x := range step {
			begun[x] = true
		}
	}
	var rest []Transfer
	for x, done := range begun {
		if !done {
			rest = append(rest, Transfer(x))
		}
	}
	if r := m.coloured(ctx, m.t.only(rest), m.o.Moves/16); r.Schedule != nil {
		m.offer(MethodColouring, append(m.begun, r.Schedule.of(rest)...))
	}
}

// newColouring prepares a colouring with the given number of steps. It begins with
// the transfers that fit in the steps of the best schedule so far, or in the phases
// of round-robin, whichever leaves fewer transfers out.
func (m *maker) newColouring(ctx context.Context, steps int) *repairer {
	kept, phased := m.newSteps(steps), m.newSteps(steps)
	if m.r.Schedule != nil {
		full := slices.Clone(m.r.Schedule)
		slices.SortStableFunc(full, func(a, b []Transfer) int { return len(b) - len(a) })
		for i, step := range full[:min(len(full), steps)] {
			if ctx.Err() != nil {
				break
			}
			for _, x := range step {
				if kept.fits(x, int32(i)) {
					kept.place(x, int32(i))
				}
			}
		}
	}
	for x, phase := range m.t.phases() {
		if x&1023 == 0 && ctx.Err() != nil {
			break
		}
		if step := int32(int(phase) % steps); phased.fits(Transfer(x), step) {
			phased.place(Transfer(x), step)
		}
	}
	kept.placeRest(ctx)
	phased.placeRest(ctx)
	if phased.left <= kept.left {
		kept = phased
	}
	return newRepairer(kept, m.o.Seed)
}

// newSteps returns a board with the least number of steps for each speed of
// transfers, and further steps for the fastest.
func (m *maker) newSteps(steps int) *board {
	b := newBoard(m.t, steps+8)
	for c, bound := range m.t.Bounds() {
		for b.k < bound.Steps {
			b.addStep(uint8(c))
		}
	}
	for b.k < steps {
		b.addStep(uint8(len(m.t.rates) - 1))
	}
	return b
}

// colour continues a colouring until no transfer is left over, it makes no progress, or
// time is up. The transfers left over then get extra steps.
func (m *maker) colour(ctx context.Context, c *repairer) {
	if m.done(ctx) {
		return
	}
	within, cancel := half(ctx)
	defer cancel()
	before := c.moves
	c.run(within, m.o.Moves)
	m.offer(MethodColouring, c.completed())
	m.r.Moves += c.moves - before
}

// colourUp looks for the fewest steps in which all transfers have room, by bisection
// between a colouring that has some left over and the best schedule so far. If transfers
// take different times, it adds one step after another until all have room or the best
// schedule so far is as good.
func (m *maker) colourUp(ctx context.Context, c *repairer) {
	for low := c.k; m.t.Uniform() && !m.done(ctx) && m.r.Schedule != nil && low+1 < len(m.r.Schedule); {
		steps := (low + len(m.r.Schedule)) / 2
		if c.left == 0 || c.k > steps {
			c = m.newColouring(ctx, steps)
		}
		for c.k < steps {
			c.addStep(uint8(len(m.t.rates) - 1))
		}
		if m.colour(ctx, c); c.left > 0 {
			low = steps
		}
	}
	for !m.t.Uniform() && !m.done(ctx) && c.left > 0 {
		c.addStep(c.slowestLeft())
		if s := m.r.Schedule; s != nil && (m.t.Time(s) < c.time() || m.t.Time(s) == c.time() && len(s) <= c.k) {
			return
		}
		m.colour(ctx, c)
	}
}

// firstFit puts each transfer in turn into the first step with room, slower ones
// first. It ignores the deadline of ctx, but not its cancellation.
func firstFit(ctx context.Context, t *Traffic) (Schedule, error) {
	b := newBoard(t, t.Duration()+t.Duration()/4+8)
	for c := range t.rates {
		for x := range t.Len() {
			if x&255 == 0 && cancelled(ctx) {
				return nil, ctx.Err()
			}
			if int(t.class[x]) != c {
				continue
			}
			b.placeSomewhere(Transfer(x))
		}
	}
	return b.schedule(), nil
}

// cancelled reports whether a context has ended other than by its deadline.
func cancelled(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded)
}
