// Package planner is the one entry of the command line and the daemon to
// everything that plans: a fabric goes in, a verified plan and verified tables
// come out. It owns the choice of engine, every fallback, and the warnings that
// a plan carries.
package planner

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"forsd/fors"
	"forsd/lft"
	"forsd/topology"
	"forsd/verify"
)

// Settings are the choices that planning leaves to the operator.
type Settings struct {
	Engine string // one of Engines; empty means Auto
}

// Warning is a deviation that a plan carries, with a stable code.
type Warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

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
	Warnings []Warning
	Took     time.Duration // planning, without verification
}

// Result is a plan with the tables that carry it, both verified.
type Result struct {
	*Schedule
	Tables *lft.Tables
	Times  Times
}

// Times says what each stage took.
type Times struct{ Plan, Tables, Verify time.Duration }

// Make plans the complete exchange of the tree's servers, builds the tables and
// verifies the one on the other. A plan of the chosen engine that fails
// verification is replaced by a conservative one, and a warning says so.
func Make(t *topology.FatTree, s Settings) (*Result, error) {
	tables, times, err := route(t)
	if err != nil {
		return nil, err
	}
	checked := time.Now()
	schedule, err := Plan(t, s)
	if err != nil {
		return nil, err
	}
	if schedule, err = schedule.Verified(tables); err != nil {
		return nil, err
	}
	times.Plan = schedule.Took
	times.Verify += time.Since(checked) - schedule.Took
	return &Result{Schedule: schedule, Tables: tables, Times: times}, nil
}

// Route builds and verifies the tables of the tree.
func Route(t *topology.FatTree) (*lft.Tables, error) {
	tables, _, err := route(t)
	return tables, err
}

// route builds and verifies tables, and says what either took.
func route(t *topology.FatTree) (*lft.Tables, Times, error) {
	start := time.Now()
	tables, err := lft.Build(t)
	if err != nil {
		return nil, Times{}, fmt.Errorf("build tables: %w", err)
	}
	built := time.Now()
	if err := verify.Tables(t, tables); err != nil {
		return nil, Times{}, fmt.Errorf("verify tables: %w", err)
	}
	return tables, Times{Tables: built.Sub(start), Verify: time.Since(built)}, nil
}

// Verified verifies the schedule on each of the tables. One that fails is
// replaced by a conservative one that does not, and a warning says so.
func (s *Schedule) Verified(tables ...*lft.Tables) (*Schedule, error) {
	err := s.Check(tables...)
	if err == nil {
		return s, nil
	}
	if s.Plan.Engine == fors.Conservative {
		return nil, err
	}
	second, again := conservative(s.Tree)
	if again != nil {
		return nil, errors.Join(err, again)
	}
	if again = second.Check(tables...); again != nil {
		return nil, err
	}
	second.Warnings = append(second.Warnings, Warning{EngineFallback, fmt.Sprintf("the plan of engine %s failed verification and was replaced: %v", s.Plan.Engine, err)})
	return second, nil
}

// Plan runs the chosen engine and binds its plan to the fabric's LIDs, without
// verifying it: see Schedule.Verified.
func Plan(t *topology.FatTree, s Settings) (*Schedule, error) { return schedule(t, s.Engine) }

// Check verifies the plan on each of the tables, side by side. The error is that
// of the first.
func (s *Schedule) Check(tables ...*lft.Tables) error {
	errs := make([]error, len(tables))
	var group sync.WaitGroup
	for i, t := range tables {
		group.Go(func() { errs[i] = verify.Plan(s.Tree, t, s.Rows, s.unreachable()) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("verify plan: %w", err)
		}
	}
	return nil
}

func (s *Schedule) unreachable() [][2]int32 {
	out := make([][2]int32, len(s.Plan.Unreachable))
	for i, p := range s.Plan.Unreachable {
		out[i] = [2]int32{int32(p.Src), int32(p.Dst)}
	}
	return out
}

func (s *Schedule) warn() {
	p := s.Plan
	if closesLanes(s.Tree) {
		s.Warnings = append(s.Warnings, Warning{LMCTooSmall, fmt.Sprintf("the servers' LMC gives fewer LIDs than the %d lanes: some lanes are closed to some servers; set lmc in opensm.conf so that 2^lmc ≥ %d", s.Tree.Lanes, s.Tree.Lanes)})
	}
	if p.Gap() > 0 {
		s.Warnings = append(s.Warnings, Warning{PlanOverBound, fmt.Sprintf("the plan of engine %s has %d phases, %d more than the bound of %d", p.Engine, p.Phases, p.Gap(), p.LowerBound)})
	}
	if n := len(p.Unreachable); n > 0 {
		s.Warnings = append(s.Warnings, Warning{UnreachablePairs, fmt.Sprintf("%d ordered pairs of servers share no lane and are left out", n)})
	}
}
