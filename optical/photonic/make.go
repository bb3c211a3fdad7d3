package photonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Options say how to plan an exchange.
type Options struct {
	Method Method
	// Reconfigurations forces the number of topologies; 0 chooses it.
	Reconfigurations int
	// Family restricts topologies to one kind: cycle (degree 1), circulant, kautz or
	// cayley; empty means any.
	Family string
	// Relabel assigns GPUs to positions so that, if sizes differ, large messages have
	// short paths and share rounds.
	Relabel bool
	// packed sends chunks of different sizes as soon as their links are free, not round
	// by round as published.
	packed bool
}

// Make plans an exchange and checks the plan by Replay. It fails if the instance or the
// options are invalid, or if the method has no plan with the number of reconfigurations
// requested. Soon after ctx ends it returns the cheapest plan so far, or fails if it has
// none; if ctx was cancelled, it returns ctx.Err() with the plan.
func Make(ctx context.Context, in *Instance, o Options) (*Plan, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	if !slices.Contains([]Method{Paper, Greedy, Carry, Auto}, o.Method) {
		return nil, fmt.Errorf("unknown method %q: want paper, greedy, carry or auto", o.Method)
	}
	if !slices.Contains([]string{"", "cycle", "circulant", "kautz", "cayley"}, o.Family) {
		return nil, fmt.Errorf("unknown family %q of topologies: want cycle, circulant, kautz or cayley", o.Family)
	}
	if d := o.Reconfigurations; d < 0 || d > in.direct() {
		return nil, fmt.Errorf("%d reconfigurations: want from 1 to %d, at which every pair has a link of its own, or 0 to choose", d, in.direct())
	}
	if in.empty() {
		return &Plan{GPUs: in.GPUs, Degree: in.Degree, Method: o.Method, Family: "none", Topologies: []Topology{}}, nil
	}
	o.packed = o.Method != Paper
	best, ended := climbAll(ctx, in, o)
	if ended != nil && best == nil && in.Sizes != nil && o.Method == Auto && o.Family == "" && (o.Reconfigurations == 0 || o.Reconfigurations == in.direct()) {
		best, _ = planShifts(context.WithoutCancel(ctx), in)
	}
	if ended != nil && best == nil {
		return nil, ended
	}
	if best == nil {
		with := "any number of"
		if o.Reconfigurations > 0 {
			with = fmt.Sprint(o.Reconfigurations)
		}
		return nil, fmt.Errorf("method %s has no plan of %d GPUs, degree %d, with %s reconfigurations%s: ask for fewer, or another family", o.Method, in.GPUs, in.Degree, with, among(o.Family))
	}
	best.LowerBound = in.Bound(o.Reconfigurations, o.Method == Carry || o.Method == Auto)
	if ended == nil {
		_, err := Replay(ctx, in, best)
		if ended = ctx.Err(); ended == nil && err != nil {
			return nil, fmt.Errorf("the plan is invalid, which is a bug in the planner: %w", err)
		}
	}
	if ended == nil {
		return best, nil
	}
	if _, err := Replay(context.WithoutCancel(ctx), in, best); err != nil {
		return nil, fmt.Errorf("the plan is invalid, which is a bug in the planner: %w", err)
	}
	if errors.Is(ended, context.DeadlineExceeded) {
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

// climbAll returns the cheapest plan of all ladders of a method. If sizes differ, Auto
// takes the best of all methods and of the alternatives. Plans with waiting come first:
// they mostly beat the others, whose search then ends early. With an error it returns
// the cheapest plan so far, as does climb.
func climbAll(ctx context.Context, in *Instance, o Options) (*Plan, error) {
	if o.Method != Auto || in.Sizes == nil {
		best, err := climb(ctx, in, o, nil)
		if o.Method == Auto && o.Family == "" && o.Reconfigurations == 0 {
			best = cheaper(best, planLeftover(in, best))
		}
		return best, err
	}
	var best *Plan
	var err error
	if d := o.Reconfigurations; o.Family == "" && (d == 0 || d == in.direct()) {
		if best, err = planMatchings(ctx, in); err != nil {
			return nil, err
		}
	}
	for _, way := range []struct {
		method Method
		packed bool
	}{{Carry, true}, {Paper, false}, {Greedy, true}} {
		o.Method, o.packed = way.method, way.packed
		if best, err = climb(ctx, in, o, best); err != nil {
			return best, err
		}
	}
	if o.Reconfigurations > 1 {
		return best, nil
	}
	if o.Family == "" {
		p, err := planLargest(ctx, in, best)
		if err != nil {
			return best, err
		}
		best = cheaper(best, p)
	}
	return climb(ctx, in, Options{Method: Paper, Reconfigurations: 1, Family: o.Family, Relabel: o.Relabel, packed: true}, best) // static
}

// cheaper returns the cheaper of two plans, the first if they cost the same. Either may be nil.
func cheaper(a, b *Plan) *Plan {
	if a == nil || b != nil && b.Cost < a.Cost {
		return b
	}
	return a
}

// climb climbs the ladders of a method and returns the cheapest of their plans and of
// best, which may be nil.
func climb(ctx context.Context, in *Instance, o Options, best *Plan) (*Plan, error) {
	for _, l := range ladders(in, o) {
		if o.Family != "" && family(l, in.Degree) != o.Family {
			continue
		}
		known := Time(math.MaxInt64)
		if best != nil {
			known = best.Cost
		}
		p, err := explore(ctx, in, l, o, newLimit(in, l, o, known))
		if best = cheaper(best, p); err != nil {
			return best, err
		}
	}
	return best, nil
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
	carry := in.Sizes != nil && o.Method == Carry // all paths are spread
	switch l.(type) {
	case *steps, *cayleys:
		carry = true
	}
	m.tail = make([]Time, m.last+2)
	m.tail[m.last+1] = math.MaxInt64
	for d := m.last; d > 0; d-- {
		m.tail[d] = m.tail[d+1]
		if d >= m.first {
			m.tail[d] = min(m.tail[d], Time(d)*in.Reconfig+in.transfer(d, carry))
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
	switch l.(type) {
	case *steps, *wides:
		if in.GPUs > small && in.Degree == 1 {
			return cycles
		} else if in.GPUs > small {
			return wide
		}
	}
	return in.direct()
}

// explore climbs a ladder while a lower cost is possible, and returns the plan with the
// cheapest number of topologies, or nil if the ladder does not reach the number that is
// forced or has no plan. If ctx ends, it returns the plan for the best number so far with
// the error.
func explore(ctx context.Context, in *Instance, l ladder, o Options, limit *limit) (*Plan, error) {
	if in.Sizes != nil {
		return exploreSizes(ctx, in, l, o, limit)
	}
	best, least := 0, Time(0)
	var ended error
	for d := 1; d <= limit.last && !limit.over(d, least); d++ {
		if ended = ctx.Err(); ended != nil {
			break
		}
		var ok bool
		if ok, ended = l.next(ctx); ended != nil || !ok {
			break
		}
		if d < limit.first {
			continue
		}
		sum := l.sum()
		if sum >= far {
			continue
		}
		if cost := Time(d)*in.Reconfig + Time(sum)*in.T(); best == 0 || cost < least {
			best, least = d, cost
		}
	}
	if best == 0 {
		return nil, ended
	}
	p, err := l.plan(ctx, best)
	if err != nil {
		ended = err
		p, err = l.plan(context.WithoutCancel(ctx), best)
	}
	if err != nil || p == nil {
		return nil, cmp.Or(ended, err)
	}
	return p.finish(in), ended
}
