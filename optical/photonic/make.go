package photonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Options are how an exchange is planned.
type Options struct {
	Method Method
	// Reconfigurations forces the number of topologies; 0 chooses it.
	Reconfigurations int
	// Family keeps to topologies of one kind: cycle (degree 1), circulant, kautz or
	// cayley; empty for all.
	Family string
	// Relabel places GPUs so that large messages have short ways and go together,
	// where sizes differ.
	Relabel bool
	// packed lets chunks of many sizes go as soon as their links are free, and not
	// round by round as published.
	packed bool
}

// Make plans an exchange, and has Replay check the plan. It fails where the
// instance or the options make no sense, or where the method has no plan with as
// many reconfigurations as are asked for. Soon after ctx ends it returns the cheapest
// plan so far, and fails where it has none yet; where ctx was cancelled, ctx.Err() comes
// beside the plan.
func Make(ctx context.Context, in *Instance, o Options) (*Plan, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	if !slices.Contains([]Method{Paper, Greedy, Carry, Auto}, o.Method) {
		return nil, fmt.Errorf("there is no method %q: want paper, greedy, carry or auto", o.Method)
	}
	if !slices.Contains([]string{"", "cycle", "circulant", "kautz", "cayley"}, o.Family) {
		return nil, fmt.Errorf("there is no family %q of topologies: want cycle, circulant, kautz or cayley", o.Family)
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
			return nil, fmt.Errorf("the plan is wrong, which is a fault of the planner: %w", err)
		}
	}
	if ended == nil {
		return best, nil
	}
	if _, err := Replay(context.WithoutCancel(ctx), in, best); err != nil {
		return nil, fmt.Errorf("the plan is wrong, which is a fault of the planner: %w", err)
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

// climbAll is the cheapest plan of all ladders of a method. Where sizes differ, Auto
// takes the best of all methods, and of the alternatives. Plans with waiting come
// before others that they mostly beat, which then end early. With an error comes the
// cheapest plan so far, as from climb.
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

// cheaper is the plan that costs less, of equals the first; nil is no plan.
func cheaper(a, b *Plan) *Plan {
	if a == nil || b != nil && b.Cost < a.Cost {
		return b
	}
	return a
}

// climb climbs the ladders of a method, and returns the cheapest of their plans and
// of one that there is already, if there is.
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

// limit is where climbing a ladder is of no more use.
type limit struct {
	first, last int    // the fewest and the most topologies of a plan
	known       Time   // the cost of a plan that there is already
	tail        []Time // [d] a bound on the cost of plans with d topologies and more
}

func newLimit(in *Instance, l ladder, o Options, known Time) *limit {
	m := &limit{first: 1, last: in.direct(), known: known}
	if d := o.Reconfigurations; d > 0 {
		m.first, m.last = d, d
	}
	carry := in.Sizes != nil && o.Method == Carry // all ways are spread
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

// over tells whether no plan of d topologies or more can beat what is known, or
// the least cost on this ladder.
func (m *limit) over(d int, least Time) bool {
	return m.tail[d] >= m.known || least > 0 && m.tail[d] >= least
}

// longest is how many topologies are tried where their number is free: beyond
// some hundreds what waiting saves is little, and the search for it long.
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

// explore climbs a ladder to the number of topologies that costs least, as far as
// a lower cost is possible, and plans there. It returns nil where the ladder does
// not reach the number that is forced, or has nothing to offer. Where ctx ends, the best
// number until then is planned, beside the error.
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
