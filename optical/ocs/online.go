package ocs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Online schedules one matrix per period. It keeps the permutations of the previous
// period on their switches if that costs little, starts each switch with the circuits
// that it already holds, which saves a δ, and adds unserved demand to the next period.
type Online struct {
	o      Options
	period float64
	State
}

// State is the scheduler's state between periods.
type State struct {
	Racks   int       // 0 before the first matrix
	Last    []Switch  // [switch] its configurations in the previous period
	Stands  [][]int32 // [switch] the permutation that it holds, or nil
	Backlog []float64 // [from·racks+to] unserved demand
}

// Period describes one scheduled period.
type Period struct {
	Schedule *Schedule
	Demand   *Demand // the matrix plus the backlog
	Bounds   Bounds  // of Demand, if no circuits are set up yet
	Fresh    bool    // scheduled from scratch: keeping permutations would exceed KeepCost
	Kept     int     // configurations that the same switch had in the previous period
	Late     float64 // the time by which the schedule exceeds the period, or 0
	Backlog  float64 // demand that the next period inherits
}

// KeepCost is the largest relative increase of the makespan that keeping permutations may cause.
const KeepCost = 0.03

// NewOnline returns an online scheduler. The options are those of Make; the method must be
// Fast or Best. While ports are dead, each period is scheduled from scratch.
func NewOnline(o Options, period float64) (*Online, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Method == Eclipse {
		return nil, fmt.Errorf("method %s: periods are scheduled by fast or best", o.Method)
	}
	if !(period > 0) || math.IsInf(period, 0) {
		return nil, fmt.Errorf("a period of %v: want a finite number above zero", period)
	}
	return &Online{o: o, period: period, State: State{Stands: make([][]int32, o.Switches)}}, nil
}

// Next schedules the demand of the next period together with the backlog. All matrices
// must have the same number of racks. If ctx ends, Next returns the best schedule so
// far, if any.
func (l *Online) Next(ctx context.Context, d *Demand) (*Period, error) {
	if l.Racks == 0 {
		l.Racks, l.Backlog = d.n, make([]float64, d.n*d.n)
	}
	if d.n != l.Racks {
		return nil, fmt.Errorf("the matrix has %d racks, those before had %d", d.n, l.Racks)
	}
	all, err := l.withBacklog(d)
	if err != nil {
		return nil, err
	}
	if err := l.o.Damage.check(l.o.Switches, d.n); err != nil {
		return nil, err
	}
	if len(l.o.alive(l.o.Switches)) == 0 {
		return nil, errors.New("all switches are dead")
	}
	p := &Period{Demand: all, Bounds: l.o.Damage.Bound(all, l.o.Switches, l.o.Delta), Fresh: true}
	for _, h := range l.o.DeadSwitches {
		l.Stands[h] = nil // its circuits are unknown when it comes back
	}
	s, err := l.fresh(ctx, all)
	if err != nil {
		return nil, err
	}
	if l.Last != nil && len(l.o.DeadPorts) == 0 {
		kept, err := l.keep(ctx, all)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err == nil && kept.Makespan() <= s.Makespan()*(1+KeepCost):
			s, p.Fresh = kept, false
		}
	}
	p.Schedule, p.Kept = s, l.common(s)
	p.Late = max(0, s.Makespan()-l.period)
	p.Backlog = l.serve(all, s)
	l.Last = s.Switches
	return p, nil
}

// fresh schedules a demand regardless of the previous period.
func (l *Online) fresh(ctx context.Context, d *Demand) (*Schedule, error) {
	if len(l.o.DeadPorts) > 0 {
		s, err := l.o.makeDamaged(ctx, d)
		if s == nil {
			return nil, err
		}
		s.Standing = slices.Clone(l.Stands)
		return s, nil
	}
	o := l.o
	o.Switches, o.Damage = len(l.o.alive(l.o.Switches)), Damage{}
	c, plan, err := o.plan(ctx, d)
	if err != nil {
		return nil, err
	}
	return l.layOut(c, plan), nil
}

// withBacklog returns the demand plus the backlog.
func (l *Online) withBacklog(d *Demand) (*Demand, error) {
	entries := slices.Clone(l.Backlog)
	for e, x := range d.amount {
		entries[int(d.from[e])*d.n+int(d.to[e])] += x
	}
	return NewDemand(d.n, entries)
}

// keep covers a demand by the permutations of the previous period, and adds others for
// entries that are in none of them.
func (l *Online) keep(ctx context.Context, d *Demand) (*Schedule, error) {
	was, plan := parts(d, l.Last, len(l.Last), l.o.Delta)
	c, err := was.onto(ctx, d)
	if err != nil {
		return nil, err
	}
	return l.layOut(c, l.reuse(c, plan)), nil
}

// reuse assigns each permutation to the live switches that had it in a plan, in the same
// shares, and the others to the least loaded switch, and equalizes the loads.
func (l *Online) reuse(c *cover, was *plan) *plan {
	alive := l.o.alive(l.o.Switches)
	had := make([]float64, len(c.weight)) // by switches that are alive
	for _, h := range alive {
		for _, x := range was.pieces[h] {
			had[x.part] += x.weight
		}
	}
	p := newPlan(len(alive), l.o.Delta)
	for i, h := range alive {
		for _, x := range was.pieces[h] {
			if α := c.weight[x.part]; α > 0 {
				p.put(i, x.part, α*x.weight/had[x.part])
			}
		}
	}
	for part, α := range c.weight {
		if α > 0 && had[part] == 0 {
			p.put(least(p.load), part, α)
		}
	}
	p.equalize()
	return p
}

// layOut orders the pieces of each live switch: the permutation that it holds comes first,
// without δ, and the longest last, so that the switch holds it when the next period begins.
func (l *Online) layOut(c *cover, p *plan) *Schedule {
	s := &Schedule{Racks: c.d.n, Delta: p.δ, Switches: make([]Switch, l.o.Switches), Standing: slices.Clone(l.Stands), Damage: l.o.Damage}
	for h := range s.Switches {
		s.Switches[h].Configs = []Config{}
	}
	for i, h := range l.o.alive(l.o.Switches) {
		s.Switches[h] = p.after(l.Stands[h], c, ordered(p.pieces[i], c, l.Stands[h]))
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

// common counts the configurations that the same switch had in the previous period.
func (l *Online) common(s *Schedule) (n int) {
	for h := range l.Last {
		for _, x := range s.Switches[h].Configs {
			if slices.ContainsFunc(l.Last[h].Configs, func(y Config) bool { return slices.Equal(x.Permutation, y.Permutation) }) {
				n++
			}
		}
	}
	return n
}

// serve runs the schedule until the period ends, updates Stands and Backlog, and returns
// the sum of the backlog.
func (l *Online) serve(d *Demand, s *Schedule) (left float64) {
	carried := make([]float64, len(l.Backlog))
	for h := range s.Switches {
		for _, x := range s.Switches[h].Configs {
			if x.Start >= l.period {
				break
			}
			l.Stands[h] = x.Permutation
			for i, j := range x.Permutation {
				if l.o.None() || l.o.Joins(h, i, int(j)) {
					carried[i*d.n+int(j)] += min(x.Weight, l.period-x.Start)
				}
			}
		}
	}
	clear(l.Backlog)
	for e, x := range d.amount {
		at := int(d.from[e])*d.n + int(d.to[e])
		if rest := x - carried[at]; rest > tolerance*x {
			l.Backlog[at] = rest
			left += rest
		}
	}
	return left
}
