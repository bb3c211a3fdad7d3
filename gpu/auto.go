package gpu

import (
	"context"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/forsd/forsd/bipartite"
)

// stretches are the stretches of mode Bytes that Auto tries, in order, the first
// without.
var stretches = []float64{1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2}

// Up to autoRanks GPUs, Auto tries the modes whose stages are of single NICs. Beyond,
// these take long to make and have more stages than others; up to moveRanks it
// tries MinMove where that may take less time.
const (
	autoRanks = 64
	moveRanks = 512
)

// best makes plans in several modes and returns the one with the least predicted
// time, the first of them where several have it.
func (p *Planner) best(ctx context.Context, t *Traffic, o Options) (*Plan, error) {
	model := o.Model.orDefault()
	chosen, err := p.choose(ctx, t, o)
	if err != nil {
		return nil, err
	}
	best, err := p.bytes(ctx, t, chosen, -1)
	if err != nil {
		return nil, err
	}
	least := model.Predict(best)
	if t.Ranks() <= moveRanks {
		if best, least, err = p.polish(ctx, t, chosen, best, least); err != nil {
			return nil, err
		}
	}
	for _, rival := range rivals(t, o, model, least) {
		plan, err := p.Plan(ctx, t, rival)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil {
			continue // it has too many transfers, and would take longest
		}
		if times := model.Predict(plan); times.Total < least.Total {
			best, least = plan, times
		}
	}
	return best, nil
}

// polish cuts the stages of a plan of mode Bytes shorter, as long as that takes less
// time, where moves prolong it by more than a hundredth.
func (p *Planner) polish(ctx context.Context, t *Traffic, o Options, best *Plan, least Times) (*Plan, Times, error) {
	longest := int64(0)
	for i := range best.Stages {
		longest = max(longest, best.Stages[i].Length)
	}
	for range cuts {
		if least.Before+least.Beside+least.After < least.Total/100 || longest < 2 {
			break
		}
		longest = over(longest, 2)
		o.MaxStage = longest
		plan, err := p.bytes(ctx, t, o, -1)
		if err != nil {
			return nil, Times{}, err
		}
		times := o.Model.Predict(plan)
		if times.Total >= least.Total {
			break
		}
		best, least = plan, times
	}
	return best, least, nil
}

// rivals are the ways that may take less time than a plan of mode Bytes that takes
// so much.
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

// leastMoved is about the least that a plan of mode MinMove takes: as many stages
// as a GPU has partners in other servers. The moves may take no time of their own.
func (t *Traffic) leastMoved(model Model) float64 {
	partners := make([]int64, len(t.Bytes))
	for at, v := range t.Bytes {
		if v > 0 && t.server(Rank(at/t.Ranks())) != t.server(Rank(at%t.Ranks())) {
			partners[at] = 1
		}
	}
	return float64(t.Bound())/model.B2 + float64(longest(t.Ranks(), partners))*model.Latency.Seconds()
}

// choose chooses the stretch, up to the one allowed, the effort and the longest stage
// with which mode Bytes is estimated to take the least time, of equals the first. A
// grain leaves no stretch to choose. The length is known before the stages are, and
// there are no fewer of them than a server has partners; so stages are made only as far
// as they may still take the least time, the quickest to make first.
func (p *Planner) choose(ctx context.Context, t *Traffic, o Options) (Options, error) {
	o.Mode = Bytes
	model := o.Model.orDefault()
	s, partners := newServers(t), t.partners()
	best, least := o, math.Inf(1)
	for _, stretch := range slices.Backward(o.stretches()) {
		o.MaxStretch = stretch
		if _, err := s.round(ctx, o); err != nil {
			return o, err
		}
		length := longest(t.Servers, s.rounded)
		time := func(stages int64) float64 {
			return float64(length)/model.B2 + float64(stages)*model.Latency.Seconds()
		}
		for _, fewest := range []bool{true, false} {
			if time(partners) > least {
				continue
			}
			p.decomposer.MaxStages = sort.Search(1<<32, func(stages int) bool { return time(int64(stages)) > least }) - 1
			lengths, _, err := p.serverStages(ctx, s, fewest)
			p.decomposer.MaxStages = 0
			if errors.Is(err, bipartite.ErrStages) {
				continue
			}
			if err != nil {
				return o, err
			}
			longest, time := model.cut(lengths, o.MaxStage, s.pull())
			if time <= least {
				least, best = time, o
				best.Fewest, best.MaxStage = fewest, longest
			}
		}
	}
	return best, nil
}

// stretches are the stretches that the options leave to choose from.
func (o *Options) stretches() []float64 {
	switch at, listed := slices.BinarySearch(stretches, o.MaxStretch); {
	case o.Grain > 1:
		return stretches[:1]
	case o.MaxStretch > 0 && listed:
		return stretches[:at+1]
	case o.MaxStretch > 0:
		return append(slices.Clone(stretches[:at]), o.MaxStretch)
	}
	return stretches
}

// cuts is how many times Auto halves the longest stage, to have less to move before the
// first and after the last.
const cuts = 6

// cut chooses the longest stage, at most so many bytes, 0 for any, with which stages are
// estimated to take the least time.
func (m Model) cut(lengths []int64, most int64, by pull) (longest int64, least float64) {
	longest = most
	_, least = m.arrange(lengths, most, by)
	if len(lengths) == 0 {
		return longest, least
	}
	for at, limit := 0, slices.Max(lengths); at < cuts && limit > 1; at++ {
		limit = over(limit, 2)
		if most > 0 && limit >= most {
			continue
		}
		if _, time := m.arrange(lengths, limit, by); time < least {
			longest, least = limit, time
		}
	}
	return longest, least
}

// partners is how many other servers one sends to, or receives from, at most.
func (t *Traffic) partners() int64 {
	pairs := t.Pairs()
	for at, v := range pairs {
		pairs[at] = min(v, 1)
	}
	return longest(t.Servers, pairs)
}
