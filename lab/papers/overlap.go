package papers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/forsd/forsd/optical/photonic"
)

// Step is the part of one switch in a step of a collective: it carries the step's data from
// From to To, in microseconds.
type Step struct {
	Step, Switch int
	From, To     float64
}

// Overlap carries the steps of a collective out on switches that change one by one, each
// while others carry data, as SWOT (C. Wu et al., 2025) does: the data of a step is split
// over some of the switches so that they end together, and the others prepare for later
// steps. volumes are the times of the steps on one switch, r is the time of a change, also
// before a switch's first step. A step begins when the one before it has ended. Overlap tries
// all ways to assign switches to steps that may still be the shortest; if these are more than
// mostStates, the most advanced. Modelled from the paper's abstract.
func Overlap(volumes []float64, switches int, r float64) []Step {
	states := []*overlapped{{free: make([]float64, switches)}}
	for step, volume := range volumes {
		var next []*overlapped
		for _, s := range states {
			for set := 1; set < 1<<switches; set++ {
				next = append(next, s.carry(step, set, volume, r))
			}
		}
		states = undominated(next)
	}
	var steps []Step
	for s := states[0]; s.before != nil; s = s.before {
		steps = append(steps, s.now...)
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.Step - b.Step })
	return steps
}

// overlapped is how far an exchange has come.
type overlapped struct {
	end    float64
	free   []float64 // [switch] when it has carried its data
	order  []float64 // the same in ascending order: switches are all alike
	now    []Step
	before *overlapped
}

const mostStates = 100

// carry adds a step on a set of switches.
func (s *overlapped) carry(step, set int, volume, r float64) *overlapped {
	var ready []float64
	for h := range s.free {
		if set>>h&1 == 1 {
			ready = append(ready, max(s.end, s.free[h]+r))
		}
	}
	slices.Sort(ready)
	end := math.Inf(1)
	for i, sum := 0, 0.0; i < len(ready) && ready[i] < end; i++ {
		sum += ready[i]
		end = (volume + sum) / float64(i+1) // of the first i+1
	}
	next := &overlapped{end: end, free: slices.Clone(s.free), before: s}
	for h := range s.free {
		if from := max(s.end, s.free[h]+r); set>>h&1 == 1 && from < end {
			next.free[h] = end
			next.now = append(next.now, Step{step, h, from, end})
		}
	}
	next.order = slices.Sorted(slices.Values(next.free))
	return next
}

// undominated leaves out states that are behind another one on every switch; the most
// advanced state comes first.
func undominated(list []*overlapped) (keep []*overlapped) {
	slices.SortStableFunc(list, func(a, b *overlapped) int {
		if a.end != b.end {
			return int(math.Copysign(1, a.end-b.end))
		}
		return slices.Compare(a.order, b.order)
	})
	for _, s := range list {
		worse := len(keep) == mostStates || slices.ContainsFunc(keep, func(k *overlapped) bool {
			for h := range k.order {
				if k.order[h] > s.order[h]+1e-9 {
					return false
				}
			}
			return k.end <= s.end+1e-9
		})
		if !worse {
			keep = append(keep, s)
		}
	}
	return keep
}

// CheckOverlap walks through the steps of the switches and returns when the last step ends.
// It is independent of the planning.
func CheckOverlap(steps []Step, volumes []float64, switches int, r float64) (float64, error) {
	const slack = 1e-6
	carried, begin, end := make([]float64, len(volumes)), make([]float64, len(volumes)), make([]float64, len(volumes))
	for i := range begin {
		begin[i] = math.Inf(1)
	}
	free := make([]float64, switches) // when each switch may begin to change
	for _, s := range steps {
		if s.Step < 0 || s.Step >= len(volumes) || s.Switch < 0 || s.Switch >= switches {
			return 0, fmt.Errorf("no step %d or no switch %d", s.Step, s.Switch)
		}
		if s.To < s.From || s.From < free[s.Switch]+r-slack {
			return 0, fmt.Errorf("step %d: switch %d carries from %g to %g, and its circuits stand from %g on", s.Step, s.Switch, s.From, s.To, free[s.Switch]+r)
		}
		free[s.Switch] = s.To
		carried[s.Step] += s.To - s.From
		begin[s.Step], end[s.Step] = min(begin[s.Step], s.From), max(end[s.Step], s.To)
	}
	last := 0.0
	for i, v := range volumes {
		if carried[i] < v-slack {
			return 0, fmt.Errorf("step %d: %g of %g is carried", i, carried[i], v)
		}
		if begin[i] < last-slack {
			return 0, fmt.Errorf("step %d begins at %g, before the one before it has ended at %g", i, begin[i], last)
		}
		last = max(last, end[i])
	}
	return last, nil
}

