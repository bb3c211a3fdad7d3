package fors

import (
	"context"
	"errors"
	"runtime"
)

// Make plans the complete exchange on a tree by the first engine that reaches the lower
// bound: the rotation, the linear shift, a repaired plan with the shift's lanes, the exact
// planner. Several exchanges are planned by the last two, or by Remaining if a leaf is in
// several. The shift leaves the slots of absent servers empty. If no engine reaches the bound,
// the shortest plan is taken, the earlier engine's among equals. The exact planner may prove a
// higher bound than ComputeBounds. It is left out if a living lane is closed to a server; the
// conservative engine then takes its place if none of the others comes within 1/32 of the bound.
// Make fails only if the tree's dimensions or slots are inconsistent or it has no servers, and
// with ctx.Err() soon after ctx ends.
func Make(ctx context.Context, t *Tree) (*Plan, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	if t.Mixed() {
		r, err := Remaining(ctx, t, t.Demand(), nil)
		if err != nil {
			return nil, err
		}
		return r.Plan, nil
	}
	b := ComputeBounds(t)
	sh := newShape(t)
	p, err := sh.regular(ctx, t, b)
	if err != nil && !errors.Is(err, ErrNotApplicable) {
		return nil, err
	}
	if p == nil || p.Phases > b.LowerBound {
		own, err := planSlotLanes(ctx, t, b)
		if !errors.Is(err, ErrNotApplicable) {
			return own, err
		}
		q, err := planExact(ctx, t, b, runtime.GOMAXPROCS(0))
		if err == nil {
			b = q.Bounds
		} else if p == nil || p.Phases > b.LowerBound+b.LowerBound/32 {
			q, _ = PlanConservative(ctx, t)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if p == nil || q != nil && q.Phases < p.Phases {
			p = q
		}
	}
	p.Bounds = b
	return p, nil
}

// regular plans by the rotation or the shift.
func (sh *shape) regular(ctx context.Context, t *Tree, b Bounds) (*Plan, error) {
	p, err := planRotation(ctx, t, b)
	if errors.Is(err, ErrNotApplicable) && sh.shiftable(t) {
		return sh.shift(ctx, Shift)
	}
	return p, err
}

// PlanConservative returns a conflict-free plan for any tree. It serves every pair whose
// leaves share a usable lane, lists the others as unreachable, and may be longer than
// necessary: pairs are packed into phases as Remaining packs them, or section 4's schedule goes on
// the clean lanes. It fails only when ctx ends.
func PlanConservative(ctx context.Context, t *Tree) (*Plan, error) {
	m, err := newMender(ctx, t, t.Demand(), NewPlan(Conservative, t.Servers(), 0), runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, err
	}
	r, err := m.remainder(ctx, []attempt{{plan: m.packAll}})
	if err != nil {
		return nil, err
	}
	p := r.Plan
	if sh := newShape(t); p.Gap() > 0 && sh.schedulable() {
		if q, err := sh.section4(ctx, t, Conservative); err == nil && q.Phases < p.Phases {
			p, q.Bounds = q, p.Bounds
		}
	}
	p.Engine = Conservative
	return p, ctx.Err()
}
