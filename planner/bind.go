package planner

import (
	"fmt"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// forsTree converts the tree for the engines: the leaves that have servers, and the
// servers' indices α as slots. If bystanders push α beyond the lanes, the servers are
// numbered without gaps instead.
func forsTree(t *topology.FatTree) *fors.Tree {
	tree := &fors.Tree{Lanes: t.Lanes}
	if cabledTwice(t) {
		tree.Spine = t.LaneOf
	}
	last, dense := -1, false
	for _, i := range t.Servers {
		h := &t.Hosts[i]
		if h.Leaf != last {
			last = h.Leaf
			up := make([]bool, t.Lanes)
			for k := range up {
				up[k] = t.LaneUp(h.Leaf, k)
			}
			tree.Up = append(tree.Up, up)
			tree.Slots = append(tree.Slots, nil)
		}
		slots := &tree.Slots[len(tree.Slots)-1]
		*slots = append(*slots, h.Alpha)
		dense = dense || h.Alpha >= t.Lanes
	}
	if dense {
		for _, slots := range tree.Slots {
			for i := range slots {
				slots[i] = i
			}
		}
	}
	if len(t.Exchanges) > 1 {
		for _, i := range t.Servers {
			tree.Exchange = append(tree.Exchange, t.Hosts[i].Exchange)
		}
	}
	if closesLanes(t) {
		tree.Closed = func(d fors.Server, k fors.Lane) bool {
			_, open := t.DLID(&t.Hosts[t.Servers[d]], int(k))
			return !open
		}
	}
	return tree
}

// laneTree is forsTree for choosing lanes for base LIDs: every leaf is in one exchange, that of
// leafExchanges.
func laneTree(t *topology.FatTree) *fors.Tree {
	tree := forsTree(t)
	if of := leafExchanges(t); of != nil {
		for s, i := range t.Servers {
			tree.Exchange[s] = of[t.Hosts[i].Leaf]
		}
	} else {
		tree.Exchange = nil
	}
	return tree
}

// closesLanes reports whether some server has fewer LIDs than there are lanes, not counting
// LIDs without a lane.
func closesLanes(t *topology.FatTree) bool {
	for _, i := range t.Servers {
		if h := &t.Hosts[i]; 1<<h.LMC < t.Lanes || h.Moved && 1<<h.LMC == t.Lanes {
			return true
		}
	}
	return false
}

// bind gives every transfer its destination LID, and collects the warnings.
func bind(t *topology.FatTree, plan *fors.Plan, start time.Time) (*Schedule, error) {
	s, err := bindLanes(t, plan)
	if err != nil {
		return nil, err
	}
	s.finish(start)
	return s, nil
}

// bindLanes gives every transfer the LID of its destination for its lane.
func bindLanes(t *topology.FatTree, plan *fors.Plan) (*Schedule, error) {
	s, err := unbound(t, plan)
	if err != nil {
		return nil, err
	}
	dlid, width := dlids(t), t.Lanes+1
	for i, d := range plan.To {
		if d == fors.Idle {
			continue
		}
		lid := dlid[int(d)*width+int(plan.Lane[i])+1]
		if lid == 0 {
			return nil, fmt.Errorf("phase %d: lane %d is closed to %s, whose LMC is %d", i/plan.Servers, plan.Lane[i], t.Hosts[t.Servers[d]].Name, t.Hosts[t.Servers[d]].LMC)
		}
		s.Rows.DLID[i] = lid
	}
	s.LIDs, s.least, s.by = LaneLIDs, plan.LowerBound, plan.Certificate
	return s, nil
}

// bindGroups does the same for a plan that chooses LIDs by the group of the sender, from
// first on, and keeps the pins that its tables need.
func bindGroups(t *topology.FatTree, plan *fors.Grouped, first int, start time.Time) (*Schedule, error) {
	s, err := unbound(t, plan.Plan)
	if err != nil {
		return nil, err
	}
	base, group := make([]ib.LID, plan.Servers), make([]ib.LID, plan.Servers)
	for d, i := range t.Servers {
		base[d], group[d] = t.Hosts[i].LID, ib.LID(first+plan.Group[d])
	}
	for ph := range plan.Phases {
		to, lane := plan.Row(fors.Phase(ph))
		dlid := s.Rows.DLID[ph*plan.Servers:][:plan.Servers]
		for src, d := range to {
			switch {
			case d == fors.Idle:
			case lane[src] == fors.Local:
				dlid[src] = base[d]
			default:
				dlid[src] = base[d] + group[src]
			}
		}
	}
	s.LIDs, s.least, s.by, s.pins = LIDs(plan.LIDs), plan.LeastPhases, plan.LeastBy, pins(t, plan, first)
	s.finish(start)
	return s, nil
}

// unbound returns the schedule of a plan, without destination LIDs.
func unbound(t *topology.FatTree, plan *fors.Plan) (*Schedule, error) {
	if n := len(t.Servers); plan.Servers != n {
		return nil, fmt.Errorf("the plan has %d servers, the fabric %d", plan.Servers, n)
	}
	rows := verify.Rows{Phases: plan.Phases, To: make([]int32, len(plan.To)), Lane: make([]int16, len(plan.To)), DLID: make([]ib.LID, len(plan.To))}
	for i, d := range plan.To {
		rows.To[i], rows.Lane[i] = int32(d), int16(plan.Lane[i])
	}
	return &Schedule{Tree: t, Plan: plan, Rows: rows}, nil
}

// finish adds the warnings and stops the clock.
func (s *Schedule) finish(start time.Time) {
	s.warn()
	s.Took = time.Since(start)
}

// dlids tabulates the destination LIDs: [server][lane+1], the base LID for
// local transfers in column 0, zero where the lane is closed to the server.
func dlids(t *topology.FatTree) []ib.LID {
	width := t.Lanes + 1
	out := make([]ib.LID, len(t.Servers)*width)
	for s, i := range t.Servers {
		h := &t.Hosts[i]
		out[s*width] = h.LID
		for k := range t.Lanes {
			if lid, ok := t.DLID(h, k); ok {
				out[s*width+k+1] = lid
			}
		}
	}
	return out
}
