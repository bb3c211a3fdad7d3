package ocs

import (
	"context"
	"fmt"
)

// from starts a search with the permutations of a schedule, and offers the schedule
// itself if it carries the demand.
func (b *candidates) from(ctx context.Context, d *Demand, s *Schedule) error {
	if s.Racks != d.n {
		return fmt.Errorf("the schedule to begin with is for %d racks, the demand has %d", s.Racks, d.n)
	}
	for h := range s.Switches {
		for i, x := range s.Switches[h].Configs {
			if err := permutes(x.Permutation, d.n); err != nil {
				return fmt.Errorf("the schedule to begin with: switch %d, configuration %d: %w", h, i, err)
			}
			if !(x.Weight > 0) || x.Weight > maxTime {
				return fmt.Errorf("the schedule to begin with: switch %d, configuration %d stands for %v: want more than 0", h, i, x.Weight)
			}
		}
	}
	c, p := parts(d, s.Switches, b.o.Switches, b.o.Delta)
	if len(s.Switches) <= b.o.Switches && c.covers() {
		b.offer(c, p)
	}
	c, err := c.onto(ctx, d)
	if err != nil {
		return err
	}
	c.prune()
	b.start(c)
	return nil
}

// parts returns the permutations of some switches, and the plan of the first of these.
func parts(d *Demand, did []Switch, switches int, δ float64) (*cover, *plan) {
	c, p := newCover(d, 0), newPlan(switches, δ)
	number := map[string]int{}
	for h := range did {
		for _, x := range did[h].Configs {
			key := fmt.Sprint(x.Permutation)
			part, known := number[key]
			if !known {
				part = len(c.weight)
				number[key] = part
				c.addColumns(x.Permutation, 0)
			}
			c.weight[part] += x.Weight
			if h < switches {
				p.put(h, part, x.Weight)
			}
		}
	}
	return c, p
}
