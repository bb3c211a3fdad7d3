package photonic

import (
	"cmp"
	"context"
	"slices"
)

// If messages differ in size, a round lasts as long as its largest message, and the
// others wait. Plans of rounds are therefore repacked: every chunk takes the path of its
// class, as soon as the link is free.

// classLegs returns the paths of the classes of a plan on each topology,
// [topology][class] switches in order.
func (p *Plan) classLegs() [][][]int8 {
	legs := make([][][]int8, len(p.Topologies))
	for i := range legs {
		legs[i] = make([][]int8, p.GPUs)
	}
	for _, r := range p.Rounds {
		for _, path := range r.Paths {
			for _, s := range path.Switches {
				if s != Wait {
					legs[r.Topology][path.Class] = append(legs[r.Topology][path.Class], s)
				}
			}
		}
	}
	return legs
}

// flowLegs returns the paths of the messages of a plan of rounds on each topology, on
// links position·k + switch.
func (p *Plan) flowLegs(in *Instance) [][]leg {
	n, k := p.GPUs, p.Degree
	out := make([][]leg, len(p.Topologies))
	at := make([]int, n*n) // [class·n + position] the message's current position
	for x := range n {
		for pos := range n {
			at[x*n+pos] = pos
		}
	}
	for i, classes := range p.classLegs() {
		offsets := p.Topologies[i].Offsets
		for x, switches := range classes {
			for pos := range n {
				src, dst := p.at(pos), p.at((pos+x)%n)
				if len(switches) == 0 || in.size(src, dst) == 0 {
					continue
				}
				links := make([]int32, len(switches))
				here := &at[x*n+pos]
				for t, s := range switches {
					links[t] = int32(*here*k + int(s))
					*here = (*here + offsets[s]) % n
				}
				out[i] = append(out[i], leg{flow: int32(src*n + dst), links: links})
			}
		}
	}
	return out
}

// busiest is the sum over all topologies of the time of the busiest link: a lower bound
// that a packed plan comes close to.
func busiest(in *Instance, legs [][]leg) Time {
	load := make([]Time, in.GPUs*in.Degree)
	sum := Time(0)
	for _, of := range legs {
		clear(load)
		for i := range of {
			l := &of[i]
			t := l.time(in)
			for _, link := range l.links {
				load[link] += t
			}
		}
		sum += slices.Max(load)
	}
	return sum
}

// pack makes a plan of single chunks from the topologies of a plan of rounds. It returns
// nil if it would have too many moves or could not cost less than known.
func (p *Plan) pack(ctx context.Context, in *Instance, ways [][]leg, known Time) (*Plan, error) {
	count := moves(in, ways)
	if count > maxMoves || Time(len(p.Topologies))*in.Reconfig+busiest(in, ways) >= known {
		return nil, nil
	}
	out := &Plan{GPUs: p.GPUs, Degree: p.Degree, Method: p.Method, Family: p.Family, Topologies: p.Topologies, Label: p.Label, Hops: make([]Hop, 0, count)}
	switches := make([]uint16, p.GPUs*p.Degree)
	for link := range switches {
		switches[link] = uint16(link % p.Degree)
	}
	for i, legs := range ways {
		var span Time
		var err error
		if out.Hops, span, err = pack(ctx, in, i, switches, legs, out.Hops); err != nil {
			return nil, err
		}
		out.Spans = append(out.Spans, span)
	}
	return out.finish(in), nil
}

// labelled returns a plan of rounds with the GPUs at other positions.
func (p *Plan) labelled(in *Instance, label []int32) *Plan {
	out := *p
	out.Label = label
	return out.finish(in)
}

// rough is a number of topologies and the estimated cost of its plan.
type rough struct {
	topologies int
	cost       Time
}

// estimate is the cost of the plan with d topologies on a ladder that has climbed that
// far: exact for rounds, otherwise by the busiest links.
func estimate(ctx context.Context, in *Instance, l ladder, d int, o Options) (Time, error) {
	reconfig := Time(d) * in.Reconfig
	switch l := l.(type) {
	case *meshes:
		return reconfig + busiest(in, l.legs()), nil
	case *cayleys:
		return reconfig + busiest(in, l.legs(d)), nil
	}
	p, err := l.plan(ctx, d)
	if err != nil {
		return 0, err
	}
	cost := p.finish(in).Cost
	if o.packed {
		cost = min(cost, reconfig+busiest(in, p.flowLegs(in)))
	}
	return cost, nil
}

