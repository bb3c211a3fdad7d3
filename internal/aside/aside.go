// Package aside plans what-if questions and new jobs for the daemon's fabric, in separate
// processes. Its input is everything that a plan depends on, and it changes nothing.
package aside

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/topology"
)

// The names of the tasks.
const (
	forecastTask = "what-if"
	jobTask      = "job"
	lanesTask    = "lanes"
)

// Tasks returns the tasks of this package for a pool's processes.
func Tasks() map[string]worker.Task {
	return map[string]worker.Task{forecastTask: worker.Of(forecast), jobTask: worker.Of(planJob), lanesTask: worker.Of(pin)}
}

// Question is a request for the plan of a tree, and for the rest of an exchange on it.
type Question struct {
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

// forecasted is the answer, with the phase table in encoded form.
type forecasted struct {
	Plan      []byte // JSON
	Table     []byte
	Remaining *api.Remaining
}

// Forecast answers a question. The caller adds the differences between the trees.
func Forecast(ctx context.Context, p *worker.Pool, q *Question) (*api.Forecast, error) {
	a, err := worker.Call[Question, forecasted](ctx, p, forecastTask, q)
	if err != nil {
		return nil, err
	}
	table, err := phasetable.Decode(a.Table)
	if err != nil {
		return nil, err
	}
	return &api.Forecast{What: []string{}, Plan: a.Plan, Table: table, Remaining: a.Remaining}, nil
}

// forecast returns the task.
func forecast(ctx context.Context, q *Question) (*forecasted, error) {
	if q.Tree.Pods != nil {
		return forecastPods(ctx, q)
	}
	result, err := planner.Make(ctx, q.Tree, planner.Settings(q.Settings))
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	var a forecasted
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

// forecastPods plans a tree of three levels.
func forecastPods(ctx context.Context, q *Question) (*forecasted, error) {
	result, err := podplan.Make(ctx, q.Tree.Pods, podplan.Settings{MaxUnreachable: q.Settings.MaxUnreachable})
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	var a forecasted
	if a.Plan, err = json.Marshal(result.Report()); err != nil {
		return nil, err
	}
	a.Table, err = phasetable.Encode(result.Rows(q.Epoch))
	return &a, err
}

// remaining plans the rest of an exchange.
func remaining(ctx context.Context, q *Question) (*phasetable.Table, *api.Remaining, error) {
	old, err := phasetable.Decode(q.Running)
	if err != nil {
		return nil, nil, err
	}
	tree := q.Tree
	if q.Members != nil {
		tree = planner.Restrict(tree, q.Members)
	}
	rest, err := planner.Remaining(ctx, tree, old, q.Done)
	if errors.Is(err, planner.ErrTooFar) {
		return nil, nil, api.BadRequest("%v", err)
	} else if err != nil {
		return nil, nil, api.Refused("%v", err)
	}
	for _, tables := range q.Tables {
		if err := rest.Check(tables); err != nil {
			return nil, nil, api.Refused("the switches may hold tables that do not carry the plan: ask again when the change is settled: %v", err)
		}
	}
	summary, proof := planner.Summary(rest.Plan)
	table := rest.Table(old.Epoch())
	table.Job = old.Job()
	return table, &api.Remaining{Epoch: old.Epoch(), Done: rest.Done, Summary: summary, Proof: proof,
		Kept: rest.Kept, Moved: rest.Moved, Shed: rest.Shed, Anew: rest.Anew, PlanSeconds: rest.Took.Seconds()}, nil
}
