// Package planner is the entry point to planning for the command line and the daemon: a
// fabric goes in, a verified plan and verified tables come out. It owns the choice of
// engine, every fallback, and the warnings of a plan.
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

// Settings are the operator's choices.
type Settings struct {
	Engine string // one of Engines; "" means Auto
	LIDs   LIDs   // how many LIDs of a server plans use
	// Memory caches plans for similar trees; nil disables it. The plans are the same either
	// way.
	Memory *Memory
	// MaxUnreachable is the share of the ordered pairs of servers that a plan of the whole
	// fabric may leave out; nil means DefaultMaxUnreachable. A plan that would leave out
	// more fails with *TooManyUnreachable.
	MaxUnreachable *float64
	// KeepPrice is by how much, as a share of its phases, a plan for base LIDs may be
	// longer so that base LIDs keep their lanes; nil means DefaultKeepPrice.
	KeepPrice *float64
	// Before is the plan for base LIDs in force, whose lanes are kept while that is worth
	// its price; may be nil.
	Before *phasetable.View `json:"-"`
	// Tables are those in force with it, nil if unknown. They determine by which of several
	// cables a spine forwards a base LID.
	Tables *lft.Tables `json:"-"`
	// Jobs are exchanges among some of the servers: those whose base LIDs are routed have
	// entries in the tables. Their members are FatTree hosts that are Moved.
	Jobs []Job `json:",omitempty"`
	// JobLIDs is when base LIDs of jobs are routed; "" is RouteAuto.
	JobLIDs Policy

	given []lft.Pin // entries for the jobs' base LIDs
}

// Warning is a deviation in a plan, with a stable code.
type Warning = topology.Finding

// Codes of the planner's warnings, in addition to the findings of topology.
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
	LIDs     LIDs        // LIDs of each server that it uses, or LaneLIDs
	Warnings []Warning
	Took     time.Duration // planning, without verification

	pins  *lft.Pins        // entries required in its tables; nil if any tables do
	least int              // phases that the LIDs in use allow
	by    fors.Certificate // certificate of least
	kept  int              // transfers that kept lanes put on a cable
	one   *fors.Grouped    // the plan for base LIDs only that it was weighed against, nil if none

	meanwhile bool // a shift, kept until a failure requires a plan with tables of its own
}

// Result is a plan with the tables that carry it, both verified.
type Result struct {
	*Schedule
	// Base is the plan for programs that send to base LIDs, verified on the same tables:
	// the schedule itself if it only uses base LIDs, nil if there is none.
	Base *Schedule
	// Jobs are the routed jobs' plans for base LIDs, by number, also verified.
	Jobs   map[uint64]*Schedule
	Tables *lft.Tables
	Load   phasetable.Load // of the tables
	Times  Times
	// Notes are warnings that do not belong to a plan.
	Notes []Warning

	changed *int // pairs whose destination LID differs from the plan it was made from
}

// Times is the duration of each stage.
type Times struct{ Plan, Base, Tables, Verify time.Duration }

// Make plans the complete exchange of the tree's servers, builds the tables and verifies
// the plan on them. A plan of the chosen engine that fails verification is replaced by one
// of the next engine, with a warning. Soon after ctx ends, Make and all other planning
// functions fail with its error.
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

// Route builds and verifies the tables of the tree, with the plan for base LIDs on them. If
// servers have fewer LIDs than there are lanes, tables follow from the pinned plan too,
// which is returned with them, verified on them. Otherwise, and if too many pairs are
// unreachable for a plan, the schedule is nil; the tables carry any plan on the living
// lanes.
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

// begin plans if a plan is allowed.
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

// carried builds the tables that follow from the schedule, if any, from the plan for base
// LIDs and from those of jobs, and verifies the plans on the tables. A schedule that fails
// is replaced by a conservative one on the tables that carry any plan, with a warning. A
// base plan that fails is left out, with its entries in the tables.
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

// replaced returns a conservative schedule on the tables that carry any plan.
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

// route builds and verifies tables, and measures both.
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

// Plan runs the chosen engine and binds its plan to the fabric's LIDs, without verifying
// it: see Schedule.Verified. If tables follow from the plan, Route gives both.
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
		text := fmt.Sprintf("the plan of engine %s has %d phases, %d more than the bound of %d", p.Engine, p.Phases, over, s.least)
		if p.Engine == fors.Exact {
			text += ": neither a shorter plan nor a higher bound was found within the limit of work"
		}
		s.Warnings = append(s.Warnings, Warning{Code: PlanOverBound, Text: text})
	}
	if n := len(p.Unreachable); n > 0 {
		s.Warnings = append(s.Warnings, Warning{Code: UnreachablePairs, Text: fmt.Sprintf("%d ordered pairs of servers share no lane and are left out", n)})
	}
}

// lmcText describes the cost of having fewer LIDs than lanes, and the remedy.
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
