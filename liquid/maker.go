package liquid

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// maker carries the work of Make.
type maker struct {
	ctx context.Context
	t   *Traffic
	o   Options
	r   *Result
}

// run makes the schedule. The first fit comes first: it is the answer when nothing
// else has one in time, and half of the time that it takes is kept back to verify
// the answer in, which takes a quarter.
func (m *maker) run() {
	start := time.Now()
	last := firstFit(m.t)
	if end, ok := m.ctx.Deadline(); ok {
		ctx, cancel := context.WithDeadline(m.ctx, end.Add(-time.Since(start)/2))
		defer cancel()
		m.ctx = ctx
	}
	if m.ctx.Err() == nil {
		m.attempt()
	}
	if m.r.Schedule == nil || m.o.Method == MethodAuto {
		m.offer(MethodFirstFit, last)
	}
}

// attempt tries the methods. One that has no answer in time leaves it to Dsatur.
func (m *maker) attempt() {
	switch m.o.Method {
	case MethodAuto:
		m.auto()
	case MethodSearch:
		if m.searchable() {
			m.search(newSearcher(m.t, m.o.Seed), m.o.Nodes)
		}
	case MethodColouring:
		c := m.newColouring(m.t.Duration())
		m.colour(c)
		m.colourUp(c)
	case MethodRoundRobin:
		m.offer(MethodRoundRobin, RoundRobin(m.ctx, m.t))
	case MethodRandom:
		m.offer(MethodRandom, Random(m.ctx, m.t, m.o.Seed))
	case MethodFirstFit:
		return
	}
	if m.r.Schedule == nil {
		m.offer(MethodDsatur, Dsatur(m.ctx, m.t))
	}
}

// auto searches a little, colours with Λ steps, searches for as long as it may,
// and then colours with more steps.
func (m *maker) auto() {
	m.offer(MethodRoundRobin, RoundRobin(m.ctx, m.t))
	var s *searcher
	first := m.o.Nodes / 16
	if m.searchable() {
		s = newSearcher(m.t, m.o.Seed)
		m.search(s, first)
	}
	if m.done() {
		return
	}
	c := m.newColouring(m.r.Bound)
	if m.colour(c); m.done() {
		return
	}
	m.offer(MethodDsatur, Dsatur(m.ctx, m.t))
	if s != nil && !m.done() && !m.r.NoLiquid {
		m.search(s, m.o.Nodes-first)
	}
	m.colourUp(c)
}

// searchable tells whether the traffic is one to search.
func (m *maker) searchable() bool {
	return !m.done() && m.t.Uniform() && m.t.Len() > 0 && m.t.Len() <= maxSearched
}

// done tells whether nothing better can be found, or time is up.
func (m *maker) done() bool { return m.r.Optimal() || m.ctx.Err() != nil }

// offer takes a schedule if it is there and better than the one at hand.
func (m *maker) offer(by Method, s Schedule) {
	if s == nil || m.r.Schedule != nil && m.compare(s, m.r.Schedule) >= 0 {
		return
	}
	m.r.Schedule, m.r.Method = s, by
	m.r.Liquid = len(s) == m.t.Duration() && (m.t.Uniform() || m.t.Time(s) <= m.t.TimeBound()*(1+1e-9))
}

// compare is negative when schedule a takes less time than b, or the same in
// fewer steps.
func (m *maker) compare(a, b Schedule) int {
	if c := cmp.Compare(m.t.Time(a), m.t.Time(b)); c != 0 && !m.t.Uniform() {
		return c
	}
	return len(a) - len(b)
}

// half is a context that ends when half the time that is left has passed.
func (m *maker) half() (context.Context, context.CancelFunc) {
	if end, ok := m.ctx.Deadline(); ok {
		return context.WithTimeout(m.ctx, time.Until(end)/2)
	}
	return context.WithCancel(m.ctx)
}

// search goes on with a search.
func (m *maker) search(s *searcher, nodes int64) {
	ctx, cancel := m.half()
	defer cancel()
	switch s.run(ctx, nodes) {
	case found:
		m.offer(MethodSearch, s.schedule())
	case none:
		m.r.NoLiquid, m.r.Bound = true, m.t.Duration()+1
	}
	m.r.Nodes = s.nodes
}

// newColouring prepares a colouring with the given number of steps. It begins
// with what it can keep of the schedule at hand, or of the phases of round-robin,
// whichever leaves fewer transfers out.
func (m *maker) newColouring(steps int) *repairer {
	kept, phased := m.newSteps(steps), m.newSteps(steps)
	if m.r.Schedule != nil {
		full := slices.Clone(m.r.Schedule)
		slices.SortStableFunc(full, func(a, b []Transfer) int { return len(b) - len(a) })
		for i, step := range full[:min(len(full), steps)] {
			if m.ctx.Err() != nil {
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
		if x&1023 == 0 && m.ctx.Err() != nil {
			break
		}
		if step := int32(int(phase) % steps); phased.fits(Transfer(x), step) {
			phased.place(Transfer(x), step)
		}
	}
	kept.placeRest(m.ctx)
	phased.placeRest(m.ctx)
	if phased.left <= kept.left {
		kept = phased
	}
	return newRepairer(kept, m.o.Seed)
}

// newSteps is a board with steps for each speed of transfers, as many as there
// must be, and those beyond them for the fastest.
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

// colour goes on with a colouring until it has no transfer left over, or makes no
// progress.
func (m *maker) colour(c *repairer) {
	if m.done() {
		return
	}
	ctx, cancel := m.half()
	defer cancel()
	if c.run(ctx, m.o.Moves) {
		m.offer(MethodColouring, c.schedule())
	}
	m.r.Moves = c.moves
}

// colourUp opens one more step after the other until all transfers have room, or
// the schedule at hand is as good.
func (m *maker) colourUp(c *repairer) {
	for !m.done() && c.left > 0 {
		c.addStep(c.slowestLeft())
		if s := m.r.Schedule; s != nil && (m.t.Time(s) < c.time() || m.t.Time(s) == c.time() && len(s) <= c.k) {
			return
		}
		m.colour(c)
	}
}

// firstFit puts each transfer in turn into the first step with room, slower ones
// first.
func firstFit(t *Traffic) Schedule {
	b := newBoard(t, t.Duration()+t.Duration()/4+8)
	for c := range t.rates {
		for x := range t.Len() {
			if int(t.class[x]) != c {
				continue
			}
			step := b.firstFree(Transfer(x))
			if step < 0 {
				step = int32(b.k)
				b.addStep(uint8(c))
			}
			b.place(Transfer(x), step)
		}
	}
	return b.schedule()
}
