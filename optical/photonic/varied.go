package photonic

import (
	"cmp"
	"context"
	"slices"
)

// If messages differ in size, each takes a path of its own over the topologies of a
// ladder, and every chunk is sent as soon as its link is free.

// layOut returns a plan with the topologies of some sets of a group, and the GPUs at the
// positions of a label.
func (in *Instance) layOut(family string, g *group, sets [][]int32, label []int32) *Plan {
	p := &Plan{GPUs: in.GPUs, Degree: in.Degree, Family: family, Topologies: make([]Topology, len(sets))}
	if family != "cayley" {
		p.Label = label
	}
	at, _ := labels(in.GPUs, label)
	for i, set := range sets {
		t := &p.Topologies[i]
		for _, x := range set {
			if family != "cayley" {
				t.Offsets = append(t.Offsets, int(x))
				continue
			}
			row := make([]int32, in.GPUs)
			for v := range int32(in.GPUs) {
				row[at[v]] = at[g.mul(v, x)]
			}
			t.Next = append(t.Next, row)
		}
	}
	return p
}

// rough is a number of topologies, and the estimated cost and the paths of its plan.
type rough struct {
	topologies int
	cost       Time
	ways       [][]leg // nil if messages have one size
}

// estimate estimates the plan with d topologies on a ladder that has climbed that far: by
// the hop sum or, if sizes differ, by the busiest links.
func estimate(ctx context.Context, in *Instance, l ladder, d int) (rough, error) {
	r := rough{topologies: d, cost: Time(d) * in.Reconfig}
	if in.Sizes == nil {
		r.cost += Time(l.sum()) * in.T()
		return r, nil
	}
	g, sets := l.(symmetric).layout(d)
	var err error
	r.ways, err = spreadLegs(ctx, in, g, sets, nil)
	r.cost += busiest(in, r.ways)
	return r, err
}

const (
	// finalists is the number of candidates that are planned in full if sizes differ.
	finalists = 3
	// relabelGain is the share of the cost that relabelling may save: it saved up to a
	// fifth in measurements.
	relabelGain = 0.2
)

// inFull makes the plan of an estimate, or returns nil. If sizes differ, it is the cheaper
// of those with and without relabelling, unless neither can cost less than known.
func (r *rough) inFull(ctx context.Context, in *Instance, l ladder, o Options, known Time) (*Plan, error) {
	if in.Sizes == nil {
		return r.inRounds(ctx, in, l)
	}
	g, sets := l.(symmetric).layout(r.topologies)
	family := circulant(in.Degree)
	if _, ok := l.(*cayleys); ok {
		family = "cayley"
	}
	best, err := in.layOut(family, g, sets, nil).pack(ctx, in, r.ways, known)
	if err != nil {
		return nil, err
	}
	if o.Relabel {
		label, err := place(ctx, in, g, sets)
		if err != nil {
			return nil, err
		}
		ways, err := spreadLegs(ctx, in, g, sets, label)
		if err != nil {
			return nil, err
		}
		if best != nil {
			known = min(known, best.Cost)
		}
		p, err := in.layOut(family, g, sets, label).pack(ctx, in, ways, known)
		if err != nil {
			return nil, err
		}
		best = cheaper(best, p)
	}
	if best == nil && known == never { // too many moves
		return r.inRounds(ctx, in, l)
	}
	return best, nil
}

// inRounds makes the plan of an estimate as for messages of one size.
func (r *rough) inRounds(ctx context.Context, in *Instance, l ladder) (*Plan, error) {
	p, err := l.plan(ctx, r.topologies)
	if p == nil || err != nil {
		return nil, err
	}
	return p.finish(in), nil
}

// explore climbs a ladder while a lower cost is possible, estimates its plans, makes the
// best in full, and returns the cheapest, or nil if the ladder does not reach the number of
// topologies that is forced or has no plan. If ctx ends, it returns the best plan so far,
// or the one with the best estimate, with the error.
func explore(ctx context.Context, in *Instance, l ladder, o Options, limit *limit) (best *Plan, ended error) {
	keep := 1
	if in.Sizes != nil {
		keep = finalists
	}
	var list []rough
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
		var r rough
		if r, ended = estimate(ctx, in, l, d); ended != nil {
			break
		}
		list = append(list, r)
		slices.SortStableFunc(list, func(a, b rough) int { return cmp.Compare(a.cost, b.cost) })
		list = list[:min(len(list), keep)]
		least = list[0].cost
	}
	for _, r := range list {
		if ended != nil {
			break
		}
		if best != nil && float64(r.cost)*(1-relabelGain) >= float64(best.Cost) {
			continue
		}
		var p *Plan
		if p, ended = r.inFull(ctx, in, l, o, limit.known); ended == nil {
			best = cheaper(best, p)
		}
	}
	if ended != nil && best == nil && len(list) > 0 {
		p, err := list[0].inRounds(context.WithoutCancel(ctx), in, l)
		return p, cmp.Or(ended, err)
	}
	return best, ended
}
