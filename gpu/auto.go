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
	o.Mode = Bytes
	if err := p.stretch(ctx, t, &o, model); err != nil {
		return nil, err
	}
	best, err := p.bytes(ctx, t, o)
	if err != nil {
		return nil, err
	}
	least := model.Predict(best)
	for _, mode := range rivals(t, o.Grain, model, least) {
		plan, err := p.units(ctx, t, Options{Mode: mode, Grain: o.Grain})
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

// rivals are the modes that may take less time than a plan of mode Bytes that takes
// so much.
func rivals(t *Traffic, grain int64, model Model, bytes Times) (modes []Mode) {
	if t.Ranks() <= autoRanks {
		return []Mode{Rails, MinMove, Paper, None}
	}
	// Rails is shorter by n packets at most, and has more stages.
	if gain := float64(int64(t.Servers)*max(1, grain)) / model.B2; gain >= model.Latency.Seconds() {
		modes = append(modes, Rails)
	}
	if t.Ranks() <= moveRanks && t.leastMoved(model) < bytes.Total {
		modes = append(modes, MinMove)
	}
	return modes
}

// leastMoved is about the least that a plan of mode MinMove takes: as many stages
// as a GPU has partners in other servers, and moves of what the busiest GPUs have
// above T*.
func (t *Traffic) leastMoved(model Model) float64 {
	partners := make([]int64, len(t.Bytes))
	for at, v := range t.Bytes {
		if v > 0 && t.server(Rank(at/t.Ranks())) != t.server(Rank(at%t.Ranks())) {
			partners[at] = 1
		}
	}
	out, in := t.loads()
	bound := t.Bound()
	moved := max(0, slices.Max(out)-bound) + max(0, slices.Max(in)-bound)
	return float64(bound)/model.B2 + float64(longest(t.Ranks(), partners))*model.Latency.Seconds() + float64(moved)/model.B1
}

// stretch chooses the stretch, up to the one allowed, and the effort with which the
// stages take the least time, of equals the first. A grain leaves no stretch to
// choose. The length is known before the stages are, and there are no fewer of them
// than a server has partners; so stages are made only as far as they may still take
// the least time, the quickest to make first.
func (p *Planner) stretch(ctx context.Context, t *Traffic, o *Options, model Model) error {
	tried := stretches
	switch at, listed := slices.BinarySearch(stretches, o.MaxStretch); {
	case o.Grain > 1:
		tried = stretches[:1]
	case o.MaxStretch > 0 && listed:
		tried = stretches[:at+1]
	case o.MaxStretch > 0:
		tried = append(slices.Clone(stretches[:at]), o.MaxStretch)
	}
	n, partners := t.Servers, t.partners()
	var best Options
	least := math.Inf(1)
	for _, s := range slices.Backward(tried) {
		o.MaxStretch = s
		share, _, err := p.shares(ctx, t, *o)
		if err != nil {
			return err
		}
		length := longest(n, share)
		time := func(stages int64) float64 {
			return float64(length)/model.B2 + float64(stages)*model.Latency.Seconds()
		}
		for _, o.Fewest = range []bool{true, false} {
			if time(partners) > least {
				continue
			}
			p.decomposer.MaxStages = sort.Search(1<<32, func(stages int) bool { return time(int64(stages)) > least }) - 1
			lengths, _, err := p.serverStages(ctx, n, share, o.Fewest)
			p.decomposer.MaxStages = 0
			if err == nil && time(int64(len(lengths))) <= least {
				best, least = *o, time(int64(len(lengths)))
			} else if err != nil && !errors.Is(err, bipartite.ErrStages) {
				return err
			}
		}
	}
	*o = best
	return nil
}

// partners is how many other servers one sends to, or receives from, at most.
func (t *Traffic) partners() int64 {
	pairs := t.Pairs()
	for at, v := range pairs {
		pairs[at] = min(v, 1)
	}
	return longest(t.Servers, pairs)
}
