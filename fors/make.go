package fors

// Make plans the complete exchange on a tree by the first engine that applies:
// the linear shift, section 4's algorithm, the conservative fallback. It fails
// only for a tree whose dimensions or slots contradict each other, or that has
// no servers.
func Make(t *Tree) (*Plan, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	b := ComputeBounds(t)
	sh := newShape(t)
	var p *Plan
	if sh.shiftable(t) {
		p = sh.shift(Shift)
	} else if q, ok := planAlgorithm(t, sh, b.Reduction); ok {
		p = q
	} else {
		p = planConservative(t, sh, b)
	}
	p.Bounds = b
	return p, nil
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

// planConservative treats every affected lane as dead for everyone, f := m, and
// where that is impossible, or costs more than some 3 % over the bound, places
// the pairs by first fit and returns the shorter plan. First fit is usually
// within 2 to 6 % of the bound, but takes 10 to 50 times as long.
func planConservative(t *Tree, sh *shape, b Bounds) *Plan {
	var p *Plan
	if sh.shiftable(t) {
		p = sh.shift(Conservative)
	} else if sh.schedulable() {
		if p = sh.section4(Conservative); p.usesClosed(t) {
			p = nil
		}
	}
	if p != nil && p.Phases <= b.LowerBound+b.LowerBound/32 {
		return p
	}
	if q := firstFit(t, sh, b); p == nil || q.Phases < p.Phases {
		p = q
	}
	return p
}
