package plans

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// This file publishes plans for base LIDs, of the fabric and of jobs. They need tables of their
// own, so they are published after those tables have been read back.

// PublishBase publishes the plan for base LIDs that fits the tables read back, unless it is
// in force. If there is none, the plan in force is withdrawn, since programs do better
// without a base plan than with one for another fabric. A failure raises a warning and
// leaves the pinned plan in force.
func (p *Publisher) PublishBase(ctx context.Context, v *view.View, a controller.Plan) {
	x := state.Plan{Base: true}
	if e := p.State.Now().Epoch; v.Kind == controller.OwnRoutes && e != nil {
		x.Proposal = state.Known{Plan: e.Plan, About: e.Report} // it uses base LIDs only
	} else if v.Kind != controller.OwnRoutes {
		r, err := v.Route(ctx, a.Hold, p.Settings())
		if err == nil {
			p.State.SetLoad(r.Load)
		}
		if err == nil && r.Base != nil {
			err = r.Base.Check(p.Desk.Possible()...)
		}
		if ctx.Err() != nil {
			return // for a fabric that was superseded
		}
		if err != nil {
			r.Base, r.Notes = nil, []planner.Warning{{Code: planner.NoBasePlan, Text: fmt.Sprintf("there is no plan for programs that send to base LIDs: %v", err)}}
		}
		if r.Base == nil {
			p.State.NoBase(r.Notes)
			return
		}
		x.Proposal, x.Notes = r.Base, r.Notes
	}
	if x.Proposal == nil {
		return
	}
	if err := p.Store.Publish(p.State.Now().EpochNumber(), x); err != nil {
		p.Log.Error("the plan for base LIDs is not published", zap.Error(err))
	}
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
	defer func() { p.State.JobsUnrouted(!p.Planning.MayRoute(tree)) }()
	now := p.State.Now()
	all := now.Planning()
	for i, j := range now.Jobs {
		s, routed := r.Jobs[j.ID]
		if routed = routed && s.Check(on...) == nil; !routed {
			s, err = planner.PlanJobFixed(ctx, planner.Restrict(tree, all[i].Members), on...)
		}
		if ctx.Err() != nil {
			return // for a fabric that was superseded
		}
		if err == nil || routed {
			made := []state.Plan{{Proposal: view.TreePlan{Schedule: s}, Job: j, Base: true}}
			err = p.Store.Publish(j.Epoch, made...)
			j = made[0].Job
		} else if j.Bases.Current() != nil {
			p.Log.Info("no plan of a job for base LIDs holds any more", zap.Uint64("job", j.ID), zap.Error(err))
			j.Bases.Withdraw()
		}
		worth := false
		if err == nil && !routed && !j.Routed {
			worth, err = p.Planning.WorthRouting(tree, &all[i], all, s)
		}
		if worth && err == nil {
			p.Store.ChangeJob(j, func(next *state.Job) { next.Routed = true })
		}
		if err != nil {
			p.Log.Info("a job has no plan for base LIDs", zap.Uint64("job", j.ID), zap.Error(err))
		}
	}
}

// giveLanes reserves free lanes for jobs that asked for their own: jobs that have none, and
// jobs whose surviving lanes make their plans too long, or do not reach a host that has come back.
// Tables follow.
func (p *Publisher) giveLanes(ctx context.Context, tree *topology.FatTree) {
	for _, j := range p.State.Now().Jobs {
		all, job := p.State.Now().Planning(), j.Planning()
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
		p.Store.ChangeJob(j, func(next *state.Job) { next.Lanes = lanes })
	}
}
