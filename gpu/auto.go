package gpu

import (
	"cmp"
	"context"
	"errors"
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
	s := newServers(t)
	chosen, time, err := p.choose(ctx, s, o, c)
	return chosen, time, c.outlook(s, o.Model.orDefault()), err
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
	n, gpus := s.t.Servers, int64(s.t.GPUs)
	stages, bound := over(s.partners(), gpus), over(longest(n, s.pairs), gpus)
	return Outlook{!c.ended, float64(bound)/m.B2 + float64(stages)*m.Latency.Seconds()}
}

// best makes plans in several modes and returns the one with the least predicted time, the
// first of equals. If ctx ends before that, it returns the best plan so far with the error of
// ctx.
func (p *Planner) best(ctx context.Context, t *Traffic, o Options) (*Plan, error) {
	c, model := newClock(o.Budget), o.Model.orDefault()
	s := newServers(t)
	chosen, seconds, ended := p.choose(ctx, s, o, c)
	if ended != nil && math.IsInf(seconds, 1) {
		return nil, ended
	}
	start := time.Now()
	best, err := p.bytes(context.WithoutCancel(ctx), t, chosen, -1)
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	least := model.Predict(best)
	if ended == nil && t.Ranks() <= moveRanks {
		best, least, ended = p.polish(ctx, t, chosen, best, c, took)
	}
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
		if o.MaxStretch > 0 && float64(plan.Length) > o.MaxStretch*float64(longest(t.Servers, s.share)) {
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

// polish halves the longest stage of a plan of mode Bytes while that saves time, if moves
// prolong the plan by more than a hundredth. The plan is valid even if err is not nil.
func (p *Planner) polish(ctx context.Context, t *Traffic, o Options, best *Plan, c *clock, took time.Duration) (*Plan, Times, error) {
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
		plan, err := p.bytes(ctx, t, o, -1)
		if err != nil {
			return best, least, ctx.Err() // or the stages are too many
		}
		times := model.Predict(plan)
		if times.Total >= least.Total {
			break
		}
		best, least = plan, times
	}
	return best, least, nil
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
	if o.MaxStage > 0 {
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
	model, partners := o.Model.orDefault(), s.partners()
	best, least := o, math.Inf(1)
	limited, cancel := ctx, func() {}
	defer func() { cancel() }()
	for _, stretch := range o.stretches() {
		o.MaxStretch = stretch
		if _, err := s.round(ctx, o); err != nil {
			return best, least, err
		}
		length := longest(s.t.Servers, s.rounded)
		time := func(stages int64) float64 {
			return float64(length)/model.B2 + float64(stages)*model.Latency.Seconds()
		}
		for _, fewest := range []bool{true, false} {
			if time(partners) > least || least < math.Inf(1) && c.over(0) {
				continue
			}
			p.decomposer.MaxStages = sort.Search(1<<32, func(stages int) bool { return time(int64(stages)) > least }) - 1
			lengths, _, err := p.serverStages(limited, s, fewest)
			p.decomposer.MaxStages = 0
			if errors.Is(err, bipartite.ErrStages) || err != nil && ctx.Err() == nil && c.over(0) {
				continue
			}
			if err != nil {
				return best, least, err
			}
			longest, time, err := model.cut(lengths, o.MaxStage, s.pull())
			if err != nil {
				return best, least, err
			}
			if time <= least {
				least, best = time, o
				best.Fewest, best.MaxStage = fewest, longest
			}
			cancel() // of the previous try; the first one always completes
			limited, cancel = c.within(ctx)
		}
	}
	return best, least, nil
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

// partners is the largest number of servers that a server sends to, or receives from.
func (s *servers) partners() int64 {
	some := make([]int64, len(s.pairs))
	for at, v := range s.pairs {
		some[at] = min(v, 1)
	}
	return longest(s.t.Servers, some)
}
