// Package planner is the one entry of the command line and the daemon to
// everything that plans: a fabric goes in, a verified plan and verified tables
// come out. It owns the choice of engine, every fallback, and the warnings that
// a plan carries.
package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// Settings are the choices that planning leaves to the operator.
type Settings struct {
	Engine string // one of Engines; empty means Auto
	LIDs   LIDs   // how many LIDs of a server plans use; the zero value is AutoLIDs
	// Memory keeps plans for trees that are alike; nil remembers nothing. The plans
	// are the same either way.
	Memory *Memory
	// MaxUnreachable is the share of the ordered pairs of servers that a plan of the whole
	// fabric may leave out; nil means DefaultMaxUnreachable. A plan that would leave out
	// more is not made: *TooManyUnreachable.
	MaxUnreachable *float64
	// KeepPrice is the share of phases by which a plan for base LIDs may be longer so that
	// base LIDs keep their lanes; nil means DefaultKeepPrice.
	KeepPrice *float64
	// Before is the plan for base LIDs in force, whose lanes are kept as long as that is worth
	// its price; nil for none.
	Before *phasetable.View `json:"-"`
	// Tables are those in force with it, nil if they are not known. They say by which of
	// several cables a spine has a base LID down.
	Tables *lft.Tables `json:"-"`
	// Jobs are the exchanges among some of the servers: those whose base LIDs are routed
	// have entries in the tables. Their members are FatTree hosts that are Moved.
	Jobs []Job `json:",omitempty"`
	// JobLIDs says when base LIDs of jobs are routed; "" is RouteAuto.
	JobLIDs Policy

	given []lft.Pin // entries that the base LIDs have for jobs
}

// Warning is a deviation that a plan carries, with a stable code.
type Warning = topology.Finding

// The codes of the planner's warnings; the findings of topology come on top.
const (
	LMCTooSmall      = "lmc-too-small"
	PlanOverBound    = "plan-over-bound"
	UnreachablePairs = "unreachable-pairs"
	EngineFallback   = "engine-fallback"
)

// Schedule is a plan bound to the LIDs of a fabric.
type Schedule struct {
	Tree     *topology.FatTree
	Plan     *fors.Plan
	Rows     verify.Rows // the plan's rows with their destination LIDs
	LIDs     LIDs        // of each server that it uses, or LaneLIDs
	Warnings []Warning
	Took     time.Duration // planning, without verification

	pins  *lft.Pins        // what its tables have of its own, nil for those that any plan can use
	least int              // phases that the LIDs in use allow
	by    fors.Certificate // what proves that
	kept  int              // transfers that kept lanes put on a cable

	meanwhile bool // a shift, until a failure calls for a plan with tables of its own
}

// Result is a plan with the tables that carry it, both verified.
type Result struct {
	*Schedule
	// Base is the plan for programs that send to base LIDs, verified on the same tables:
	// the schedule itself where that sends to no other LIDs, nil where there is none.
	Base *Schedule
	// Jobs are the plans for base LIDs of the jobs that are routed, by number, verified too.
	Jobs   map[uint64]*Schedule
	Tables *lft.Tables
	Load   phasetable.Load // of the tables
	Times  Times
	// Notes are warnings that are of no plan.
	Notes []Warning

	changed *int // pairs with another destination LID than by the plan it was made from
}

// Times says what each stage took.
type Times struct{ Plan, Base, Tables, Verify time.Duration }

