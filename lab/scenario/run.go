package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Result is the outcome of a scenario.
type Result struct {
	Scenario           string `json:"scenario"`
	DeadCables         int    `json:"dead_cables"`
	BandwidthReduction int    `json:"bandwidth_reduction"` // f
	AffectedSpines     int    `json:"affected_spines"`     // m
	phasetable.Summary
	phasetable.Proof
	// Throughput is (P−1)/phases, as a share of the speed of the servers' own cables;
	// it means little if pairs are unreachable.
	Throughput  float64  `json:"throughput"`
	Gbps        float64  `json:"model_gbps"` // by the model, for a server
	Paper       Reported `json:"paper"`
	PlanSeconds float64  `json:"plan_seconds"` // median of three
	// Exchanges are what was measured on OpenSM: its engines in the order asked
	// for, then forsd; then the simulated ones of Adaptives.
	Exchanges []Exchange `json:"opensm,omitempty"`
}

// Options say what Run does.
type Options struct {
	Tree      Tree
	Scenarios []Scenario
	// Engines are the routing engines of OpenSM to measure, in addition to forsd. If
	// it is nil, OpenSM is not needed. See Engines.
	Engines []string
	// Step, if not nil, is called before each piece of work; Steps returns their
	// number.
	Step func(scenario, work string)
}

// Steps is how often Run calls Step.
func (o *Options) Steps() int {
	each := 1
	if len(o.Engines) > 0 {
		each += len(o.Engines) + 1 + len(Adaptives)
	}
	return each * len(o.Scenarios)
}

// Run works through the scenarios in order. Every plan is verified on its
// tables, and with OpenSM on those read back from the switches.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if err := o.Tree.Validate(); err != nil {
		return nil, err
	}
	results := make([]Result, len(o.Scenarios))
	for i := range o.Scenarios {
		s := &o.Scenarios[i]
		r, err := o.plan(ctx, s)
		if err == nil && len(o.Engines) > 0 {
			r.Exchanges, err = o.measure(ctx, s)
		}
		if err != nil {
			return nil, fmt.Errorf("scenario %s on %s: %w", s.Name, o.Tree, err)
		}
		results[i] = r
	}
	return results, nil
}

func (o *Options) step(s *Scenario, work string) {
	if o.Step != nil {
		o.Step(s.Name, work)
	}
}

// anyPlan accepts plans with any number of unreachable pairs, which a scenario is to show.
var anyPlan = planner.Settings{MaxUnreachable: new(1.0)}

// planTimes is how often a scenario is planned: the time is the median.
const planTimes = 3

// plan plans a scenario.
func (o *Options) plan(ctx context.Context, s *Scenario) (Result, error) {
	o.step(s, "plan")
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	made, err := Plan(ctx, o.Tree, s)
	if err != nil {
		return Result{}, err
	}
	times := []time.Duration{made.Times.Plan}
	for len(times) < planTimes {
		again, err := planner.Plan(ctx, made.Tree, anyPlan)
		if err != nil {
			return Result{}, err
		}
		times = append(times, again.Took)
	}
	slices.Sort(times)
	r := made.Report()
	result := Result{
		Scenario: s.Name, DeadCables: s.Dead(o.Tree), BandwidthReduction: r.BandwidthReduction, AffectedSpines: r.AffectedSpines,
		Summary: r.Summary, Proof: r.Proof, Throughput: float64(r.Servers-1) / float64(r.Phases),
		Gbps: Gbps(r.Servers, r.Phases, r.Phases), PlanSeconds: times[planTimes/2].Seconds(),
	}
	if o.Tree == LHCb {
		result.Paper = reported[s.Name]
	}
	return result, nil
}

// Plan plans and verifies the exchange on a tree in a scenario.
func Plan(ctx context.Context, t Tree, s *Scenario) (*planner.Result, error) {
	tree, err := s.fit(t, t.LMC())
	if err != nil {
		return nil, err
	}
	return planner.Make(ctx, tree, anyPlan)
}

// fit fits a tree in the scenario to the baseline of the whole one.
func (s *Scenario) fit(t Tree, lmc uint8) (*topology.FatTree, error) {
	whole := t.Fabric(lmc)
	base, err := topology.NewBaseline(whole)
	if err != nil {
		return nil, err
	}
	s.Damage(t, whole)
	return topology.Fit(whole, base, nil)
}
