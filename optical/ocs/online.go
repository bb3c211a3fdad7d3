package ocs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Online schedules a matrix a period. It keeps the permutations of the period
// before, on the switches where they were, as long as that costs little; it begins
// with the circuits that stand, which takes no δ; and it carries over what a period
// was too short for.
type Online struct {
	o       Options
	period  float64
	racks   int // 0 before the first matrix
	cover   *cover
	plan    *plan
	stands  [][]int32 // [switch] what it holds, nil for nothing
	backlog []float64 // [from·racks+to] demand left over
}

// Period is what Online says of a period.
type Period struct {
	Schedule *Schedule
	Bounds   Bounds  // of the matrix with what was left over, with nothing standing
	Fresh    bool    // made anew: what there was could not be kept at KeepCost
	Kept     int     // configurations that the switch had in the period before
	Late     float64 // how much longer than the period the schedule takes, 0 if it is not
	Backlog  float64 // demand left over to the next period
}

// KeepCost is by how much keeping permutations may lengthen a schedule.
const KeepCost = 0.03

// NewOnline makes a scheduler of periods. The options are those of Make, with Fast
// or Best for what is made anew.
func NewOnline(o Options, period float64) (*Online, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if !o.None() {
		return nil, errors.New("dead switches and ports are for schedules of one matrix: give the number of switches that are left")
	}
	if o.Method == Less || o.Method == Eclipse {
		return nil, fmt.Errorf("method %s: periods are scheduled by fast or best", o.Method)
	}
	if !(period > 0) || math.IsInf(period, 0) {
		return nil, fmt.Errorf("a period of %v: want a finite number above zero", period)
	}
	return &Online{o: o, period: period, stands: make([][]int32, o.Switches)}, nil
}

// Next schedules the next period's demand and what the one before left over. Every
// matrix has as many racks as the first. Where ctx ends, the period is that of the best
// schedule so far, if there is one.
func (l *Online) Next(ctx context.Context, d *Demand) (*Period, error) {
	if l.racks == 0 {
		l.racks, l.backlog = d.n, make([]float64, d.n*d.n)
	}
	if d.n != l.racks {
		return nil, fmt.Errorf("the matrix has %d racks, those before had %d", d.n, l.racks)
	}
	all, err := l.withBacklog(d)
	if err != nil {
		return nil, err
	}
	p := &Period{Bounds: Bound(all, l.o.Switches, l.o.Delta), Fresh: true}
	c, plan, err := l.o.plan(ctx, all)
	if err != nil {
		return nil, err
	}
	s := l.layOut(c, plan)
	if l.cover != nil {
		kept, keptPlan, err := l.keep(ctx, all)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err == nil:
			if t := l.layOut(kept, keptPlan); t.Makespan() <= s.Makespan()*(1+KeepCost) {
				c, plan, s, p.Fresh = kept, keptPlan, t, false
			}
		}
	}
	c, plan = compact(c, plan)
	p.Schedule, p.Kept = s, l.common(c, plan)
	p.Late = max(0, s.Makespan()-l.period)
	p.Backlog = l.serve(all, s)
	l.cover, l.plan = c, plan
	return p, nil
}

// withBacklog adds what was left over to a demand.
func (l *Online) withBacklog(d *Demand) (*Demand, error) {
	entries := slices.Clone(l.backlog)
	for e, x := range d.amount {
		entries[int(d.from[e])*d.n+int(d.to[e])] += x
	}
	return NewDemand(d.n, entries)
}

