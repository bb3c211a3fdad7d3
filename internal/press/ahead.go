package press

import (
	"context"
	"runtime"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
)

// PrepareAhead makes the plans that the loss of one more cable would call for, before it
// happens: one answers for all cables that are alike. It works beside everything else, on
// what does not change any more, and collects what the change has left in memory: now
// rather than amid the next one. It ends when another fabric is seen, or with ctx.
func (p *Parts) PrepareAhead(ctx context.Context, v *view.View, held []controller.Lane) {
	if !p.ahead(ctx, v, held) {
		runtime.GC()
	}
}

// ahead makes the plans, and tells whether another fabric was seen meanwhile.
func (p *Parts) ahead(ctx context.Context, v *view.View, held []controller.Lane) (overtaken bool) {
	if v.Pods != nil {
		return false // its plans are made within the sweep
	}
	made, most := 0, p.Planning.Memory.Holds(len(v.Tree.Servers))
	for l := range v.Tree.Leaves {
		for k := range v.Tree.Lanes {
			if ctx.Err() != nil || p.Board.Latest().ID != v.ID {
				return true
			}
			if made == most {
				return false
			}
			next := append([]controller.Lane{{Leaf: l, Lane: k}}, held...)
			if v.Tree.LaneUp(l, k) && p.Planning.Memory.Prepare(ctx, v.Held(next), p.Planning) {
				made++
			}
		}
	}
	return false
}
