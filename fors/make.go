package fors

import "runtime"

// Make plans the complete exchange on a tree by the first engine that reaches
// the lower bound: the linear shift, section 4's algorithm, the exact planner.
// The first two leave the slots of absent servers empty, and may leave too few
// idle slots to same-leaf pairs. Where no engine reaches the bound, the shortest
// plan is taken, the earlier engine's among equals. The exact planner may prove a
// higher bound than ComputeBounds. It is left out where a living lane is closed to
// a server; the conservative engine takes its place there if none of the others
// comes within 1/32 of the bound. Make fails only for a tree whose dimensions or
// slots contradict each other, or that has no servers.
func Make(t *Tree) (*Plan, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	b := ComputeBounds(t)
	sh := newShape(t)
	p := sh.regular(t, b.Reduction)
	if p == nil || p.Phases > b.LowerBound {
		q, err := planExact(t, b, runtime.GOMAXPROCS(0))
		if err == nil {
			b = q.Bounds
		} else if p == nil || p.Phases > b.LowerBound+b.LowerBound/32 {
			q = planConservative(t, sh, b)
		}
		if p == nil || q != nil && q.Phases < p.Phases {
			p = q
		}
	}
	p.Bounds = b
	return p, nil
}

// regular plans by the shift or section 4's algorithm, nil where neither applies.
func (sh *shape) regular(t *Tree, f int) *Plan {
	if sh.shiftable(t) {
		return sh.shift(Shift)
	}
	p, _ := planAlgorithm(t, sh, f)
	return p
}

// PlanConservative returns a plan for any tree. It is conflict-free, serves
// every pair whose leaves share a usable lane and lists the others as
// unreachable, and may be longer than need be.
func PlanConservative(t *Tree) *Plan {
	b := ComputeBounds(t)
	p := planConservative(t, newShape(t), b)
	p.Bounds = b
	return p
}

// planConservative keeps to the clean lanes, f := M0 − |clean|, where that
// costs no more than some 3 % over the bound. Elsewhere it places the pairs by
// first fit, which is mostly within 2 to 5 % of the bound and takes some
// twenty times as long, and falls back to the clean lanes if they do better.
func planConservative(t *Tree, sh *shape, b Bounds) *Plan {
	if p := sh.onClean(t, b.LowerBound+b.LowerBound/32); p != nil {
		return p
	}
	p := firstFit(t, sh, b)
	if q := sh.onClean(t, p.Phases-1); q != nil && q.Phases < p.Phases {
		return q
	}
	return p
}

// onClean plans on the clean lanes: every affected lane is dead for everyone.
// It returns nil where they do not suffice, where one of them would be used
// though closed, or where the plan is going to have more phases than the limit.
func (sh *shape) onClean(t *Tree, limit int) *Plan {
	if sh.shiftable(t) && len(sh.at)-1 <= limit {
		return sh.shift(Conservative)
	}
	if sh.schedulable() && sh.leastPhases() <= limit {
		if p := sh.section4(Conservative); !p.usesClosed(t) {
			return p
		}
	}
	return nil
}
