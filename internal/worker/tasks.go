package worker

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"slices"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/tomography"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/topology"
)

// The names of the tasks.
const (
	whatIfTask  = "what-if"
	jobTask     = "job"
	lanesTask   = "lanes"
	measureTask = "measure"
)

// Tasks returns the tasks of this package for a pool's processes.
func Tasks() map[string]Task {
	return map[string]Task{whatIfTask: taskOf(whatIf), jobTask: taskOf(planJob), lanesTask: taskOf(pin), measureTask: taskOf(measure)}
}

// WhatIfRequest is a request for the plan of a tree, and for the rest of an exchange on it.
type WhatIfRequest struct {
	Tree     *topology.FatTree
	Settings Settings
	Epoch    uint64 // number of the plan's table

	Running []byte        // phase table of the current exchange, or nil
	Done    int           // completed phases
	Members []ib.GUID     // of its job; empty if it is the fabric's exchange
	Tables  []*lft.Tables // tables for the rest, if it may be run immediately
}

// Settings are the planner's settings for another process, without their Memory.
type Settings planner.Settings

// GobEncode leaves the memory out.
func (s Settings) GobEncode() ([]byte, error) {
	s.Memory = nil
	return json.Marshal(planner.Settings(s))
}

// GobDecode decodes the output of GobEncode.
func (s *Settings) GobDecode(data []byte) error { return json.Unmarshal(data, (*planner.Settings)(s)) }

// whatIfResult is the answer, with the phase table in encoded form.
type whatIfResult struct {
	Plan      []byte // JSON
	Table     []byte
	Remaining *api.Remaining
}

// WhatIf answers a question. The caller adds the differences between the trees.
func WhatIf(ctx context.Context, p *Pool, q *WhatIfRequest) (*api.Forecast, error) {
	a, err := call[WhatIfRequest, whatIfResult](ctx, p, whatIfTask, q)
	if err != nil {
		return nil, err
	}
	table, err := phasetable.Decode(a.Table)
	if err != nil {
		return nil, err
	}
	return &api.Forecast{What: []string{}, Plan: a.Plan, Table: table, Remaining: a.Remaining}, nil
}

// whatIf returns the task.
func whatIf(ctx context.Context, q *WhatIfRequest) (a *whatIfResult, err error) {
	var report any
	var table *phasetable.Table
	var onPods *podplan.Result
	if q.Tree.Pods != nil {
		if onPods, err = podplan.Make(ctx, q.Tree.Pods, podplan.Settings{MaxUnreachable: q.Settings.MaxUnreachable}); err == nil {
			report, table = onPods.Report(), onPods.Rows(q.Epoch)
		}
	} else if result, failed := planner.Make(ctx, q.Tree, planner.Settings(q.Settings)); failed == nil {
		report, table = result.Report(), result.Table(q.Epoch)
	} else {
		err = failed
	}
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	a = &whatIfResult{}
	if q.Running != nil {
		if table, a.Remaining, err = q.remaining(ctx, onPods); err != nil {
			return nil, err
		}
	}
	if a.Plan, err = json.Marshal(report); err == nil {
		a.Table, err = phasetable.Encode(table)
	}
	return a, err
}

// remaining plans the rest of an exchange, on three levels on the tables of a plan.
func (q *WhatIfRequest) remaining(ctx context.Context, onPods *podplan.Result) (table *phasetable.Table, out *api.Remaining, err error) {
	old, err := phasetable.Decode(q.Running)
	if err != nil {
		return nil, nil, err
	}
	var check func(*lft.Tables) error
	tree := q.Tree
	if q.Members != nil {
		tree = planner.Restrict(tree, q.Members)
	}
	if onPods != nil {
		rest, failed := podplan.Remaining(ctx, tree.Pods, onPods.Tables, old, q.Done)
		if err = failed; err == nil {
			report := rest.Report()
			out = &api.Remaining{Done: rest.Done, Summary: report.Summary, Proof: report.Proof, Kept: rest.Kept, Moved: rest.Moved, Shed: rest.Shed, PlanSeconds: rest.Times.Plan.Seconds()}
			table, check = rest.Rows(old.Epoch()), func(tables *lft.Tables) error { return rest.Check(ctx, tables) }
		}
	} else {
		rest, failed := planner.Remaining(ctx, tree, old, q.Done)
		if err = failed; err == nil {
			out = &api.Remaining{Done: rest.Done, Kept: rest.Kept, Moved: rest.Moved, Shed: rest.Shed, Anew: rest.Anew, PlanSeconds: rest.Took.Seconds()}
			out.Summary, out.Proof = planner.Summary(rest.Plan)
			table, check = rest.Table(old.Epoch()), func(tables *lft.Tables) error { return rest.Check(tables) }
		}
	}
	if err == nil {
		table.Job = old.Job()
	}
	if errors.Is(err, planner.ErrTooFar) {
		return nil, nil, api.BadRequest("%v", err)
	} else if err != nil {
		return nil, nil, api.Refused("%v", err)
	}
	for _, tables := range q.Tables {
		if err := check(tables); err != nil {
			return nil, nil, api.Refused("the switches may hold tables that do not carry the plan: ask again when the change is settled: %v", err)
		}
	}
	out.Epoch = old.Epoch()
	return table, out, nil
}

