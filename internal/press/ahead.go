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
// rather than amid the next one. It ends when another fabric is seen, or with ctx. Plans on
// three levels are made within the sweep.
func (p *Parts) PrepareAhead(ctx context.Context, v *view.View, held []controller.Lane) {
	latest := func() bool { return p.Board.Latest().ID == v.ID }
	ended := v.Pods != nil
	if !ended {
		_, ended = p.Planning.Memory.PrepareLosses(ctx, v.Held(held), p.Planning, latest)
	}
	if ended {
		runtime.GC()
	}
}
