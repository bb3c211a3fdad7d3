package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/forsd/forsd/bipartite"
)

// stretches lists the stretches of mode Bytes that Auto tries; the first is none.
var stretches = []float64{1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2}

// likely is the stretch that is tried first if time is short.
const likely = 1.02

// Up to autoRanks GPUs, Auto tries the modes whose stages match single NICs. Beyond,
// these take long to plan and have more stages than others; up to moveRanks it tries
// MinMove if that may take less time.
const (
	autoRanks = 64
	moveRanks = 512
)

// orders is how many orders of NICs Auto tries if lanes matter.
const orders = 8

// Outlook is the possible gain of planning longer.
type Outlook struct {
	Complete bool    `json:"complete"`      // all alternatives were tried
	Least    float64 `json:"least_seconds"` // no plan takes less: Eq. 26, and the latency of the fewest possible stages
}

// Choose chooses the options with which mode Bytes is estimated to take the least time, and
// returns that time. It tries alternatives only within the budget, if any. The options may be
// passed to Plan and, by every rank, to Own. With a budget, ranks that choose for themselves
// may get different results.
func (p *Planner) Choose(ctx context.Context, t *Traffic, o Options) (Options, float64, Outlook, error) {
	if err := t.check(); err != nil {
		return o, 0, Outlook{}, err
	}
	if err := o.check(); err != nil {
		return o, 0, Outlook{}, err
	}
	c := newClock(o.Budget)
	s, err := newServers(ctx, t)
	if err != nil {
		return o, 0, Outlook{}, err
	}
	chosen, time, err := p.choose(ctx, s, o, c)
	return chosen, time, c.outlook(s, o.Model), err
}

// clock is the deadline of a budget.
type clock struct {
	end   time.Time // zero means no budget
	ended bool      // some alternatives were skipped
}

func newClock(budget time.Duration) *clock {
	if budget == 0 {
		return &clock{}
	}
	return &clock{end: time.Now().Add(budget)}
}

// over reports whether a step that may take some time exceeds the budget.
func (c *clock) over(may time.Duration) bool {
	if !c.end.IsZero() && time.Now().Add(may).After(c.end) {
		c.ended = true
	}
	return c.ended
}

// within returns a context that ends with the budget.
func (c *clock) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, c.end)
}

func (c *clock) outlook(s *servers, m Model) Outlook {
	m = m.orDefault().at(s.t.Site)
	return Outlook{!c.ended, float64(s.bound)/m.B2 + float64(s.fewest())*m.Latency.Seconds()}
}

// fewest is the least number of stages: a server needs a NIC for each partner.
func (s *servers) fewest() (stages int64) {
	n := s.t.Servers
	for i := range n {
		out, in := int64(0), int64(0)
		for j := range n {
			out += min(1, s.pairs[i*n+j])
			in += min(1, s.pairs[j*n+i])
		}
		stages = max(stages, over(max(out, in), max(1, s.each[i])))
	}
	return stages
}

// groupings lists the numbers of groups to try: one, two if servers are not alike, and, if these are
// not alike or have at most so many NICs in all, one for each NIC.
func (s *servers) groupings(o Options, most int) []int {
	each := int(slices.Max(s.each))
	switch {
	case o.Groups > 0:
		return []int{o.Groups}
	case !s.alike():
		return slices.Compact([]int{1, min(2, max(1, each)), max(1, each)})
	case each <= 1 || s.t.Ranks() > most:
		return []int{1}
	}
	return []int{1, each}
}

// best makes plans in several modes and returns the one with the least predicted time, the
// first of equals. If ctx ends before that, it returns the best plan so far with the error of
// ctx.
func (p *Planner) best(ctx context.Context, t *Traffic, o Options) (best *Plan, ended error) {
	c, model := newClock(o.Budget), o.Model.orDefault()
	s, err := newServers(ctx, t)
	if err != nil {
		return nil, err
	}
	var least Times
	var took time.Duration
	var many error
	for _, o.Groups = range s.groupings(o, moveRanks) {
		if ended != nil || best != nil && c.over(took) {
			break
		}
		start := time.Now()
		plan, failed := p.grouped(ctx, s, o, c)
		took = time.Since(start)
		switch {
		case plan == nil && best == nil && !errors.Is(failed, bipartite.ErrStages):
			return nil, failed
		case plan == nil:
			ended, many = ctx.Err(), failed // or the stages are too many
			continue
		}
		ended = failed
		if times := model.Predict(plan); best == nil || times.Total < least.Total {
			best, least = plan, times
		}
	}
	if best == nil {
		return nil, many
	}
	s.divide(0)
	shortest := s.least(s.share)
	for _, rival := range rivals(t, o, model, least) {
		if ended != nil || c.over(took) {
			break
		}
		plan, err := p.Plan(ctx, t, rival)
		if ended = ctx.Err(); ended != nil {
			break
		}
		if err != nil {
			continue // it has too many transfers, and would take longest
		}
		if o.MaxStretch > 0 && float64(plan.Length) > o.MaxStretch*float64(shortest) {
			continue
		}
		if times := model.Predict(plan); times.Total < least.Total {
			best, least = plan, times
		}
	}
	c.ended = c.ended || ended != nil
	outlook := c.outlook(s, model)
	best.Outlook = &outlook
	return best, ended
}

