package photonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Options say how to plan an exchange.
type Options struct {
	// Reconfigurations forces the number of topologies; 0 chooses it.
	Reconfigurations int
	// Family restricts topologies to one kind: cycle (degree 1), circulant, kautz or
	// cayley; empty means any. kautz is for messages of one size.
	Family string
	// Relabel assigns GPUs to positions so that, if sizes differ, large messages have
	// short paths.
	Relabel bool
}

// Make plans an exchange and checks the plan by Replay. It fails if the instance or the
// options are invalid, or if the family has no plan with the number of reconfigurations
// requested. Soon after ctx ends it returns the cheapest plan so far, or fails if it has
// none; if ctx was cancelled, it returns ctx.Err() with the plan.
func Make(ctx context.Context, in *Instance, o Options) (*Plan, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"", "cycle", "circulant", "kautz", "cayley"}, o.Family) {
		return nil, fmt.Errorf("unknown family %q of topologies: want cycle, circulant, kautz or cayley", o.Family)
	}
	if d := o.Reconfigurations; d < 0 || d > in.direct() {
		return nil, fmt.Errorf("%d reconfigurations: want from 1 to %d, at which every pair has a link of its own, or 0 to choose", d, in.direct())
	}
	if in.empty() {
		return &Plan{GPUs: in.GPUs, Degree: in.Degree, Family: "none", Topologies: []Topology{}}, nil
	}
	best, ended := climb(ctx, in, o)
	if ended != nil && best == nil {
		return nil, ended
	}
	if best == nil {
		with := "any number of"
		if o.Reconfigurations > 0 {
			with = fmt.Sprint(o.Reconfigurations)
		}
		return nil, fmt.Errorf("no plan of %d GPUs, degree %d, with %s reconfigurations%s: ask for fewer, or another family", in.GPUs, in.Degree, with, among(o.Family))
	}
	best.LowerBound = in.Bound(o.Reconfigurations)
	if _, err := Replay(context.WithoutCancel(ctx), in, best); err != nil {
		return nil, fmt.Errorf("the plan is invalid, which is a bug in the planner: %w", err)
	}
	if ended = cmp.Or(ended, ctx.Err()); errors.Is(ended, context.DeadlineExceeded) {
		return best, nil
	}
	return best, ended
}

// among names a family in an error.
func among(family string) string {
	if family == "" {
		return ""
	}
	return " on topologies of family " + family
}

// allow reports whether plans may be of a family and have d topologies.
func (o *Options) allow(family string, d int) bool {
	return (o.Family == "" || o.Family == family) && (o.Reconfigurations == 0 || o.Reconfigurations == d)
}

// climb climbs the ladders and returns the cheapest of their plans and of those without a
// ladder. With an error it returns the cheapest plan so far.
func climb(ctx context.Context, in *Instance, o Options) (best *Plan, err error) {
	if o.allow(circulant(in.Degree), in.direct()) {
		best = planDirect(in)
	}
	if in.Sizes != nil && o.allow("", in.direct()) {
		p, err := planMatchings(ctx, in)
		if err != nil {
			return best, err
		}
		best = cheaper(best, p)
	}
	for _, l := range ladders(in, o) {
		known := never
		if best != nil {
			known = best.Cost
		}
		p, err := explore(ctx, in, l, o, newLimit(in, l, o, known))
		if best = cheaper(best, p); err != nil {
			return best, err
		}
	}
	if in.Sizes == nil && o.allow("", 0) {
		best = cheaper(best, planLeftover(in, best))
	}
	return best, nil
}

// cheaper returns the cheaper of two plans, the first if they cost the same. Either may be nil.
func cheaper(a, b *Plan) *Plan {
	if a == nil || b != nil && b.Cost < a.Cost {
		return b
	}
	return a
}

// limit says when to stop climbing a ladder.
type limit struct {
	first, last int    // the fewest and the most topologies of a plan
	known       Time   // the cost of the best plan so far
	tail        []Time // [d] lower bound on the cost of plans with at least d topologies
}

func newLimit(in *Instance, l ladder, o Options, known Time) *limit {
	m := &limit{first: 1, last: in.direct(), known: known}
	if d := o.Reconfigurations; d > 0 {
		m.first, m.last = d, d
	}
	m.tail = make([]Time, m.last+2)
	m.tail[m.last+1] = never
	for d := m.last; d > 0; d-- {
		m.tail[d] = m.tail[d+1]
		if d >= m.first {
			m.tail[d] = min(m.tail[d], Time(d)*in.Reconfig+in.transfer(d))
		}
	}
	if most := longest(in, l); o.Reconfigurations == 0 {
		m.last = min(m.last, most)
	}
	return m
}

// over reports whether no plan of at least d topologies can beat the best plan so far,
// or the least cost on this ladder.
func (m *limit) over(d int, least Time) bool {
	return m.tail[d] >= m.known || least > 0 && m.tail[d] >= least
}

// longest is the largest number of topologies to try if their number is free: beyond
// some hundreds waiting saves little, and the search takes long.
func longest(in *Instance, l ladder) int {
	const small, cycles, wide = 128, 192, 64
	_, ok := l.(circulants)
	switch {
	case !ok || in.GPUs <= small:
		return in.direct()
	case in.Degree == 1:
		return cycles
	}
	return wide
}
