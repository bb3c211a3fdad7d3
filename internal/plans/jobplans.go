package plans

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

// This file makes the plans of jobs follow the fabric's plan: after the controller has a plan
// made, published or read back, it applies to the jobs too.

// Planned is a new plan for a job, which replaces the one in force.
type Planned struct {
	job  *Job
	plan view.Proposal
}

// Plan plans all jobs concurrently, and returns those whose plan differs from the one in force,
// or that need another number. A plan that does not hold on all tables that the switches may
// hold waits for the read-back. If it fails after that (final), it is a warning, and the old
// plan stays.
func (r *Jobs) Plan(ctx context.Context, plan MemberPlanner, final bool) []Planned {
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
		return nil // another fabric was seen, and they are planned for it
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

// planJob plans one job. Until the tables of a new host are in place, the job is planned
// without the host, which must not keep a lost lane in the plan until then.
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

// Publish publishes plans of jobs with the number n.
func (r *Jobs) Publish(plans []Planned, n uint64) error {
	if len(plans) == 0 {
		return nil
	}
	r.Store.KeepBaseline()
	var list []*Job
	var stored []*store.Job
	if err := r.Store.Put(n, func(n uint64) error {
		list, stored = nil, nil
		for _, p := range plans {
			j, err := r.Find(strconv.FormatUint(p.job.ID, 10)) // its current value
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

// Troubles returns the failures of the last planning of jobs.
func (r *Jobs) Troubles() map[uint64]health.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.trouble)
}

// MemberPlanner plans the exchange of a job.
type MemberPlanner func(planner.Job) (view.Proposal, error)