// grouped makes the plan of mode Bytes with the options that Choose chooses, and cuts its stages
// if moves prolong it. If lanes matter, it decomposes for several orders of NICs, until a plan takes
// a hundredth more than the least possible time at most. If ctx ends, it returns the best plan so
// far, if any, with the error of ctx.
func (p *Planner) grouped(ctx context.Context, s *servers, o Options, c *clock) (best *Plan, ended error) {
	chosen, seconds, ended := p.choose(ctx, s, o, c)
	if math.IsInf(seconds, 1) {
		return nil, cmp.Or(ended, fmt.Errorf("mode %s: %w", Bytes, bipartite.ErrStages))
	}
	model, count, least := o.Model.orDefault(), 1, 0.0
	if s.t.Site != nil && s.t.Site.Lanes != nil {
		count = orders
	}
	took := time.Duration(0)
	defer func() { s.order = 0 }()
	for s.order = range count {
		if best != nil && (ended != nil || least < 1.01*c.outlook(s, o.Model).Least || c.over(took)) {
			break
		}
		start := time.Now()
		plan, err := p.bytesOf(context.WithoutCancel(ctx), s, chosen, -1)
		switch {
		case best != nil && errors.Is(err, bipartite.ErrStages):
			continue
		case err != nil:
			return best, err
		case ended == nil && s.t.Ranks() <= moveRanks:
			plan, ended = p.polish(ctx, s, chosen, plan, c, time.Since(start))
		}
		if total := model.Predict(plan).Total; best == nil || total < least {
			best, least = plan, total
		}
		took = time.Since(start)
	}
	return best, ended
}

// polish halves the longest stage of a plan of mode Bytes while that saves time, if moves
// prolong the plan by more than a hundredth. The plan is valid even if err is not nil.
func (p *Planner) polish(ctx context.Context, s *servers, o Options, best *Plan, c *clock, took time.Duration) (*Plan, error) {
	longest, model := int64(0), o.Model.orDefault()
	least := model.Predict(best)
	for i := range best.Stages {
		longest = max(longest, best.Stages[i].Length)
	}
	for range cuts {
		if least.Before+least.Beside+least.After < least.Total/100 || longest < 2 || c.over(took) {
			break
		}
		longest = over(longest, 2)
		o.MaxStage = longest
		plan, err := p.bytesOf(ctx, s, o, -1)
		if err != nil {
			return best, ctx.Err() // or the stages are too many
		}
		times := model.Predict(plan)
		if times.Total >= least.Total {
			break
		}
		best, least = plan, times
	}
	return best, nil
}

// rivals returns the options that may take less time than a plan of mode Bytes of the
// given times.
func rivals(t *Traffic, o Options, model Model, bytes Times) (ways []Options) {
	way := func(mode Mode) { ways = append(ways, Options{Mode: mode, Grain: o.Grain, Model: model}) }
	if t.Ranks() <= moveRanks {
		ways = append(ways, Options{Mode: Bytes, Grain: o.Grain, MaxStage: o.MaxStage, Model: model})
	}
	if t.Ranks() <= autoRanks {
		if o.MaxStage == 0 {
			for _, mode := range []Mode{Rails, MinMove, Paper, None} {
				way(mode)
			}
		}
		return ways
	}
	if o.MaxStage > 0 || t.Site != nil {
		return ways
	}
	// Rails is shorter by n packets at most, and has more stages.
	if gain := float64(int64(t.Servers)*max(1, o.Grain)) / model.B2; gain >= model.Latency.Seconds() {
		way(Rails)
	}
	if t.Ranks() <= moveRanks && t.leastMoved(model) < bytes.Total {
		way(MinMove)
	}
	return ways
}

// leastMoved is about the least time of a plan of mode MinMove: it has at least as many
// stages as a GPU has partners in other servers. The moves may take no extra time.
func (t *Traffic) leastMoved(model Model) float64 {
	partners := make([]int64, len(t.Bytes))
	for at, v := range t.Bytes {
		if v > 0 && t.server(Rank(at/t.Ranks())) != t.server(Rank(at%t.Ranks())) {
			partners[at] = 1
		}
	}
	return float64(t.Bound())/model.B2 + float64(longest(t.Ranks(), partners))*model.Latency.Seconds()
}

