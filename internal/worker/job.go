package worker

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

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
