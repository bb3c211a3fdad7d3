package podplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
)

// worth is the part of a plan's phases by which another one must be shorter before the
// servers' LIDs and the tables change for it.
const worth = 32

// kept plans a damaged tree on which the linear shift goes while it is whole. Base LIDs keep
// their ways as far as these live, and carry a plan: the shift, in which the units that have
// lost their ways go elsewhere. If servers have an LID for each lane, a plan for single senders
// goes by these, and no table changes for it. Otherwise a new plan has entries of its own for
// the LIDs after the base LID, if it is shorter by one part in 32. So plans and tables depend
// on the tree alone, and not on the order in which its parts have failed. It is nil if such a
// tree has no shift, or if nothing has failed and the shift is as short: it may be longer, because
// it has phases for hosts that are missing.
func kept(ctx context.Context, t *topology.PodTree, s Settings) (*Result, error) {
	start := time.Now()
	shape := Shape(t)
	if shifts := shape.Shifts(); !shifts && shape.Places == 0 || shifts && !shape.Damaged() && !pods.Ragged(shape) {
		return nil, nil
	}
	ground := newGround(t, shape)
	shift := pods.LinearShift(shape, ground.Plan.Bounds)
	if shift != nil && !over(shift, shift.LowerBound) {
		return nil, nil
	}
	tables, w, err := ground.spread(ctx, 1)
	if err != nil {
		return nil, err
	}
	built := time.Since(start)
	have := lids(t)
	pinned := make(chan made, 1)
	if have >= len(t.Lanes) {
		go func() {
			r, err := makePlan(ctx, t, pods.Make, true)
			pinned <- made{r, err}
		}()
	}
	base, err := ground.on(ctx, tables, 1, false)
	if err != nil {
		return nil, err
	}
	if shift != nil && shift.Phases() <= base.Plan.Phases() {
		return nil, nil
	}
	base.moved = w.moved()
	r := base
	switch {
	case have >= len(t.Lanes):
		if p := <-pinned; p.err != nil {
			return nil, p.err
		} else if p.Pinned {
			r = p.Result
			r.Tables = tables
			if err := tables.Pin(ctx, t.Fabric, w.trade(r)); err != nil {
				return nil, err
			}
		}
	case have > 1 && base.Plan.Gap() > 0:
		if base.later = s.AtOnce; !s.AtOnce {
			if fresh, err := renew(ctx, base); err != nil {
				return nil, err
			} else if fresh != nil {
				r = fresh
			}
		}
	}
	r.Times.Tables = built
	r.setBase(base)
	return r, r.verify(ctx)
}

// errInTheWay means that the ways of a tree's base LIDs are not spread.
var errInTheWay = errors.New("the ways of base LIDs stand in each other's way")

// spread builds tables with the ways of base LIDs spread over the cables, and so of as many LIDs as
// given: a cable that the first ones fill is left to others.
func (r *Result) spread(ctx context.Context, lids int) (*lft.Tables, *baseWays, error) {
	tables, err := lft.BuildPods(ctx, r.Tree, nil)
	if err != nil {
		return nil, nil, err
	}
	bound := r.Plan.Bounds
	if len(r.Tree.Exchanges) > 1 {
		bound = pods.OneLID(r.shape, bound)
	}
	var base *baseWays
	var load []int32
	for offset := range lids {
		w := newBaseWays(r, tables, offset)
		for i, n := range load {
			w.load[i] += n
		}
		if w.fair = int32(max(bound.LowerBound, (offset+1)*r.Plan.LowerBound)); !w.spread() {
			if offset > 0 {
				break // the others keep the ways of tables without a plan
			}
			return nil, nil, errInTheWay
		}
		if err := tables.Pin(ctx, r.Tree.Fabric, w.pins()); err != nil {
			return nil, nil, err
		}
		if load = w.load; offset == 0 {
			base, load = w, slices.Clone(w.load)
		}
	}
	return tables, base, nil
}