// choose implements Choose: it chooses the stretch, up to the one allowed, the effort and the
// longest stage with which mode Bytes is estimated to take the least time. A grain leaves no
// stretch to choose. The length is known before the stages, and a plan has at least as many
// stages as a server has partners, so choose makes stages, the fastest to plan first, only
// while they may still take the least time. With an error it returns the best choice so far,
// whose time is infinite if nothing was tried.
func (p *Planner) choose(ctx context.Context, s *servers, o Options, c *clock) (Options, float64, error) {
	o.Mode = Bytes
	best, least, list := o, math.Inf(1), o.stretches()
	for _, o.Groups = range s.groupings(o, 1) {
		s.divide(o.Groups)
		for _, o.MaxStretch = range list {
			chosen, time, err := p.tryStretch(ctx, s, o, c, least)
			if time <= least {
				best, least = chosen, time
			}
			if err != nil {
				return best, least, err
			}
		}
	}
	return best, least, nil
}

// tryStretch chooses the effort and the longest stage. With none that takes at most least, the time that
// it returns is infinite.
func (p *Planner) tryStretch(ctx context.Context, s *servers, o Options, c *clock, least float64) (best Options, fastest float64, err error) {
	best, fastest = o, math.Inf(1)
	if _, err := s.round(ctx, o); err != nil {
		return best, fastest, err
	}
	model, partners, length := o.Model.orDefault().at(s.t.Site), s.partners(), longest(s.size, s.rounded)
	time := func(stages int64) float64 {
		return float64(length)/model.B2 + float64(stages)*model.Latency.Seconds()
	}
	for _, o.Fewest = range []bool{true, false} {
		limited, cancel := ctx, func() {}
		if least < math.Inf(1) { // the first try always completes
			if time(partners) > least || c.over(0) {
				continue
			}
			limited, cancel = c.within(ctx)
		}
		most := sort.Search(1<<32, func(stages int) bool { return time(int64(stages)) > least }) - 1
		lengths, _, err := p.serverStages(limited, s, o.Fewest, most)
		cancel()
		if errors.Is(err, bipartite.ErrStages) || err != nil && c.over(0) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return best, fastest, err
		}
		longest, time, err := model.cut(lengths, o.MaxStage, s.pull())
		if err != nil {
			return best, fastest, err
		}
		if time <= least {
			best, fastest, least = o, time, time
			best.MaxStage = longest
		}
	}
	return best, fastest, nil
}

// stretches returns the stretches that the options allow, the fastest to plan first; with a
// budget, those that are most often the best first.
func (o *Options) stretches() []float64 {
	list := slices.Clone(stretches)
	switch at, listed := slices.BinarySearch(stretches, o.MaxStretch); {
	case o.Grain > 1:
		list = list[:1]
	case o.MaxStretch > 0 && listed:
		list = list[:at+1]
	case o.MaxStretch > 0:
		list = append(list[:at], o.MaxStretch)
	}
	slices.Reverse(list)
	if o.Budget > 0 {
		slices.SortStableFunc(list, func(a, b float64) int { return cmp.Compare(math.Abs(a-likely), math.Abs(b-likely)) })
	}
	return list
}

// cuts is how many times Auto halves the longest stage, to reduce the moves before the first
// stage and after the last.
const cuts = 6

// cut chooses the longest stage, at most so many bytes unless that is 0, with which stages
// are estimated to take the least time.
func (m Model) cut(lengths []int64, most int64, by pull) (longest int64, least float64, err error) {
	longest = most
	if _, least, err = m.arrange(lengths, most, by); err != nil || len(lengths) == 0 {
		return longest, least, err
	}
	for at, limit := 0, slices.Max(lengths); at < cuts && limit > 1; at++ {
		limit = over(limit, 2)
		if most > 0 && limit >= most {
			continue
		}
		if m.lasts(lengths, limit) >= least {
			break // and shorter stages take longer
		}
		_, time, err := m.arrange(lengths, limit, by)
		if err != nil {
			break // shorter stages are even more
		}
		if time < least {
			longest, least = limit, time
		}
	}
	return longest, least, nil
}

// lasts is what stages take at least if they are cut so: sums of any order differ by less than 1e-9.
func (m Model) lasts(lengths []int64, limit int64) float64 {
	total, count := int64(0), int64(2)
	for _, v := range lengths {
		total += v
		count += over(v, limit)
	}
	return (float64(total)/m.B2 + float64(count)*m.Latency.Seconds()) * (1 - 1e-9)
}

// partners is the largest number of groups that a group sends to, or receives from.
func (s *servers) partners() int64 {
	some := make([]int64, len(s.share))
	for at, v := range s.share {
		some[at] = min(v, 1)
	}
	return longest(len(s.groups), some)
}