// Make plans the complete exchange of the tree's servers, builds the tables and
// verifies the one on the other. A plan of the chosen engine that fails
// verification is replaced by one of the next engine, and a warning says so. Soon after
// ctx ends Make fails with its error, and so does all planning here.
func Make(ctx context.Context, t *topology.FatTree, s Settings) (*Result, error) {
	if err := s.mayPlan(t); err != nil {
		return nil, err
	}
	t = s.Apart(t)
	r, err := begin(ctx, t, s)
	if err != nil {
		return nil, err
	}
	if r.Schedule == nil {
		checked := time.Now()
		schedule, err := schedule(ctx, t, s)
		if err != nil {
			return nil, err
		}
		if r.Schedule, err = schedule.Verified(ctx, r.Tables); err != nil {
			return nil, err
		}
		r.Times.Plan = schedule.Took
		r.Times.Verify += time.Since(checked) - schedule.Took
	}
	if err := s.MayLeaveOut(r.leftOut()); err != nil {
		return nil, err
	}
	if r.Base != nil && r.Base != r.Schedule {
		r.Base.bounded(r.Plan.Bounds)
	}
	return r, nil
}

// Route builds and verifies the tables of the tree, with the plan for base LIDs on
// them. Where servers have fewer LIDs than there are lanes, tables follow from the
// other plan too: it comes with them, verified on them. Elsewhere, and where too many
// pairs are unreachable for a plan, the schedule is nil; the tables carry any plan on
// the lanes that live.
func Route(ctx context.Context, t *topology.FatTree, s Settings) (*Result, error) {
	if s.mayPlan(t) != nil {
		t = s.Apart(t)
		pins, err := s.unplanned(t)
		if err != nil {
			return nil, err
		}
		r := new(Result)
		if r.Tables, r.Times, err = route(ctx, t, pins); err == nil {
			r.Notes, err = r.weigh(t)
		}
		return r, err
	}
	return begin(ctx, s.Apart(t), s)
}

// begin does so where there may be a plan.
func begin(ctx context.Context, t *topology.FatTree, s Settings) (*Result, error) {
	lids, err := s.groups(t)
	if err != nil {
		return nil, err
	}
	jobs, err := s.routedJobs(ctx, t)
	if err != nil {
		return nil, err
	}
	s.given = jobs.pins
	if lids == 0 {
		return s.carried(ctx, t, nil, jobs)
	}
	schedule, err := grouped(ctx, t, lids, s)
	if err != nil {
		return nil, err
	}
	return s.carried(ctx, t, schedule, jobs)
}

// carried builds the tables that follow from the schedule, if there is one, from the plan
// for base LIDs and from those of jobs, and verifies these on those. A schedule that fails is
// replaced by a conservative one on the tables that carry any, and a warning says so.
// A base plan that fails is left out, and so is what the tables have of it.
func (s Settings) carried(ctx context.Context, t *topology.FatTree, plan *Schedule, jobs routed) (*Result, error) {
	r := &Result{Schedule: plan}
	start := time.Now()
	var err error
	if r.Base, r.Notes, err = s.base(ctx, t, plan); err != nil {
		return nil, err
	}
	took := time.Since(start)
	var own *lft.Pins
	if plan != nil {
		own = plan.pins
	}
	both := own
	if r.Base != nil && r.Base != plan {
		both = overlay(t, own, r.Base.pins)
	}
	if r.Tables, r.Times, err = route(ctx, t, both, jobs.pins...); err != nil {
		return nil, err
	}
	checked := time.Now()
	if r.Base != nil && r.Base != plan {
		if err := r.Base.Check(r.Tables); err != nil {
			r.Base, r.Notes = nil, []Warning{{Code: NoBasePlan, Text: fmt.Sprintf("the plan for programs that send to base LIDs failed verification: %v", err)}}
			if r.Tables, _, err = route(ctx, t, own, jobs.pins...); err != nil {
				return nil, err
			}
		}
	}
	if plan != nil {
		if err := plan.Check(r.Tables); err != nil {
			return s.replaced(ctx, plan, err, jobs)
		}
		r.Times.Plan = plan.Took
	}
	r.Jobs = jobs.on(r.Tables)
	crowded, err := r.weigh(t)
	if err != nil {
		return nil, err
	}
	r.Notes = append(r.Notes, crowded...)
	r.Times.Base = took
	r.Times.Verify += time.Since(checked)
	return r, nil
}

