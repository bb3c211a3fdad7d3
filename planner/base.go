package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// Codes of warnings about the plan for base LIDs.
const (
	NoBasePlan        = "no-base-plan"
	BasePlanOverBound = "base-plan-over-bound"
	BaseLIDsCrowded   = "base-lids-crowded"
)

// crowding is the load of a cable in an exchange by base LIDs, relative to an even load,
// above which a warning is raised.
const crowding = 1.1

// planBase plans the complete exchange for programs that send to base LIDs; one is that plan if it
// is made already.
func (s Settings) planBase(ctx context.Context, t *topology.FatTree, one *fors.Grouped) (*Schedule, error) {
	start := time.Now()
	tree := forsTree(t)
	tree.Closed = nil
	if tree.Mixed() {
		return s.baseOfShared(ctx, t)
	}
	if len(s.given) == 0 {
		if s, err := shiftOnBaseLIDs(ctx, t, tree); s != nil || err != nil {
			return s, err
		}
	}
	if one == nil {
		var err error
		if one, err = s.oneLID(ctx, t, tree); err != nil {
			return nil, err
		}
	}
	return bindBase(t, one, start)
}

// shiftOnBaseLIDs returns the linear shift if its lanes are those of base LIDs on any
// tables, as they are while nothing has failed; otherwise nil.
func shiftOnBaseLIDs(ctx context.Context, t *topology.FatTree, tree *fors.Tree) (*Schedule, error) {
	start := time.Now()
	plan, err := fors.PlanShift(ctx, tree)
	if err != nil || plan.Gap() != 0 {
		if errors.Is(err, fors.ErrNotApplicable) {
			err = nil
		}
		return nil, err
	}
	s, err := bindLanes(t, plan)
	if err != nil || !s.onBaseLIDs() {
		return nil, nil // a lane is not that of a base LID, and may be closed
	}
	s.LIDs, s.Took = 1, time.Since(start)
	return s, nil
}

// bindBase gives every transfer the base LID of its destination.
func bindBase(t *topology.FatTree, plan *fors.Grouped, start time.Time) (*Schedule, error) {
	plan.LowerBound, plan.Certificate = plan.LeastPhases, plan.LeastBy
	s, err := unbound(t, plan.Plan)
	if err != nil {
		return nil, err
	}
	for i, d := range plan.To {
		if d != fors.Idle {
			s.Rows.DLID[i] = t.Hosts[t.Servers[d]].LID
		}
	}
	s.LIDs, s.least, s.by, s.kept, s.pins = 1, plan.LeastPhases, plan.LeastBy, plan.Kept, pins(t, plan, 0)
	s.Took = time.Since(start)
	return s, nil
}

// base makes the plan for base LIDs next to a schedule, nil with a warning if there is
// none. A schedule that uses base LIDs only is its own base plan.
func (s Settings) base(ctx context.Context, t *topology.FatTree, beside *Schedule) (*Schedule, []Warning, error) {
	var one *fors.Grouped
	if beside != nil {
		if beside.onBaseLIDs() {
			return beside, nil, nil
		}
		one = beside.one
	}
	b, err := s.planBase(ctx, t, one)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, []Warning{{Code: NoBasePlan, Text: fmt.Sprintf("there is no plan for programs that send to base LIDs: %v", err)}}, nil
	}
	if b.pins != nil {
		b.spare()
	}
	return b, nil, nil
}

// bounded raises the bound to that of the pinned plan, and warns if the base plan has more
// phases. With parallel cables that bound is for lanes, which have the same cable at both
// ends.
func (s *Schedule) bounded(b fors.Bounds) {
	if b.LowerBound > s.least && !cabledTwice(s.Tree) {
		s.least, s.by = b.LowerBound, b.Certificate
		s.Plan.LowerBound, s.Plan.Certificate = s.least, s.by
	}
	if over := s.Plan.Phases - s.least; over > 0 {
		s.Warnings = append(s.Warnings, Warning{Code: BasePlanOverBound, Text: fmt.Sprintf("the plan for programs that send to base LIDs has %d phases, %d more than its bound of %d", s.Plan.Phases, over, s.least)})
	}
}

// weigh computes the load of the tables' busiest cable in an exchange by base LIDs, and
// warns if other tables would reduce it much.
func (r *Result) weigh(t *topology.FatTree) ([]Warning, error) {
	fair, _, err := fors.LeastOneLID(forsTree(t))
	if err != nil {
		return nil, err
	}
	most := r.Tables.Busiest(t)
	r.Load = phasetable.Load{BusiestCable: most.Transfers, FairShare: fair}
	if float64(most.Transfers) <= crowding*float64(fair) {
		return nil, nil
	}
	return []Warning{{Code: BaseLIDsCrowded, Text: fmt.Sprintf("an exchange by base LIDs has %d transfers over the cable %s, where other tables may do with %d: programs that know no other LIDs are slowed down there",
		most.Transfers, t.Fabric.CableLabel(most.From), fair)}}, nil
}

// onBaseLIDs reports whether all transfers use base LIDs.
func (s *Schedule) onBaseLIDs() bool {
	for i, d := range s.Rows.To {
		if d >= 0 && s.Rows.DLID[i] != s.Tree.Hosts[s.Tree.Servers[d]].LID {
			return false
		}
	}
	return true
}

// spare drops the pins that any tables satisfy.
func (s *Schedule) spare() {
	t := s.Tree
	for i, k := range s.pins.Lane {
		if h := &t.Hosts[t.Servers[i%len(t.Servers)]]; k >= 0 && int(k) == t.LIDLane(h, 0) && t.LaneUp(h.Leaf, int(k)) {
			s.pins.Lane[i] = int16(fors.Local)
		}
	}
}

// cabledTwice reports whether a spine has several cables to a leaf.
func cabledTwice(t *topology.FatTree) bool {
	return slices.ContainsFunc(t.Spines, func(s topology.Spine) bool { return s.Cables > 1 })
}

// overlay merges two sets of pins without a common LID; only the second may have lanes
// down.
func overlay(t *topology.FatTree, a, b *lft.Pins) *lft.Pins {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	out := &lft.Pins{LIDs: max(a.LIDs, b.LIDs), Down: b.Down}
	for i := range len(t.Leaves) * len(t.Servers) {
		for j := range out.LIDs {
			lane := int16(fors.Local)
			for _, p := range []*lft.Pins{a, b} {
				if j < p.LIDs && p.Lane[i*p.LIDs+j] >= 0 {
					lane = p.Lane[i*p.LIDs+j]
				}
			}
			out.Lane = append(out.Lane, lane)
		}
	}
	return out
}