// JobRequest is a request for the first plan of a job.
type JobRequest struct {
	Tree     *topology.FatTree
	Settings Settings
	Members  []ib.GUID
	Tables   []*lft.Tables // tables on which the plan must hold
	Number   uint64        // of the job, and of its plan
	Jobs     []planner.Job // existing jobs
	OwnLanes bool          // the job requests its own lanes
}

// JobPlan is the verified plan of a job.
type JobPlan struct {
	Table    []byte
	Report   json.RawMessage // a planner.Report
	Warnings []planner.Warning
	Lanes    []planner.JobLane // reserved for the job
	Routed   bool              // its own plan will route its base LIDs

	Base       []byte          // its plan for base LIDs as routed now, or nil
	BaseReport json.RawMessage // a planner.Report
}

// PlanJob plans a job.
func PlanJob(ctx context.Context, p *Pool, q *JobRequest) (*JobPlan, error) {
	return call[JobRequest, JobPlan](ctx, p, jobTask, q)
}

// planJob returns the task.
func planJob(ctx context.Context, q *JobRequest) (*JobPlan, error) {
	settings, job := planner.Settings(q.Settings), planner.Job{ID: q.Number, Members: q.Members}
	if q.OwnLanes {
		var err error
		if job.Lanes, err = planner.OwnLanes(ctx, q.Tree, &job, q.Jobs); err != nil && ctx.Err() != nil {
			return nil, err // after other errors the job shares lanes
		}
	}
	all, out := append(slices.Clone(q.Jobs), job), &JobPlan{Lanes: job.Lanes}
	base, err := planner.PlanJobFixed(ctx, planner.Restrict(q.Tree, q.Members), q.Tables...)
	if err != nil {
		base = nil // wait for its tables
	} else if out.Base, out.BaseReport, err = encoded(base, q.Number); err != nil {
		return nil, err
	}
	if out.Routed, err = settings.WorthRouting(q.Tree, &job, all, base); err != nil {
		return nil, err
	}
	job.Routed = out.Routed // so that its plan does not change when it is routed
	all[len(all)-1] = job
	s, err := planner.PlanJobBeside(ctx, planner.Moves(q.Tree, all), &job, all, settings, q.Tables...)
	if err != nil {
		return nil, api.Refused("the job cannot be planned: %v", err)
	}
	out.Warnings = s.Warnings
	out.Table, out.Report, err = encoded(s, q.Number)
	return out, err
}

// encoded returns a job's plan with a number.
func encoded(s *planner.Schedule, number uint64) (table []byte, report json.RawMessage, err error) {
	t := s.Table(number)
	t.Job = number
	if table, err = phasetable.Encode(t); err != nil {
		return nil, nil, err
	}
	report, err = json.Marshal(s.Report())
	return table, report, err
}

// PinRequest is a request for the lanes of an exchange between GPUs.
type PinRequest struct {
	Request  lanes.Request
	Tree     *topology.FatTree
	Settings Settings
	Tables   *lft.Tables // tables in the switches
}

// Pin pins the exchange on the lanes of the tree, and checks it on the tables.
func Pin(ctx context.Context, p *Pool, q *PinRequest) (*lanes.Plan, error) {
	return call[PinRequest, lanes.Plan](ctx, p, lanesTask, q)
}

// pin returns the task.
func pin(ctx context.Context, q *PinRequest) (*lanes.Plan, error) {
	tree := planner.Settings(q.Settings).Apart(q.Tree)
	plan, err := lanes.Pin(ctx, &q.Request, tree)
	if err != nil {
		return nil, api.BadRequest("%v", err)
	}
	if err := plan.Verify(&q.Request, tree, q.Tables); err != nil {
		return nil, api.Errorf(api.CodeNoPlan, "the tables that the switches have do not carry this exchange, as while they change: %v", err)
	}
	return plan, nil
}

// MeasureRequest has the times of an exchange by a plan.
type MeasureRequest struct {
	Times  []byte // api.ExchangeTimes as JSON
	Plan   []byte // phase table
	Fabric *topology.Fabric
	Tables *lft.Tables // in the switches
}

// Measure finds the slow parts of the fabric.
func Measure(ctx context.Context, p *Pool, q *MeasureRequest) (*api.Measured, error) {
	return call[MeasureRequest, api.Measured](ctx, p, measureTask, q)
}

// measure returns the task.
func measure(_ context.Context, q *MeasureRequest) (*api.Measured, error) {
	plan, err := phasetable.Decode(q.Plan)
	if err != nil {
		return nil, err
	}
	var times api.ExchangeTimes
	if err := api.Decode(q.Times, &times); err != nil {
		return nil, err
	}
	sent, err := tomography.SentBy(plan, &times)
	if err != nil {
		return nil, api.BadRequest("%v", err)
	}
	m, err := tomography.Measure(q.Fabric, q.Tables, sent, false)
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	return m, nil
}

// taskOf converts a function to a task for call.
func taskOf[Q, A any](f func(context.Context, *Q) (*A, error)) Task {
	return func(ctx context.Context, in *gob.Decoder) (any, error) {
		var q Q
		if err := in.Decode(&q); err != nil {
			return nil, err
		}
		return f(ctx, &q)
	}
}

// call runs the task's function in a process. Its errors are those of Run, converted to the
// API's errors.
func call[Q, A any](ctx context.Context, p *Pool, task string, q *Q) (*A, error) {
	var a A
	if err := p.Run(ctx, task, q, &a); err != nil {
		return nil, refusal(err)
	}
	return &a, nil
}
