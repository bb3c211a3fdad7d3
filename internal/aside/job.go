package aside

import (
	"context"
	"encoding/json"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// NewJob asks for the first plan of a job.
type NewJob struct {
	Tree     *topology.FatTree
	Settings Settings
	Members  []topology.GUID
	Tables   []*lft.Tables // what the plan must hold on
	Number   uint64        // of the job, and of its plan
}

// JobPlan is the plan of a job, verified.
type JobPlan struct {
	Table    []byte
	Report   json.RawMessage // a planner.Report
	Warnings []planner.Warning
}

// PlanJob plans a job.
func PlanJob(ctx context.Context, p *worker.Pool, q *NewJob) (*JobPlan, error) {
	return worker.Call[NewJob, JobPlan](ctx, p, jobTask, q)
}

// planJob is the task.
func planJob(ctx context.Context, q *NewJob) (*JobPlan, error) {
	s, err := planner.PlanJob(ctx, q.Tree, q.Members, planner.Settings(q.Settings), q.Tables...)
	if err != nil {
		return nil, api.Refused("the job cannot be planned: %v", err)
	}
	table := s.Table(q.Number)
	table.Job = q.Number
	data, err := phasetable.Encode(table)
	if err != nil {
		return nil, err
	}
	report, err := json.Marshal(s.Report())
	return &JobPlan{data, report, s.Warnings}, err
}
