package gpu

import (
	"math"
	"slices"
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
func (p *Planner) best(t *Traffic, o Options) (*Plan, error) {
	model := o.Model.orDefault()
	o.Mode = Bytes
	if err := p.stretch(t, &o, model); err != nil {
		return nil, err
	}
	best, err := p.bytes(t, o)
	if err != nil {
		return nil, err
	}
	least := model.Predict(best)
	for _, mode := range rivals(t, o.Grain, model, least) {
		plan, err := p.units(t, Options{Mode: mode, Grain: o.Grain})
		if err := p.stop(); err != nil {
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
// stages take the least time. A grain leaves no stretch to choose.
func (p *Planner) stretch(t *Traffic, o *Options, model Model) error {
	tried := stretches
	switch at, listed := slices.BinarySearch(stretches, o.MaxStretch); {
	case o.Grain > 1:
		tried = stretches[:1]
	case o.MaxStretch > 0 && listed:
		tried = stretches[:at+1]
	case o.MaxStretch > 0:
		tried = append(slices.Clone(stretches[:at]), o.MaxStretch)
	}
	var best Options
	least := math.Inf(1)
	for _, s := range tried {
		for _, fewest := range []bool{false, true} {
			o.MaxStretch, o.Fewest = s, fewest
			share, _, err := p.shares(t, *o)
			if err != nil {
				return err
			}
			lengths, _, err := p.serverStages(t.Servers, share, o.Fewest)
			if err != nil {
				return err
			}
			sum := int64(0)
			for _, v := range lengths {
				sum += v
			}
			if time := float64(sum)/model.B2 + float64(len(lengths))*model.Latency.Seconds(); time < least {
				best, least = *o, time
			}
		}
	}
	*o = best
	return nil
}
