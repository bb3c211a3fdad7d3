package fors

import "context"

// PlanAlgorithm returns the schedule of section 4 on the clean lanes, those up at every
// leaf, with Algorithm 2 for the routing and same-leaf transfers in idle slots. It fails
// with ErrNotApplicable if treating the other lanes as dead for all leaves costs bandwidth,
// M0 − |clean| > f (the paper's precondition m ≤ f for K = M0 lanes), if no lane is clean,
// and if the plan would use a lane that is closed to a destination.
func PlanAlgorithm(ctx context.Context, t *Tree) (*Plan, error) {
	b, sh := ComputeBounds(t), newShape(t)
	if sh.reduction() > b.Reduction || !sh.schedulable() {
		return nil, ErrNotApplicable
	}
	p, err := sh.section4(ctx, t, Algorithm)
	if err != nil {
		return nil, err
	}
	p.Bounds = b
	return p, nil
}

// schedulable reports whether section 4 applies to the tree: one exchange, f < M0.
func (sh *shape) schedulable() bool { return !sh.divided && sh.M0 > 0 && sh.reduction() < sh.M0 }

// usesClosed reports whether a transfer takes a lane that is closed to its destination.
func (p *Plan) usesClosed(t *Tree) bool {
	if t.Closed == nil {
		return false
	}
	for i, d := range p.To {
		if k := p.Lane[i]; k != Local && t.Closed(d, k) {
			return true
		}
	}
	return false
}

// section4 plans for f = M0 − |clean|: max(P_f, P−1) phases, or a few more if the same-leaf
// pairs need them. It fails with ErrNotApplicable if the plan would use a closed lane.
func (sh *shape) section4(ctx context.Context, t *Tree, engine Engine) (*Plan, error) {
	sc := newSchedule(sh.M0, sh.M1, sh.reduction())
	local, phases, err := packLocal(ctx, sc)
	if err != nil {
		return nil, err
	}
	plan := NewPlan(engine, sh.servers, phases)
	for p := range phases {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to, lane := plan.Row(Phase(p))
		if p < sc.phases {
			sh.sendRemote(sc.row(p), to, lane)
		}
		sh.sendLocal(local[p*sh.M0:(p+1)*sh.M0], to)
	}
	plan.dropEmpty()
	if plan.usesClosed(t) {
		return nil, ErrNotApplicable
	}
	return plan, nil
}

// sendRemote writes the inter-leaf transfers of a phase. The spine of a transfer is S_i,
// where i is its rank among the transfers of its source leaf. In the listing of Algorithm
// 2, i continues over the leaves of a phase, so that a leaf's transfers may start anywhere
// in S; in a phase that is not full, two of them may then meet at a destination leaf, as
// for FT(2;20,18), f = 1. Starting at 0 for each leaf gives all sources of one α the same
// spine, and a destination leaf receives from each α of one leaf only.
func (sh *shape) sendRemote(dest []int32, to []Server, lane []Lane) {
	i := 0
	for α, code := range dest {
		if code < 0 {
			continue
		}
		S_i := sh.clean[i]
		i++
		// d(s,p) = (D_leaf·M0 + D_server + (γ_s+1)·M0) mod P.
		d := int(code) + sh.M0
		for src := α; src < len(sh.at); src += sh.M0 {
			if d >= len(sh.at) {
				d -= len(sh.at)
			}
			if s := sh.at[src]; s != Idle && sh.at[d] != Idle {
				to[s], lane[s] = sh.at[d], S_i
			}
			d += sh.M0
		}
	}
}

// sendLocal writes the same-leaf transfers of a phase, α to local[α], on every leaf.
func (sh *shape) sendLocal(local []int16, to []Server) {
	for α, β := range local {
		if β < 0 {
			continue
		}
		for first := 0; first < len(sh.at); first += sh.M0 {
			if s, d := sh.at[first+α], sh.at[first+int(β)]; s != Idle && d != Idle {
				to[s] = d
			}
		}
	}
}
