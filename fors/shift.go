package fors

import "context"

// PlanShift returns the linear shift d = (s+p) mod M0·M1 over the places of the tree
// (paper, section 2.2), with the places of absent servers empty, if there are at least M0
// clean lanes, those up at every leaf. The lane of a transfer is the clean lane number
// α(d): the M0 sources of a leaf reach M0 consecutive places and so M0 different lanes, and
// with every lane up it is lane α(d), which is the destination's base LID. It fails with
// ErrNotApplicable if the clean lanes do not suffice or a lane is closed to a destination.
func PlanShift(ctx context.Context, t *Tree) (*Plan, error) {
	sh := newShape(t)
	if !sh.shiftable(t) {
		return nil, ErrNotApplicable
	}
	p, err := sh.shift(ctx, Shift)
	if err != nil {
		return nil, err
	}
	p.Bounds = ComputeBounds(t)
	return p, nil
}

// shiftable reports whether there is one exchange, the clean lanes suffice for the shift and every server can be
// addressed on its lane.
func (sh *shape) shiftable(t *Tree) bool {
	if sh.divided || sh.reduction() > 0 {
		return false
	}
	if t.Closed == nil || sh.M1 <= 1 {
		return true
	}
	for place, d := range sh.at {
		if d != Idle && t.Closed(d, sh.clean[place%sh.M0]) {
			return false
		}
	}
	return true
}

// shift plans phases 1 to M0·M1−1 of the shift; in phase 0 every server would send to
// itself.
func (sh *shape) shift(ctx context.Context, engine Engine) (*Plan, error) {
	places := len(sh.at)
	plan := NewPlan(engine, sh.servers, max(0, places-1))
	lanes := make([]Lane, places) // [place of d]
	if sh.M1 > 1 {
		for place := range lanes {
			lanes[place] = sh.clean[place%sh.M0]
		}
	}
	for ph := 1; ph < places; ph++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to, lane := plan.Row(Phase(ph - 1))
		dst := ph
		for src, s := range sh.at {
			if d := sh.at[dst]; s != Idle && d != Idle {
				to[s] = d
				if src/sh.M0 != dst/sh.M0 {
					lane[s] = lanes[dst]
				}
			}
			if dst++; dst == places {
				dst = 0
			}
		}
	}
	plan.dropEmpty()
	return plan, nil
}
