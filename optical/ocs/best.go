package ocs

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// search is a local search of the method Best: its best plan so far and the plan's
// permutations.
type search struct {
	s     int
	δ     float64
	cover *cover
	plan  *plan
}

// best starts with the covers and schedules of the other methods and improves them until
// the makespan reaches the bound. It schedules small demands exactly.
func (o Options) best(ctx context.Context, d *Demand) (*cover, *plan, error) {
	b := &candidates{o: o, bound: Bound(d, o.Switches, o.Delta).Sharp}
	b.first(d)
	if err := b.begin(ctx, d); err != nil && ctx.Err() == nil {
		return nil, nil, err
	}
	if b.done() || ctx.Err() != nil {
		return b.cover, b.plan, nil
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if o.Budget > 0 {
		within, cancel = context.WithTimeout(ctx, o.Budget/2)
		o.Budget -= o.Budget / 2
	}
	c, p, all := exactly(within, d, o, b.makespan, b.bound)
	cancel()
	if c != nil {
		b.offer(c, p)
	}
	if !all {
		b.improve(ctx)
	}
	return b.cover, b.plan, nil
}

// candidates holds the best schedule so far and the searches that may continue.
type candidates struct {
	o        Options
	bound    float64
	starts   []*search
	cover    *cover
	plan     *plan
	makespan float64
}

// done reports whether the best schedule is known to be optimal.
func (b *candidates) done() bool { return b.cover != nil && b.makespan <= b.bound*(1+tolerance) }

// offer keeps a plan if it is shorter than the best so far. It compares makespans summed
// in order of time, whose rounding differs from that of the loads.
func (b *candidates) offer(c *cover, p *plan) {
	if t := p.schedule(c).Makespan(); b.cover == nil || t < b.makespan {
		b.cover, b.plan, b.makespan = c, p, t
	}
}

// begin makes the schedules of the other methods until one reaches the bound.
func (b *candidates) begin(ctx context.Context, d *Demand) error {
	if b.o.From != nil {
		if err := b.from(ctx, d, b.o.From); err != nil {
			return err
		}
	}
	c, err := b.o.spectra(ctx, d)
	if err != nil {
		return err
	}
	b.start(c)
	for _, by := range variants {
		if b.done() {
			return nil
		}
		if c, err = decomposeBy(ctx, d, by); err != nil {
			return err
		}
		b.start(c)
	}
	if c, err = eclipse(ctx, d, b.o.Delta, 0, b.o.Switches, b.makespan); c != nil && err == nil {
		b.start(c)
	}
	return err
}

// start adds a search that begins with a cover.
func (b *candidates) start(c *cover) {
	x := newSearch(c, b.o)
	b.starts = append(b.starts, x)
	p := lpt(c.weight, b.o.Switches, b.o.Delta)
	p.equalize()
	b.offer(c, p)
	b.offer(c, x.plan)
}

// rounds lists how many searches take part in each round, and the divisor of the steps
// that each gets; 0 means no steps.
var rounds = []struct{ searches, part int }{{4, 0}, {2, 16}}

// improve searches from the lightest covers, at most one per number of permutations,
// continues those with the shortest plans, and varies the best.
func (b *candidates) improve(ctx context.Context) {
	if b.o.Budget > 0 {
		within, cancel := context.WithTimeout(ctx, b.o.Budget)
		defer cancel()
		ctx = within
	}
	slices.SortStableFunc(b.starts, func(x, y *search) int { return cmp.Compare(x.cover.worth(x.δ), y.cover.worth(y.δ)) })
	var searches []*search
	for _, x := range b.starts {
		if len(searches) < rounds[0].searches && len(x.cover.weight) > 1 && !slices.ContainsFunc(searches, func(y *search) bool { return len(y.cover.weight) == len(x.cover.weight) }) {
			searches = append(searches, x)
		}
	}
	k := newColourer(b.cover.d)
	for _, r := range rounds {
		searches = searches[:min(len(searches), r.searches)]
		for _, s := range searches {
			if b.turn(ctx, s, k, r.part) {
				return
			}
		}
		slices.SortStableFunc(searches, func(x, y *search) int { return cmp.Compare(x.plan.makespan(), y.plan.makespan()) })
	}
	if len(searches) == 0 {
		return
	}
	best, random := searches[0], rand.New(rand.NewPCG(1, 0))
	for range min(mostVariations, worthVarying/max(1, k.effort(len(best.cover.weight)))) {
		s := best.vary(ctx, k, b.o, random)
		if s == nil {
			break
		}
		if b.turn(ctx, s, k, 0) || b.turn(ctx, s, k, 64) {
			return
		}
		if s.plan.makespan() < best.plan.makespan() {
			best = s
		}
	}
	b.turn(ctx, best, k, 2)
}

// turn continues a search with a fraction 1/part of the steps, and reports whether the
// whole search is done.
func (b *candidates) turn(ctx context.Context, s *search, k *colourer, part int) bool {
	if part > 0 {
		s.run(ctx, cmp.Or(b.o.Steps, DefaultSteps(b.cover.d.n))/part, b.o.Budget/time.Duration(part), b.bound)
	}
	s.lighten(ctx, k)
	b.offer(s.cover, s.plan)
	return b.done() || ctx.Err() != nil
}

// The best search is varied less often if colouring takes long.
const (
	mostVariations = 16
	worthVarying   = 3 << 20
)

// vary begins a search with other weights: each at random between its least possible and
// its present value, with some noise, and every other time one more permutation.
func (b *search) vary(ctx context.Context, k *colourer, o Options, random *rand.Rand) *search {
	weights := k.floors(b.cover.weight)
	mean := sum(b.cover.weight) / float64(len(weights))
	for i, α := range b.cover.weight {
		weights[i] += (α-weights[i])*random.Float64() + 0.1*mean*random.Float64()
	}
	if random.IntN(2) == 0 {
		weights = append(weights, mean*random.Float64())
	}
	c := k.colour(ctx, weights)
	if c == nil {
		return nil
	}
	if c.prune(); len(c.weight) < 2 {
		return nil
	}
	return newSearch(c, o)
}

// lighten looks for a lighter cover and packs it onto the switches.
func (b *search) lighten(ctx context.Context, k *colourer) {
	if c := k.lighten(ctx, b.cover); c != b.cover {
		b.keep(c)
	}
}

// keep packs a cover, and keeps it with its plan if that is the shortest.
func (b *search) keep(c *cover) {
	if p := pack(c.weight, b.s, b.δ); p.makespan() < b.plan.makespan() {
		b.cover, b.plan = c, p
	}
}

func newSearch(c *cover, o Options) *search {
	return &search{o.Switches, o.Delta, c, pack(c.weight, o.Switches, o.Delta)}
}

// run improves the permutations within a number of steps or a time, until the makespan
// reaches the bound.
func (b *search) run(ctx context.Context, steps int, budget time.Duration, bound float64) {
	end := time.Now().Add(budget)
	x := newExchanger(b.cover, 1)
	period := max(len(x.weight), steps/looks) // a look costs about as much as a step of each
	for i := 1; budget > 0 || i <= steps; i++ {
		if i%16 == 0 && (ctx.Err() != nil || budget > 0 && !time.Now().Before(end)) {
			break
		}
		k := len(x.weight)
		p := x.random.IntN(k)
		q := x.random.IntN(k - 1)
		if q >= p {
			q++
		}
		x.pair(p, q)
		if i%period == 0 {
			if b.look(x); b.plan.makespan() <= bound*(1+tolerance) {
				return
			}
			x.overflow(b.δ)
		}
	}
	b.look(x)
}

// looks is the number of times that run packs the permutations, if they are few.
const looks = 64

// DefaultSteps is the number of steps of Best if neither steps nor a budget are given:
// about half a second on a machine of 2024 if the permutations are few.
func DefaultSteps(racks int) int { return max(8000, 8_000_000/max(racks, 1)) }

// look packs the current permutations and keeps them if their plan is the shortest.
func (b *search) look(x *exchanger) {
	c := x.cover()
	c.refine()
	c.prune()
	b.keep(c)
}

// overflow adds a permutation that carries the peaks of others, if that saves more than
// its δ: each of the others becomes lighter by the weight of the new one.
func (x *exchanger) overflow(δ float64) {
	var take, lowered []int
	gain, weight := 0.0, 0.0
	for f := 1.0 / 16; f <= 16; f *= 2 {
		y := δ * f
		take = x.relieved(y, take[:0])
		if g := float64(len(take)-1)*y - δ; g > gain {
			gain, weight = g, y
			lowered = append(lowered[:0], take...)
		}
	}
	if gain <= 0 {
		return
	}
	z := len(x.weight)
	x.grow(weight)
	for _, c := range lowered {
		for _, e := range x.row[c] {
			if e < 0 {
				continue
			}
			if x.need(e) > -weight {
				x.put(z, e)
			} else {
				x.carried[e] -= weight
			}
		}
		x.weight[c] -= weight
	}
}

// relieved lists permutations whose peaks of height y one more permutation could carry.
func (x *exchanger) relieved(y float64, take []int) []int {
	row, col := make([]bool, x.d.n), make([]bool, x.d.n)
	lost := make([]float64, len(x.d.to)) // [entry] carried no longer
	var peaks []int32
next:
	for c, α := range x.weight {
		if α <= y {
			continue
		}
		peaks = peaks[:0]
		for _, e := range x.row[c] {
			if e >= 0 && x.need(e)+lost[e] > -y {
				if row[x.d.from[e]] || col[x.d.to[e]] {
					continue next
				}
				peaks = append(peaks, e)
			}
		}
		for _, e := range x.row[c] {
			if e >= 0 {
				lost[e] += y
			}
		}
		for _, e := range peaks {
			row[x.d.from[e]], col[x.d.to[e]] = true, true
			lost[e] -= y
		}
		take = append(take, c)
	}
	return take
}
