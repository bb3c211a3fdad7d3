package jobs

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/planner"
)

// This file follows the fabric's plan with those of the jobs: whatever the
// controller has planned, published and read back holds for them too.

// Planned is a plan of a job that is to take the place of the one in force.
type Planned struct {
	job  *Job
	plan view.Proposal
}

// Plan plans every job, side by side, and returns those whose plan is another than
// the one in force, or that are to have another number. A plan that does not hold on
// all tables that the switches may hold is left for after the read-back; one that fails
// then (final) is a warning, and the old one stays.
func (r *Registry) Plan(ctx context.Context, plan MemberPlanner, final bool) []Planned {
	jobs := r.List()
	if len(jobs) == 0 {
		return nil
	}
	plans, errs := make([]view.Proposal, len(jobs)), make([]error, len(jobs))
	if _, err := parallel.Each(ctx, len(jobs), runtime.GOMAXPROCS(0), func(int) func(int) error {
		return func(i int) error {
			plans[i], errs[i] = planJob(jobs[i], plan, final)
			return ctx.Err()
		}
	}); err != nil {
		return nil // they are planned for the fabric that has been seen since
	}
	var out []Planned
	trouble := map[uint64]health.Finding{}
	for i, j := range jobs {
		switch {
		case errors.Is(errs[i], planner.ErrNoMember):
			trouble[j.ID] = health.Finding{Code: JobHostsMissing, Text: "none of its hosts is attached to the fabric, and its last plan stays"}
		case errs[i] != nil && final:
			trouble[j.ID] = health.Finding{Code: JobPlanFailed, Text: errs[i].Error()}
		case errs[i] != nil:
			r.Log.Info("no plan of a job holds on the tables in force, the tables come first", zap.Uint64("job", j.ID), zap.Error(errs[i]))
		case j.Epoch <= r.Store.Passed() || j.Plans.Current() == nil || !plans[i].Is(j.Plan, &j.Report):
			out = append(out, Planned{j, plans[i]})
		}
	}
	if final {
		r.mu.Lock()
		r.trouble = trouble
		r.mu.Unlock()
		r.Warnings(trouble)
	}
	return out
}

// planJob plans one job. Before the tables of a newcomer are there, the job is
// planned without it: it must not keep a lost lane in the plan until then.
func planJob(j *Job, plan MemberPlanner, final bool) (view.Proposal, error) {
	job := j.Planning()
	p, err := plan(job)
	if err == nil || final {
		return p, err
	}
	job.Members = nil
	for i := range j.Plan.Servers() {
		job.Members = append(job.Members, j.Plan.Server(i).GUID)
	}
	return plan(job)
}

// Publish puts plans of jobs in force under the number n.
func (r *Registry) Publish(plans []Planned, n uint64) error {
	if len(plans) == 0 {
		return nil
	}
	r.Store.KeepBaseline()
	var list []*Job
	var stored []*store.Job
	if err := r.Store.Put(n, func(n uint64) error {
		list, stored = nil, nil
		for _, p := range plans {
			j, err := r.Find(strconv.FormatUint(p.job.ID, 10)) // as it is now
			if err != nil {
				return err
			}
			if j, err = j.Planned(p.plan, n); err != nil {
				return err
			}
			j.PublishedAt = time.Now()
			list, stored = append(list, j), append(stored, &j.Job)
		}
		return nil
	}, func() error { return r.Store.SaveJobs(stored) }); err != nil {
		return err
	}
	for _, j := range list {
		if err := r.Set(j); err != nil {
			return err
		}
		r.Tell(j, "planned")
	}
	r.Warnings(r.Troubles())
	return nil
}

// Troubles returns what the last planning could not do for jobs.
func (r *Registry) Troubles() map[uint64]health.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.trouble)
}

// MemberPlanner plans the exchange of a job.
type MemberPlanner func(planner.Job) (view.Proposal, error)
