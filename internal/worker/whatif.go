package worker

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
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
func whatIf(ctx context.Context, q *WhatIfRequest) (*whatIfResult, error) {
	if q.Tree.Pods != nil {
		return whatIfPods(ctx, q)
	}
	result, err := planner.Make(ctx, q.Tree, planner.Settings(q.Settings))
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	var a whatIfResult
	if a.Plan, err = json.Marshal(result.Report()); err != nil {
		return nil, err
	}
	table := result.Table(q.Epoch)
	if q.Running != nil {
		if table, a.Remaining, err = remaining(ctx, q); err != nil {
			return nil, err
		}
	}
	a.Table, err = phasetable.Encode(table)
	return &a, err
}

// whatIfPods plans a tree of three levels.
func whatIfPods(ctx context.Context, q *WhatIfRequest) (*whatIfResult, error) {
	result, err := podplan.Make(ctx, q.Tree.Pods, podplan.Settings{MaxUnreachable: q.Settings.MaxUnreachable})
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	var a whatIfResult
	if a.Plan, err = json.Marshal(result.Report()); err != nil {
		return nil, err
	}
	table := result.Rows(q.Epoch)
	if q.Running != nil {
		if table, a.Remaining, err = remainingOnPods(ctx, q, result); err != nil {
			return nil, err
		}
	}
	a.Table, err = phasetable.Encode(table)
	return &a, err
}

// remaining plans the rest of an exchange.
func remaining(ctx context.Context, q *WhatIfRequest) (*phasetable.Table, *api.Remaining, error) {
	old, err := phasetable.Decode(q.Running)
	if err != nil {
		return nil, nil, err
	}
	tree := q.Tree
	if q.Members != nil {
		tree = planner.Restrict(tree, q.Members)
	}
	rest, err := planner.Remaining(ctx, tree, old, q.Done)
	if err := q.refused(err, func(tables *lft.Tables) error { return rest.Check(tables) }); err != nil {
		return nil, nil, err
	}
	summary, proof := planner.Summary(rest.Plan)
	table := rest.Table(old.Epoch())
	table.Job = old.Job()
	return table, &api.Remaining{Epoch: old.Epoch(), Done: rest.Done, Summary: summary, Proof: proof,
		Kept: rest.Kept, Moved: rest.Moved, Shed: rest.Shed, Anew: rest.Anew, PlanSeconds: rest.Took.Seconds()}, nil
}

// refused returns why the rest of an exchange is not planned, or may not be run on the tables.
func (q *WhatIfRequest) refused(err error, check func(*lft.Tables) error) error {
	if errors.Is(err, planner.ErrTooFar) {
		return api.BadRequest("%v", err)
	} else if err != nil {
		return api.Refused("%v", err)
	}
	for _, tables := range q.Tables {
		if err := check(tables); err != nil {
			return api.Refused("the switches may hold tables that do not carry the plan: ask again when the change is settled: %v", err)
		}
	}
	return nil
}

// remainingOnPods plans the rest of an exchange on three levels, on the tables of a plan.
func remainingOnPods(ctx context.Context, q *WhatIfRequest, on *podplan.Result) (*phasetable.Table, *api.Remaining, error) {
	old, err := phasetable.Decode(q.Running)
	if err != nil {
		return nil, nil, err
	}
	rest, err := podplan.Remaining(ctx, on, old, q.Done)
	if err := q.refused(err, func(tables *lft.Tables) error { return rest.Check(ctx, tables) }); err != nil {
		return nil, nil, err
	}
	report := rest.Report()
	return rest.Rows(old.Epoch()), &api.Remaining{Epoch: old.Epoch(), Done: rest.Done, Summary: report.Summary, Proof: report.Proof,
		Kept: rest.Kept, Moved: rest.Moved, Shed: rest.Shed, PlanSeconds: rest.Times.Plan.Seconds()}, nil
}