const (
	// finalists is the number of candidates that are planned in full.
	finalists = 3
	// relabelGain is the share of the cost that relabelling may save: it saved up to a
	// fifth in measurements.
	relabelGain = 0.2
)

// exploreSizes is explore for messages of many sizes: it climbs the ladder, estimates the
// plans by their busiest links, and makes the best in full, with and without relabelling.
// If ctx ends, it returns the best plan so far with the error.
func exploreSizes(ctx context.Context, in *Instance, l ladder, o Options, limit *limit) (*Plan, error) {
	var list []rough
	var ended error
	least := Time(0)
	for d := 1; d <= limit.last && !limit.over(d, least); d++ {
		if ended = ctx.Err(); ended != nil {
			break
		}
		var ok bool
		if ok, ended = l.next(ctx); ended != nil || !ok {
			break
		}
		if d < limit.first || l.sum() >= far {
			continue
		}
		var cost Time
		if cost, ended = estimate(ctx, in, l, d, o); ended != nil {
			break
		}
		list = append(list, rough{d, cost})
		slices.SortStableFunc(list, func(a, b rough) int { return cmp.Compare(a.cost, b.cost) })
		list = list[:min(len(list), finalists)]
		least = list[0].cost
	}
	var best *Plan
	for _, r := range list {
		if ended != nil {
			break
		}
		if best != nil && float64(r.cost)*(1-relabelGain) >= float64(best.Cost) {
			continue
		}
		var p *Plan
		if p, ended = l.plan(ctx, r.topologies); p == nil {
			continue
		}
		if p, ended = p.finish(in).inFull(ctx, in, o, limit.known); ended == nil {
			best = cheaper(best, p)
		}
	}
	if ended != nil && best == nil {
		return roughest(ctx, in, l, list, ended)
	}
	return best, ended
}

// roughest returns the most promising plan without improving it, after ctx has ended.
func roughest(ctx context.Context, in *Instance, l ladder, list []rough, ended error) (*Plan, error) {
	if len(list) == 0 {
		return nil, ended
	}
	p, err := l.plan(context.WithoutCancel(ctx), list[0].topologies)
	if err != nil || p == nil {
		return nil, cmp.Or(err, ended)
	}
	return p.finish(in), ended
}

// inFull returns the cheapest form of a plan of rounds: in rounds or chunk by chunk, with
// or without relabelling. It skips packed forms that cannot cost less than known.
func (p *Plan) inFull(ctx context.Context, in *Instance, o Options, known Time) (*Plan, error) {
	if p.Hops != nil {
		return p, nil
	}
	best := p
	if o.packed {
		packed, err := p.carriedOut(ctx, in, o, min(known, best.Cost))
		if err != nil {
			return nil, err
		}
		best = cheaper(best, packed)
	}
	if !o.Relabel {
		return best, nil
	}
	together, short, err := relabel(ctx, in, p)
	if err != nil {
		return nil, err
	}
	best = cheaper(best, p.labelled(in, together))
	if o.packed {
		packed, err := p.labelled(in, short).carriedOut(ctx, in, o, min(known, best.Cost))
		if err != nil {
			return nil, err
		}
		best = cheaper(best, packed)
	}
	return best, nil
}

// carriedOut turns a plan of rounds into one of single chunks, on the same paths or, if
// chunks may wait for another topology, on the least busy ones. It returns nil when pack does.
func (p *Plan) carriedOut(ctx context.Context, in *Instance, o Options, known Time) (*Plan, error) {
	if o.Method != Carry {
		return p.pack(ctx, in, p.flowLegs(in), known)
	}
	sets := make([][]int32, len(p.Topologies))
	for i, t := range p.Topologies {
		for _, a := range t.Offsets {
			sets[i] = append(sets[i], int32(a))
		}
	}
	label, err := labels(p.GPUs, p.Label)
	if err != nil {
		return nil, err
	}
	ways, err := spreadLegs(ctx, in, cyclic(p.GPUs), sets, label)
	if err != nil {
		return nil, err
	}
	out, err := p.pack(ctx, in, ways, known)
	if out != nil {
		out.Method = Carry
	}
	return out, err
}