// replaced is a conservative schedule on the tables that carry any.
func (s Settings) replaced(ctx context.Context, plan *Schedule, why error, jobs routed) (*Result, error) {
	second, err := conservative(ctx, plan.Tree)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	r, err := s.carried(ctx, plan.Tree, nil, jobs)
	if err != nil || second.Check(r.Tables) != nil {
		return nil, why
	}
	second.replaces(plan, why)
	r.Schedule = second
	return r, nil
}

// route builds and verifies tables, and says what either took.
func route(ctx context.Context, t *topology.FatTree, pins *lft.Pins, more ...lft.Pin) (*lft.Tables, Times, error) {
	start := time.Now()
	tables, err := lft.BuildPinned(t, pins, more...)
	if err != nil {
		return nil, Times{}, err
	}
	built := time.Now()
	if err := ctx.Err(); err != nil {
		return nil, Times{}, err
	}
	if err := verify.Tables(t, tables); err != nil {
		return nil, Times{}, fmt.Errorf("verify tables: %w", err)
	}
	return tables, Times{Tables: built.Sub(start), Verify: time.Since(built)}, nil
}

// Plan runs the chosen engine and binds its plan to the fabric's LIDs, without
// verifying it: see Schedule.Verified. Where tables follow from the plan, Route
// gives both.
func Plan(ctx context.Context, t *topology.FatTree, s Settings) (*Schedule, error) {
	return s.plan(ctx, s.Apart(t))
}

func (s Settings) plan(ctx context.Context, t *topology.FatTree) (*Schedule, error) {
	if err := s.mayPlan(t); err != nil {
		return nil, err
	}
	lids, err := s.groups(t)
	if err != nil {
		return nil, err
	}
	var plan *Schedule
	if lids > 0 {
		plan, err = grouped(ctx, t, lids, s)
	} else {
		plan, err = schedule(ctx, t, s)
	}
	if err != nil {
		return nil, err
	}
	if err := s.MayLeaveOut(plan.leftOut()); err != nil {
		return nil, err
	}
	return plan, nil
}

func (s *Schedule) warn() {
	p := s.Plan
	if closesLanes(s.Tree) {
		s.Warnings = append(s.Warnings, Warning{Code: LMCTooSmall, Text: s.lmcText()})
	}
	if over := p.Phases - s.least; over > 0 {
		s.Warnings = append(s.Warnings, Warning{Code: PlanOverBound, Text: fmt.Sprintf("the plan of engine %s has %d phases, %d more than the bound of %d%s", p.Engine, p.Phases, over, s.least, whyOver(p))})
	}
	if n := len(p.Unreachable); n > 0 {
		s.Warnings = append(s.Warnings, Warning{Code: UnreachablePairs, Text: fmt.Sprintf("%d ordered pairs of servers share no lane and are left out", n)})
	}
}

// lmcText says what it costs that servers have fewer LIDs than there are lanes,
// and what to do.
func (s *Schedule) lmcText() string {
	need, of := s.Tree.Lanes, ""
	if allMoved(s.Tree) {
		need, of = need+1, " and a base LID apart from these"
	}
	text := fmt.Sprintf("the servers' LMC gives fewer LIDs than the %d lanes%s: ", s.Tree.Lanes, of)
	const mended = ", and a failure is mended by tables first, then the plan"
	switch {
	case s.LIDs > 0 && s.Plan.Gap() > 0:
		text += fmt.Sprintf("the plan has %d phases, %d more than one LID a lane may allow", s.Plan.Phases, s.Plan.Gap()) + mended
	case s.LIDs > 0:
		text += fmt.Sprintf("the plan has %d phases, as few as with one LID a lane", s.Plan.Phases) + mended
	case s.meanwhile:
		text += "the linear shift does without while nothing fails" + mended
	case s.Plan.Engine == fors.Shift:
		text += "the linear shift does without while nothing fails; then some lanes are closed to some servers"
	default:
		text += "some lanes are closed to some servers"
	}
	return text + fmt.Sprintf("; set lmc in opensm.conf so that 2^lmc ≥ %d", need)
}
