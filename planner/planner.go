// Package planner is the one entry of the command line and the daemon to
// everything that plans: a fabric goes in, a verified plan and verified tables
// come out. It owns the choice of engine, every fallback, and the warnings that
// a plan carries.
package planner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"forsd/fors"
	"forsd/ilp"
	"forsd/lft"
	"forsd/topology"
	"forsd/verify"
)

// Auto lets the planner choose the engine.
const Auto = "auto"

// Engines lists what Settings.Engine may be.
var Engines = []string{Auto, string(fors.Algorithm), string(fors.Exact), string(fors.ILP)}

// ilpLimit bounds the integer programmes of one plan; the paper's solver needed
// 30 s (section 6.3).
const ilpLimit = time.Minute

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

// schedule runs the chosen engine.
func schedule(t *topology.FatTree, engine string) (*Schedule, error) {
	start := time.Now()
	if len(t.Servers) == 0 {
		return nil, errors.New("the fabric has no server: there is nothing to exchange")
	}
	tree := forsTree(t)
	var plan *fors.Plan
	var err error
	switch engine {
	case "", Auto:
		plan, err = fors.Make(tree)
	case string(fors.Algorithm):
		plan, err = algorithm(tree)
	case string(fors.Exact):
		plan, err = fors.PlanExact(tree)
	case string(fors.ILP):
		plan, err = integer(tree)
	default:
		err = fmt.Errorf("engine %q does not exist: use one of %v", engine, Engines)
	}
	if err != nil {
		return nil, err
	}
	return bind(t, plan, start)
}

// algorithm insists on the FORS paper's own path: the linear shift while no
// lane is lost, section 4's schedule with Algorithm 2 afterwards.
func algorithm(tree *fors.Tree) (*fors.Plan, error) {
	if plan, ok := fors.PlanShift(tree); ok {
		return plan, nil
	}
	if plan, ok := fors.PlanAlgorithm(tree); ok {
		return plan, nil
	}
	b := fors.ComputeBounds(tree)
	return nil, fmt.Errorf("engine algorithm does not apply: failures affect m = %d lanes, and the bandwidth reduction is f = %d (Algorithm 2 needs m ≤ f): use auto or exact", b.Affected, b.Reduction)
}

// integer routes section 4's schedule by the paper's integer programme.
func integer(tree *fors.Tree) (*fors.Plan, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), ilpLimit, fmt.Errorf("engine ilp found no routing within %s: use auto or exact", ilpLimit))
	defer cancel()
	plan, err := ilp.Plan(ctx, tree)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return plan, err
}

func conservative(t *topology.FatTree) (*Schedule, error) {
	start := time.Now()
	return bind(t, fors.PlanConservative(forsTree(t)), start)
}

// forsTree is the tree as the engines see it: the leaves that have servers, and
// the servers' indices α as slots. Where bystanders push α beyond the lanes, the
// servers are counted without gaps instead.
func forsTree(t *topology.FatTree) *fors.Tree {
	tree := &fors.Tree{Lanes: t.Lanes}
	last, dense := -1, false
	for _, i := range t.Servers {
		h := &t.Hosts[i]
		if h.Leaf != last {
			last = h.Leaf
			up := make([]bool, t.Lanes)
			for k := range up {
				up[k] = t.LaneUp(h.Leaf, k)
			}
			tree.Up = append(tree.Up, up)
			tree.Slots = append(tree.Slots, nil)
		}
		slots := &tree.Slots[len(tree.Slots)-1]
		*slots = append(*slots, h.Alpha)
		dense = dense || h.Alpha >= t.Lanes
	}
	if dense {
		for _, slots := range tree.Slots {
			for i := range slots {
				slots[i] = i
			}
		}
	}
	if closesLanes(t) {
		tree.Closed = func(d fors.Server, k fors.Lane) bool {
			_, open := t.DLID(&t.Hosts[t.Servers[d]], int(k))
			return !open
		}
	}
	return tree
}

// closesLanes tells whether some server has fewer LIDs than there are lanes.
func closesLanes(t *topology.FatTree) bool {
	for _, i := range t.Servers {
		if 1<<t.Hosts[i].LMC < t.Lanes {
			return true
		}
	}
	return false
}

// bind gives every transfer its destination LID, and collects the warnings.
func bind(t *topology.FatTree, plan *fors.Plan, start time.Time) (*Schedule, error) {
	n := len(t.Servers)
	if plan.Servers != n {
		return nil, fmt.Errorf("the plan has %d servers, the fabric %d", plan.Servers, n)
	}
	rows := verify.Rows{Phases: plan.Phases, To: make([]int32, len(plan.To)), Lane: make([]int16, len(plan.To)), DLID: make([]topology.LID, len(plan.To))}
	dlid := dlids(t)
	width := t.Lanes + 1
	for i, d := range plan.To {
		rows.To[i], rows.Lane[i] = int32(d), int16(plan.Lane[i])
		if d == fors.Idle {
			continue
		}
		lid := dlid[int(d)*width+int(plan.Lane[i])+1]
		if lid == 0 {
			return nil, fmt.Errorf("phase %d: lane %d is closed to %s, whose LMC is %d", i/n, plan.Lane[i], t.Hosts[t.Servers[d]].Name, t.Hosts[t.Servers[d]].LMC)
		}
		rows.DLID[i] = lid
	}
	s := &Schedule{Tree: t, Plan: plan, Rows: rows}
	s.warn()
	s.Took = time.Since(start)
	return s, nil
}

// dlids tabulates the destination LIDs: [server][lane+1], the base LID for
// local transfers in column 0, zero where the lane is closed to the server.
func dlids(t *topology.FatTree) []topology.LID {
	width := t.Lanes + 1
	out := make([]topology.LID, len(t.Servers)*width)
	for s, i := range t.Servers {
		h := &t.Hosts[i]
		out[s*width] = h.LID
		for k := range t.Lanes {
			if lid, ok := t.DLID(h, k); ok {
				out[s*width+k+1] = lid
			}
		}
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
