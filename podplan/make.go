package podplan

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
)

// Make plans the complete exchange of the tree's servers, or several: see several. It builds the
// tables and verifies the plan on them, with a plan for base LIDs. Undamaged trees get the linear
// shift, and damaged ones as much of it as is alive: see kept. Otherwise, plans for single senders
// use tables that do not depend on them if each server has an LID for every lane; if not, the
// senders of a leaf form a group, and the tables follow from the plan.
func Make(ctx context.Context, t *topology.PodTree, s Settings) (*Result, error) {
	if len(t.Servers) == 0 {
		return nil, errors.New("the fabric has no server: there is nothing to exchange")
	}
	if err := s.MayPlan(t); err != nil {
		return nil, err
	}
	plan := ofAll
	if len(t.Exchanges) > 1 {
		plan = several
	}
	r, err := plan(ctx, t, s)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if !s.AtOnce {
		r.certify(ctx)
	}
	r.warn()
	return r, nil
}

// ofAll plans one exchange of all servers.
func ofAll(ctx context.Context, t *topology.PodTree, s Settings) (*Result, error) {
	r, last := kept(ctx, t, s)
	for _, plan := range []func() (*Result, error){
		func() (*Result, error) { return makePlan(ctx, t, pods.Make, true) },
		// Gaps among the leaves may spoil the shift, and tops that serve several planes
		// by parallel cables fixed tables; not so tables that follow the plan.
		func() (*Result, error) { return makePlan(ctx, t, pods.MakeBlocks, false) },
		func() (*Result, error) { return byRoutes(ctx, t) },
	} {
		if r != nil && last == nil || ctx.Err() != nil {
			break
		}
		if r, last = plan(); last == nil {
			last = r.finish(ctx)
		}
	}
	return r, last
}

// finerLimit is how many servers may have plans for more groups of a leaf tried than one,
// where that leaves a gap.
const finerLimit = 512

// makePlan plans, and gives the transfers their LIDs.
func makePlan(ctx context.Context, t *topology.PodTree, plan planFunc, mayPin bool) (*Result, error) {
	if lids(t) >= len(t.Lanes) && mayPin {
		start := time.Now()
		r := &Result{Tree: t, shape: Shape(t), LIDs: 1, fixed: true}
		var err error
		if r.Plan, err = plan(ctx, r.shape, pods.Singles); err != nil {
			return nil, err
		}
		if r.Plan.Engine == pods.Shift || r.pin() {
			r.Pinned = r.Plan.Engine != pods.Shift
			r.Times.Plan = time.Since(start)
			return r, nil
		}
	}
	return grouped(ctx, t, plan, nil)
}

// grouped plans for groups of senders, next to a plan for base LIDs if there is one.
func grouped(ctx context.Context, t *topology.PodTree, plan planFunc, base *Result) (*Result, error) {
	start := time.Now()
	shape, most := Shape(t), 0
	for a := range shape.Leaves {
		most = max(most, len(shape.Leaves[a].Slots))
	}
	var best *Result
	var last error
	for groups := 1; groups <= min(lids(t), most); groups *= 2 {
		r := &Result{Tree: t, shape: shape, LIDs: 1}
		var err error
		if r.Plan, err = plan(ctx, shape, (most+groups-1)/groups); err != nil {
			return nil, err
		}
		if r.fixed = r.Plan.Engine == pods.Shift; !r.fixed {
			last = r.address(ctx, base)
		}
		if last == nil && (best == nil || r.Plan.Phases() < best.Plan.Phases()) {
			best = r
		}
		if best != nil && (best.Plan.Gap() == 0 || len(t.Servers) > finerLimit) {
			break
		}
	}
	if best == nil {
		return nil, last
	}
	best.Times.Plan = time.Since(start)
	return best, nil
}

// certify raises the bound of a plan that is a block or more over it, if prices prove more.
func (r *Result) certify(ctx context.Context) {
	if r.Plan.Gap() < r.Plan.Group || len(r.Tree.Servers) > finerLimit {
		return
	}
	if bound := pods.PriceBound(ctx, r.shape, r.Plan.LowerBound); bound > r.Plan.LowerBound {
		r.Plan.LowerBound, r.Plan.Certificate = bound, fors.ByLP
	}
}

type planFunc func(ctx context.Context, t *pods.Tree, group int) (*pods.Plan, error)

// finish builds the tables, plans for base LIDs on them, and verifies all.
func (r *Result) finish(ctx context.Context) error {
	start := time.Now()
	if r.Tables == nil {
		var entries []iter.Seq[lft.Entry]
		if !r.fixed {
			entries = r.entries()
		}
		var err error
		if r.Tables, err = lft.BuildPods(ctx, r.Tree, entries); err != nil {
			return err
		}
	}
	r.Times.Tables = time.Since(start)
	if err := r.verify(ctx); err != nil {
		return err
	}
	base := r
	if r.LIDs > 1 {
		if base, r.noBase = r.on(ctx, r.Tables, 1, false); r.noBase == nil {
			r.noBase = base.Check(ctx, r.Tables)
		}
	}
	if r.noBase == nil {
		r.setBase(base)
	}
	return ctx.Err()
}