// SequenceRow is an exchange, and its times by sequences of several papers, in microseconds.
type SequenceRow struct {
	GPUs       int     `json:"gpus"`
	Switches   int     `json:"switches"`
	ReconfigUS float64 `json:"reconfig_us"`
	Static     float64 `json:"static_us"`
	Direct     float64 `json:"direct_us"`
	Bruck      float64 `json:"bruck_us"`           // with reuse of topologies, as Bridge
	ReTri      float64 `json:"retri_us,omitempty"` // an even number of switches
	Split      float64 `json:"overlap_us"`         // Bruck's steps or pairwise ones on switches that change one by one, as SWOT
	Planned    float64 `json:"planned_us"`
	Bound      float64 `json:"lower_bound_us"` // of Planned
}

// Least is the shortest of the others, by name.
func (r *SequenceRow) Least() (name string, us float64) {
	us = math.Inf(1)
	for _, x := range []struct {
		name string
		us   float64
	}{{"static", r.Static}, {"direct", r.Direct}, {"Bruck", r.Bruck}, {"ReTri", r.ReTri}, {"overlap", r.Split}} {
		if x.us > 0 && x.us < us {
			name, us = x.name, x.us
		}
	}
	return name, us
}

// Sequences plans one exchange by all sequences. It replays all plans, and checks those that
// overlap.
func Sequences(ctx context.Context, in *photonic.Instance) (*SequenceRow, error) {
	if in.Sizes != nil {
		return nil, errors.New("sequences are compared on messages of one size")
	}
	row := &SequenceRow{GPUs: in.GPUs, Switches: in.Degree, ReconfigUS: in.Reconfig.US()}
	baselines, err := photonic.Baselines(ctx, in)
	if err != nil {
		return nil, err
	}
	for _, b := range baselines {
		if b.Name == "static" {
			row.Static = b.Plan.Cost.US()
		} else {
			row.Direct = b.Plan.Cost.US()
		}
	}
	if row.Bruck, err = byDigits(ctx, in, 2); err != nil {
		return nil, err
	}
	if in.Degree%2 == 0 {
		if row.ReTri, err = byDigits(ctx, in, 3); err != nil {
			return nil, err
		}
	}
	if row.Split, err = split(in); err != nil {
		return nil, err
	}
	planned, err := photonic.Make(ctx, in, photonic.Options{})
	if err != nil {
		return nil, err
	}
	row.Planned, row.Bound = planned.Cost.US(), planned.LowerBound.US()
	return row, nil
}

func byDigits(ctx context.Context, in *photonic.Instance, base int) (float64, error) {
	p, err := Digits(in, base)
	if err == nil {
		_, err = photonic.Replay(ctx, in, p)
	}
	if err != nil {
		return 0, fmt.Errorf("digits of base %d: %w", base, err)
	}
	return p.Cost.US(), nil
}

// split is the shorter of Bruck's steps and of pairwise ones, each in order, on switches that
// change one by one.
func split(in *photonic.Instance) (float64, error) {
	r, t, k := in.Reconfig.US(), in.T().US(), in.Degree
	var bruck []float64
	for w := 1; w < in.GPUs; w *= 2 {
		classes := 0
		for x := range in.GPUs {
			classes += x / w % 2
		}
		bruck = append(bruck, t*float64(classes))
	}
	least := math.Inf(1)
	for _, volumes := range [][]float64{bruck, slices.Repeat([]float64{t}, in.GPUs-1)} {
		us, err := CheckOverlap(Overlap(volumes, k, r), volumes, k, r)
		if err != nil {
			return 0, err
		}
		least = min(least, us)
	}
	return least, nil
}
