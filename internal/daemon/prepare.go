package daemon

import (
	"context"

	"github.com/forsd/forsd/controller"
)

// prepare makes the plans ahead, beside the loop, that the loss of one more cable would
// call for: one answers for all cables that are alike. A change that comes meanwhile
// ends it, and so does the end of ctx.
func (d *Daemon) prepare(ctx context.Context) {
	v := d.board.Latest()
	held := d.board.HeldBack()
	if v == nil || v.Tree == nil {
		return
	}
	d.work.Go(func() {
		made, most := 0, d.press.memory.Holds(len(v.Tree.Servers))
		for l := range v.Tree.Leaves {
			for k := range v.Tree.Lanes {
				if ctx.Err() != nil || made == most || d.board.Latest().ID != v.ID {
					return
				}
				next := append([]controller.Lane{{Leaf: l, Lane: k}}, held...)
				if v.Tree.LaneUp(l, k) && d.press.memory.Prepare(ctx, v.Held(next), d.press.planning()) {
					made++
				}
			}
		}
	})
}
