package press

import (
	"context"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
)

// PrepareAhead makes the plans that the loss of one more cable would call for, before it
// happens: one answers for all cables that are alike. It works beside everything else, on
// what does not change any more. It ends when another fabric is seen, or with ctx.
func (p *Parts) PrepareAhead(ctx context.Context, v *view.View, held []controller.Lane) {
	made, most := 0, p.Planning.Memory.Holds(len(v.Tree.Servers))
	for l := range v.Tree.Leaves {
		for k := range v.Tree.Lanes {
			if ctx.Err() != nil || made == most || p.Board.Latest().ID != v.ID {
				return
			}
			next := append([]controller.Lane{{Leaf: l, Lane: k}}, held...)
			if v.Tree.LaneUp(l, k) && p.Planning.Memory.Prepare(ctx, v.Held(next), p.Planning) {
				made++
			}
		}
	}
}
