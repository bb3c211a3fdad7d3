package plans

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// This file makes the plans of jobs follow the fabric's plan: after the controller has a plan
// made, published or read back, it applies to the jobs too.

// aheadOfTables describes plans of jobs made before the fabric's tables were read back.
type aheadOfTables struct {
	view   *view.View
	asked  controller.Plan
	number uint64 // of the fabric's plan, if one was published for the fabric
}

// JobsAhead plans the jobs for the fabric whose tables were ordered or failed: planning
// many jobs takes longer than planning the fabric, and tables do not wait for it. It ends
// soon after ctx, which ends when another fabric is seen.
func (p *Publisher) JobsAhead(ctx context.Context) {
	a := p.ahead
	if a == nil {
		return
	}
	p.ahead = nil
	if a.number == 0 { // the fabric's plan is unchanged
		a.number = p.Store.Disk.Numbers.Next()
	}
	jobs, err := p.planJobs(ctx, a.view, a.asked)
	if err == nil && ctx.Err() == nil {
		err = p.Store.Publish(a.number, jobs...)
	}
	if err != nil {
		p.Log.Info("jobs are not planned before the tables are read back", zap.Error(err))
	}
}

// memberPlanner plans the exchange of a job.
type memberPlanner func(planner.Job) (view.Proposal, error)

// planJobs plans the jobs as the controller asks; once tables are read back, their lanes are reserved first.
func (p *Publisher) planJobs(ctx context.Context, v *view.View, a controller.Plan) ([]state.Plan, error) {
	if len(p.State.Now().Jobs) == 0 {
		return nil, nil
	}
	on := p.Desk.Possible()
	if v.Kind != controller.OwnRoutes {
		r, err := v.Route(ctx, a.Hold, p.Settings())
		if err != nil {
			return nil, err
		}
		on = p.tablesFor(a, r.Tables)
	}
	if a.Final && !v.JobsOnRoutes() {
		p.giveLanes(ctx, v.Held(a.Hold))
	}
	return p.plansOfJobs(ctx, p.forMembers(ctx, v, a.Avoid, on), a.Final), nil
}

// forMembers returns a planner of exchanges among members that avoids some lanes and works
// on all of the tables.
func (p *Publisher) forMembers(ctx context.Context, v *view.View, avoid []controller.Lane, on []*lft.Tables) memberPlanner {
	if v.JobsOnRoutes() {
		return func(job planner.Job) (view.Proposal, error) { return v.JobOnRoutes(ctx, job.Members, on...) }
	}
	tree, all := v.Held(avoid), p.State.Now().Planning()
	return func(job planner.Job) (view.Proposal, error) {
		sub := planner.JobGround(tree, &job, all, p.Planning)
		s, err := p.untouched.of(job.ID, sub, on, func() (*planner.Schedule, error) {
			return planner.PlanJobBeside(ctx, tree, &job, all, p.Planning, on...)
		})
		return view.TreePlan{Schedule: s}, err
	}
}

// plansOfJobs plans all jobs concurrently, and returns the plans that differ from those in force,
// or that need another number. A plan that does not hold on all tables that the switches may
// hold waits for the read-back. If it fails after that (final), it is a warning, and the old
// plan stays.
func (p *Publisher) plansOfJobs(ctx context.Context, plan memberPlanner, final bool) (out []state.Plan) {
	jobs := p.State.Now().Jobs
	plans, errs := make([]view.Proposal, len(jobs)), make([]error, len(jobs))
	if _, err := parallel.Each(ctx, len(jobs), runtime.GOMAXPROCS(0), func(int) func(int) error {
		return func(i int) error {
			plans[i], errs[i] = planJob(jobs[i], plan, final)
			return ctx.Err()
		}
	}); err != nil {
		return nil // another fabric was seen, and they are planned for it
	}
	trouble := map[uint64]health.Finding{}
	for i, j := range jobs {
		x := state.Plan{Proposal: plans[i], Job: j}
		switch {
		case errors.Is(errs[i], planner.ErrNoMember):
			trouble[j.ID] = health.Finding{Code: state.JobHostsMissing, Text: "none of its hosts is attached to the fabric, and its last plan stays"}
		case errs[i] != nil && final:
			trouble[j.ID] = health.Finding{Code: state.JobPlanFailed, Text: errs[i].Error()}
		case errs[i] != nil:
			p.Log.Info("no plan of a job holds on the tables in force, the tables come first", zap.Uint64("job", j.ID), zap.Error(errs[i]))
		case j.Plans.Current() == nil || !p.Store.Stays(&x):
			out = append(out, x)
		}
	}
	if final {
		p.State.JobsFailed(trouble)
	}
	return out
}

// planJob plans one job. Until the tables of a new host are in place, the job is planned
// without the host, which must not keep a lost lane in the plan until then.
func planJob(j *state.Job, plan memberPlanner, final bool) (view.Proposal, error) {
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

// jobPlans caches plans of jobs with their inputs.
type jobPlans struct{ made sync.Map } // [number of the job] jobPlan

type jobPlan struct {
	of   string
	plan *planner.Schedule
}

// of returns the cached plan of a job if its part of the tree is the same and it works on
// the tables; otherwise it makes a new one.
func (k *jobPlans) of(id uint64, sub *topology.FatTree, on []*lft.Tables, plan func() (*planner.Schedule, error)) (*planner.Schedule, error) {
	facts := planner.JobFacts(sub)
	if known, there := k.made.Load(id); there && known.(jobPlan).of == facts { // a job without hosts depends on nothing
		if same := known.(jobPlan).plan.On(sub); same.Check(on...) == nil {
			return same, nil
		}
	}
	s, err := plan()
	if err != nil {
		return nil, err
	}
	k.made.Store(id, jobPlan{facts, s})
	return s, nil
}
