package pods

import (
	"context"
	"errors"

	"github.com/forsd/forsd/fors"
)

// leavesFirst plans single senders as on two levels, with planes for lanes, and then
// colours the tops: in a phase and on a plane pods send and receive at most as many
// transfers as they have leaves there, and as many tops that all pods share suffice
// (König). The plan is nil where a phase has more than these tops.
func (x *instance) leavesFirst(ctx context.Context, b Bounds) (*Plan, error) {
	if !x.byLeaves {
		return nil, nil
	}
	two, err := fors.PlanExact(ctx, x.twoLevels())
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, nil // pods first says why
	}
	p := &Plan{Engine: Leaves, Unreachable: two.Unreachable, Group: 1, Blocks: two.Phases, Base: x.base, First: x.base,
		To: make([]int32, len(two.To)), Way: make([]int16, len(two.To)), Bounds: b}
	if c := two.Bounds; c.LowerBound > p.LowerBound {
		p.LowerBound, p.Certificate = c.LowerBound, c.Certificate
	}
	for i, d := range two.To {
		p.To[i], p.Way[i] = int32(d), int16(two.Lane[i])
	}
	shared := make([][]int16, x.Planes()) // lanes that live at all pods that use the plane
	for j := range shared {
		used := make([]bool, x.Pods)
		for a := range x.Leaves {
			used[x.Leaves[a].Pod] = used[x.Leaves[a].Pod] || x.Leaves[a].Up[j]
		}
		for k := x.First[j]; k < x.First[j+1]; k++ {
			all := true
			for q := range x.Pods {
				all = all && (!used[q] || x.laneUp(q, k))
			}
			if all {
				shared[j] = append(shared[j], int16(k))
			}
		}
	}
	errs := x.each(ctx, nil, nil, p.Blocks, func(w *seater, ctx context.Context, phase int) error {
		return w.colourTops(ctx, p, phase, shared)
	})
	if errors.Is(errs, errSeats) {
		return nil, nil
	}
	return p, errs
}

// toldLater minus a lane stands for the lane while other transfers have planes.
const toldLater = -2

// colourTops gives the transfers of a phase their lanes, of which they have the plane.
func (w *seater) colourTops(ctx context.Context, p *Plan, phase int, shared [][]int16) error {
	servers := len(w.homeOf)
	to, way := p.To[phase*servers:][:servers], p.Way[phase*servers:][:servers]
	for j, lanes := range shared {
		degree := len(lanes)
		rows := w.seating.Rows[:0]
		w.order = w.order[:0]
		for range w.Pods * degree {
			rows = append(rows, -1)
		}
		out, in := make([]int, w.Pods), make([]int, w.Pods)
		for s, d := range to {
			if d == Idle || int(way[s]) != j {
				continue
			}
			a, b := w.Leaves[w.homeOf[s]].Pod, w.Leaves[w.homeOf[d]].Pod
			if a == b {
				continue
			}
			if out[a] == degree || in[b] == degree {
				return errSeats
			}
			rows[a*degree+out[a]] = int32(b)
			w.order = append(w.order, int32(s), int32(a*degree+out[a]))
			out[a]++
			in[b]++
		}
		if len(w.order) == 0 {
			continue
		}
		w.seating.Rows = rows
		if err := w.seating.Colour(ctx, degree, 0); err != nil {
			return err
		}
		for i := 0; i < len(w.order); i += 2 {
			way[w.order[i]] = toldLater - lanes[w.seating.Seat[w.order[i+1]]]
		}
	}
	lanes := int16(w.Lanes())
	for s, d := range to {
		switch {
		case d == Idle:
		case way[s] <= toldLater:
			way[s] = toldLater - way[s]
		case way[s] >= 0:
			way[s] += lanes
		}
	}
	return nil
}
