package plans

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// This file publishes jobs' plans for base LIDs, and reuses plans of jobs that no failure
// affects.

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
		a.number = p.Store.Next()
	}
	plans, err := p.planJobs(ctx, a.view, a.asked)
	if err == nil && ctx.Err() == nil {
		err = p.Jobs.Publish(plans, a.number)
	}
	if err != nil {
		p.Log.Info("jobs are not planned before the tables are read back", zap.Error(err))
	}
}

// jobPlans caches plans of jobs with their inputs.
type jobPlans struct {
	mu   sync.Mutex
	made map[uint64]jobPlan
}

type jobPlan struct {
	of   string
	plan *planner.Schedule
}

// of returns the cached plan of a job if its part of the tree is the same and it works on
// the tables; otherwise it makes a new one.
func (k *jobPlans) of(id uint64, sub *topology.FatTree, on []*lft.Tables, plan func() (*planner.Schedule, error)) (*planner.Schedule, error) {
	facts := planner.JobFacts(sub)
	k.mu.Lock()
	known := k.made[id]
	k.mu.Unlock()
	if known.plan != nil && known.of == facts { // a job without hosts depends on nothing
		if same := known.plan.On(sub); same.Check(on...) == nil {
			return same, nil
		}
	}
	s, err := plan()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.made == nil {
		k.made = map[uint64]jobPlan{}
	}
	k.made[id] = jobPlan{facts, s}
	return s, nil
}

// publishJobBases publishes the jobs' plans for base LIDs that fit the tables read back:
// those that determined the tables, or others made on these tables. A job whose base LIDs
// should follow its own plan from now on is marked; tables follow.
func (p *Publisher) publishJobBases(ctx context.Context, v *view.View, a controller.Plan) {
	if v.JobsOnRoutes() {
		return // the plans use base LIDs only
	}
	r, err := v.Route(ctx, a.Hold, p.Settings())
	if err != nil {
		return // the fabric's own plan for base LIDs has warned
	}
	tree, on := v.Held(a.Hold), p.Desk.Possible()
	p.giveLanes(ctx, tree)
	defer func() { p.Jobs.Unrouted(!p.Planning.MayRoute(tree)) }()
	all := p.Jobs.Planning()
	for i := range all {
		job := &all[i]
		s, routed := r.Jobs[job.ID]
		if routed = routed && s.Check(on...) == nil; !routed {
			s, err = planner.PlanJobFixed(ctx, planner.Restrict(tree, job.Members), on...)
		}
		if ctx.Err() != nil {
			return // for a fabric that was superseded
		}
		if err == nil || routed {
			err = p.Jobs.SetBase(job.ID, s.Table(0), s.Report())
		} else {
			p.Jobs.NoBase(job.ID, err)
		}
		if err == nil && !routed && !job.Routed {
			err = p.mayRoute(tree, job, all, s)
		}
		if err != nil {
			p.Log.Info("a job has no plan for base LIDs", zap.Uint64("job", job.ID), zap.Error(err))
		}
	}
}

// mayRoute lets the base LIDs of a job follow its own plan if that is worth it.
func (p *Publisher) mayRoute(tree *topology.FatTree, job *planner.Job, all []planner.Job, fixed *planner.Schedule) error {
	worth, err := p.Planning.WorthRouting(tree, job, all, fixed)
	if err == nil && worth {
		err = p.Jobs.Route(job.ID)
	}
	return err
}

// giveLanes reserves free lanes for jobs that asked for their own: jobs that have none, and
// jobs whose surviving lanes make their plans too long. Tables and plans follow.
func (p *Publisher) giveLanes(ctx context.Context, tree *topology.FatTree) {
	for _, j := range p.Jobs.List() {
		all, job := p.Jobs.Planning(), j.Planning()
		if !j.OwnLanes {
			continue
		}
		sub, _ := planner.JobTree(tree, &job, all)
		least, err := planner.LeastForJob(sub)
		if cut, _ := planner.LaneLess(sub); err != nil || len(job.Lanes) > 0 && cut == 0 && least <= fors.OwnLimit(len(sub.Servers)-1) {
			continue
		}
		lanes, err := planner.OwnLanes(ctx, tree, &job, all)
		if err != nil || len(lanes) <= len(job.Lanes) {
			continue
		}
		p.Log.Info("a job gets lanes of its own", zap.Uint64("job", job.ID), zap.Int("lanes", len(lanes)), zap.Int("before", len(job.Lanes)))
		if err := p.Jobs.GiveLanes(job.ID, lanes); err != nil {
			p.Log.Error("lanes of a job are not stored", zap.Uint64("job", job.ID), zap.Error(err))
		}
	}
}
