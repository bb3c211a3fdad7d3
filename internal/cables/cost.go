package cables

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/planner"
)

// Cost is the cost of isolating a cable.
type Cost struct {
	With   int    // phases without it and all other isolated cables
	Phases int    // phases beyond those of the exchange with all of these
	Refuse string // why the cost is unknown or irrelevant; "" otherwise
	Needed bool   // without it there is no plan, or one that leaves out more pairs
}

// Costs determines the costs of isolating cables. It caches the last answers.
type Costs struct {
	Workers  *worker.Pool
	Planning planner.Settings

	fabric string
	known  []known // for this fabric
}

// known is the outlook with some lanes held back.
type known struct {
	held []controller.Lane
	outlook
}

// outlook summarizes a hypothetical plan.
type outlook struct {
	Phases      int `json:"phases"`
	Unreachable int `json:"unreachable_pairs"`
}

// mostKnown is the size of the cache.
const mostKnown = 256

// Of returns the cost of a lane, in addition to lanes held for other reasons and to
// isolated ones. It must not be called concurrently.
func (c *Costs) Of(ctx context.Context, v *view.View, lane controller.Lane, others, isolated []controller.Lane) Cost {
	if c.fabric != v.ID {
		c.fabric, c.known = v.ID, nil
	}
	now, err := c.outlook(ctx, v, others)
	if err != nil {
		return Cost{Refuse: fmt.Sprintf("what it would cost is not known: %v", err)}
	}
	with, err := c.outlook(ctx, v, slices.Concat(others, isolated, []controller.Lane{lane}))
	switch {
	case err != nil:
		return Cost{Refuse: fmt.Sprintf("without it no plan can be made: %v", err), Needed: ctx.Err() == nil}
	case with.Unreachable > now.Unreachable:
		return Cost{Refuse: fmt.Sprintf("without it %d ordered pairs of servers could not be reached, and not %d", with.Unreachable, now.Unreachable), Needed: true}
	}
	return Cost{With: with.Phases, Phases: max(0, with.Phases-now.Phases)}
}

// outlook plans with some lanes held back.
func (c *Costs) outlook(ctx context.Context, v *view.View, held []controller.Lane) (outlook, error) {
	held = slices.Compact(slices.SortedFunc(slices.Values(held), controller.Compare))
	if at := slices.IndexFunc(c.known, func(k known) bool { return slices.Equal(k.held, held) }); at >= 0 {
		return c.known[at].outlook, nil
	}
	f, err := worker.WhatIf(ctx, c.Workers, &worker.WhatIfRequest{Tree: v.Held(held), Settings: worker.Settings(c.Planning)})
	var out outlook
	if err == nil {
		err = json.Unmarshal(f.Plan, &out)
	}
	if err != nil {
		return out, err
	}
	if len(c.known) == mostKnown {
		c.known = c.known[:0]
	}
	c.known = append(c.known, known{held, out})
	return out, nil
}