// several plans several exchanges at the same time, on tables with the ways of base LIDs spread for
// them, or on those without a plan if that fails: by base LIDs, and by all LIDs if that is shorter.
func several(ctx context.Context, t *topology.PodTree, _ Settings) (*Result, error) {
	start := time.Now()
	if n := len(t.Servers); n > singlesLimit {
		return nil, fmt.Errorf("several exchanges are planned for at most %d servers on three levels: there are %d", singlesLimit, n)
	}
	ground, have := newGround(t, Shape(t)), lids(t)
	spread := 1 // if there is an LID for each lane
	if have < len(t.Lanes) {
		have = min(have, EnoughLIDs)
		spread = have
	}
	tables, w, err := ground.spread(ctx, spread)
	if errors.Is(err, errInTheWay) {
		tables, err = lft.BuildPods(ctx, t, nil)
	}
	if err != nil {
		return nil, err
	}
	built := time.Since(start)
	base, noBase := ground.on(ctx, tables, 1, false)
	r, err := base, noBase
	if have > 1 && (noBase != nil || base.Plan.Gap() > 0) {
		if all, failed := ground.on(ctx, tables, have, true); failed == nil && (noBase != nil || all.Plan.Phases() < base.Plan.Phases()) {
			r, err = all, nil
		}
	}
	if err != nil {
		return nil, err
	}
	r.Times.Tables, r.Times.Plan = built, time.Since(start)-built
	if r.noBase = noBase; noBase == nil {
		if w != nil {
			base.moved = w.moved()
		}
		r.setBase(base)
	}
	return r, r.verify(ctx)
}

// renew makes a new plan next to one for base LIDs: of a small tree for single senders by all LIDs on
// the same tables, or with tables of its own; nil if it is not worth that.
func renew(ctx context.Context, r *Result) (*Result, error) {
	if bySingles(r) && len(r.Tree.Servers) <= finerLimit {
		all, err := r.on(ctx, r.Tables, min(lids(r.Tree), EnoughLIDs), true)
		if err != nil || r.Plan.Phases()-all.Plan.Phases() > all.Plan.LowerBound/enough {
			return all, err
		}
	}
	if !over(r.Plan, r.Plan.LowerBound) {
		return nil, nil
	}
	fresh, err := grouped(ctx, r.Tree, pods.MakeBlocks, r)
	if err != nil || !over(r.Plan, fresh.Plan.Phases()) {
		return nil, ctx.Err()
	}
	fresh.Tables = r.Tables.Clone()
	return fresh, fresh.Tables.Pin(ctx, r.Tree.Fabric, fresh.entries())
}

// Better makes the new plan after r that Settings.AtOnce has left out; nil if it is not worth its tables.
func Better(ctx context.Context, r *Result) (*Result, error) {
	if !r.later {
		return nil, nil
	}
	base := *r
	base.Base, base.Warnings = nil, nil
	fresh, err := renew(ctx, &base)
	if fresh == nil || err != nil {
		return nil, err
	}
	fresh.setBase(&base)
	if err := fresh.verify(ctx); err != nil {
		return nil, err
	}
	fresh.certify(ctx)
	fresh.warn()
	return fresh, nil
}

// made is a plan, or why there is none.
type made struct {
	*Result
	err error
}

// over reports if a plan has so many more phases that another one is worth it.
func over(p *pods.Plan, phases int) bool { return p.Phases()-phases > phases/worth }

// newGround returns a result with the bounds of a tree and no plan yet.
func newGround(t *topology.PodTree, shape *pods.Tree) *Result {
	r := &Result{Tree: t, shape: shape}
	r.Plan = r.frame()
	r.Plan.Bounds, r.Plan.Unreachable = pods.ComputeBounds(shape), pods.Unreachable(shape)
	return r
}

// setBase gives the result its plan for base LIDs, under the bound of plans for base LIDs.
func (r *Result) setBase(base *Result) {
	own, plan := *base, *base.Plan
	own.Tables = r.Tables
	plan.Bounds = pods.OneLID(r.shape, plan.Bounds)
	r.Load = phasetable.Load{BusiestCable: r.Tables.Busiest(r.Tree.Exchange()).Transfers, FairShare: plan.LowerBound}
	own.Plan, own.Base = &plan, nil
	r.Base = &own
}