// keep covers a demand by the permutations that there are, with others for what is
// in none of them.
func (l *Online) keep(ctx context.Context, d *Demand) (*cover, *plan, error) {
	c, err := l.cover.onto(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	return c, l.reuse(c), nil
}

// reuse gives the permutations to the switches that had them, in the same shares,
// the new ones to the least loaded, and equalizes.
func (l *Online) reuse(c *cover) *plan {
	p := newPlan(l.o.Switches, l.o.Delta)
	for h, pieces := range l.plan.pieces {
		for _, x := range pieces {
			if α := c.weight[x.part]; α > 0 {
				p.put(h, x.part, α*x.weight/l.cover.weight[x.part])
			}
		}
	}
	for i := len(l.cover.weight); i < len(c.weight); i++ {
		if c.weight[i] > 0 {
			p.put(least(p.load), i, c.weight[i])
		}
	}
	p.equalize()
	return p
}

// layOut orders the pieces of each switch: the one that stands first, without δ,
// and the longest last, so that it stands when the next period begins.
func (l *Online) layOut(c *cover, p *plan) *Schedule {
	s := &Schedule{Racks: c.d.n, Delta: p.δ, Switches: make([]Switch, len(p.pieces)), Standing: slices.Clone(l.stands)}
	for h, pieces := range p.pieces {
		sw := &s.Switches[h]
		sw.Configs = []Config{}
		for _, x := range ordered(pieces, c, l.stands[h]) {
			start := sw.Load + p.δ
			if len(sw.Configs) == 0 && slices.Equal(c.column[x.part], l.stands[h]) {
				start = 0
			}
			sw.Configs = append(sw.Configs, Config{Permutation: c.column[x.part], Start: start, Weight: x.weight})
			sw.Load = start + x.weight
		}
	}
	return s
}

func ordered(pieces []piece, c *cover, stands []int32) []piece {
	list := slices.Clone(pieces)
	last := len(list) - 1
	first := slices.IndexFunc(list, func(x piece) bool { return slices.Equal(c.column[x.part], stands) })
	if first >= 0 {
		list[0], list[first] = list[first], list[0]
	}
	longest := min(1, max(0, last))
	if first < 0 {
		longest = 0
	}
	for i := longest; i <= last; i++ {
		if list[i].weight > list[longest].weight {
			longest = i
		}
	}
	if last >= 0 {
		list[longest], list[last] = list[last], list[longest]
	}
	return list
}

// compact leaves out permutations that no switch has.
func compact(c *cover, p *plan) (*cover, *plan) {
	number := make([]int, len(c.weight)) // from 1
	kept := newCover(c.d, len(c.weight))
	for _, pieces := range p.pieces {
		for i := range pieces {
			x := &pieces[i]
			if number[x.part] == 0 {
				kept.weight = append(kept.weight, c.weight[x.part])
				kept.column, kept.entry = append(kept.column, c.column[x.part]), append(kept.entry, c.entry[x.part])
				number[x.part] = len(kept.weight)
			}
			x.part = number[x.part] - 1
		}
	}
	return kept, p
}

// common counts the pieces whose switch had their permutation before.
func (l *Online) common(c *cover, p *plan) (n int) {
	if l.cover == nil {
		return 0
	}
	for h, pieces := range p.pieces {
		for _, x := range pieces {
			if slices.ContainsFunc(l.plan.pieces[h], func(y piece) bool { return slices.Equal(c.column[x.part], l.cover.column[y.part]) }) {
				n++
			}
		}
	}
	return n
}

// serve runs the schedule until the period ends, notes what then stands and what is
// left over, and returns the sum of that.
func (l *Online) serve(d *Demand, s *Schedule) (left float64) {
	carried := make([]float64, len(l.backlog))
	for h := range s.Switches {
		for _, x := range s.Switches[h].Configs {
			if x.Start >= l.period {
				break
			}
			l.stands[h] = x.Permutation
			for i, j := range x.Permutation {
				carried[i*d.n+int(j)] += min(x.Weight, l.period-x.Start)
			}
		}
	}
	clear(l.backlog)
	for e, x := range d.amount {
		at := int(d.from[e])*d.n + int(d.to[e])
		if rest := x - carried[at]; rest > tolerance*x {
			l.backlog[at] = rest
			left += rest
		}
	}
	return left
}
