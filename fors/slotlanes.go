package fors

import (
	"context"
	"runtime"
	"slices"
)

// planSlotLanes plans for leaves with different slots, so that all others send to a server
// over the lane of its slot if that is up: lanes that have not failed stay, also when a
// server comes or goes. The tree without dead lanes is planned for one LID a server, on
// these lanes; if some are dead, that plan is repaired. It fails with ErrNotApplicable if
// this takes more phases than the bound, if a slot is beyond the lanes, and if a lane is
// closed.
func planSlotLanes(ctx context.Context, t *Tree, b Bounds) (*Plan, error) {
	whole := &Tree{Lanes: t.Lanes, Slots: t.Slots, Up: make([][]bool, len(t.Up)), Exchange: t.Exchange}
	dead := false
	for leaf, up := range t.Up {
		whole.Up[leaf] = slices.Repeat([]bool{true}, t.Lanes)
		if n := len(t.Slots[leaf]); n > 0 {
			dead = dead || slices.Contains(up, false)
			if t.Slots[leaf][n-1] >= t.Lanes {
				return nil, ErrNotApplicable
			}
		}
	}
	load := slotLoad(t)
	if t.Closed != nil || load > b.LowerBound+b.LowerBound/32 {
		return nil, ErrNotApplicable
	}
	var via []Lane
	for range t.Slots {
		for _, slots := range t.Slots {
			for _, α := range slots {
				via = append(via, Lane(α))
			}
		}
	}
	one, err := PlanOneLID(ctx, whole, Wish{Via: via, Keep: load <= b.LowerBound})
	if err != nil {
		return nil, err
	}
	p := one.Plan
	if dead && p.Phases <= b.LowerBound {
		m, err := newMender(ctx, t, t.Demand(), p, runtime.GOMAXPROCS(0))
		if err != nil {
			return nil, err
		}
		r, err := m.remainder(ctx, []attempt{{plan: m.repair}})
		if err != nil {
			return nil, err
		}
		p = r.Plan
	}
	if p.Phases > b.LowerBound {
		return nil, ErrNotApplicable
	}
	p.Engine, p.Bounds = Exact, b
	return p, nil
}

// slotLoad returns the most transfers of a link, at either end, or of a server, if all go
// over the lane of their destination's slot.
func slotLoad(t *Tree) int {
	w, most := newDemands(t), 0
	for _, A := range w.leaves {
		servers, owners := 0, make([]int, t.Lanes) // of its exchange; of them on other leaves
		for _, B := range w.leaves {
			if !w.sameExchange(A, B) {
				continue
			}
			servers += len(t.Slots[B])
			for _, α := range t.Slots[B] {
				if A != B {
					owners[α]++
				}
			}
		}
		most = max(most, servers-1, len(t.Slots[A])*slices.Max(owners))
	}
	return most
}
