package press

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
)

// PrepareAhead makes the plans that the loss of one more cable would call for, before it
// happens: one answers for all cables that are alike. It works beside everything else, on
// what does not change any more, and collects what the change has left in memory: now
// rather than amid the next one. It ends when another fabric is seen, or with ctx. On three
// levels it makes a new plan in its place, and returns the view for that if it gains more than
// it costs.
func (p *Parts) PrepareAhead(ctx context.Context, v *view.View, held []controller.Lane) (better *view.View) {
	latest := func() bool { return p.Board.Latest().ID == v.ID }
	ended := v.Pods != nil
	if !ended {
		_, ended = p.Planning.Memory.PrepareLosses(ctx, v.Held(held), p.Planning, latest)
	} else if v.AtOnce {
		better = p.better(ctx, v, held)
	}
	if ended {
		collect(runtime.GC)
	}
	return better
}

// better is the view for a new plan, nil if that is the one made at once.
func (p *Parts) better(ctx context.Context, v *view.View, held []controller.Lane) *view.View {
	full := v.Stage(false)
	now, err := v.Route(ctx, held, p.Planning)
	fresh, failed := full.Route(ctx, held, p.Planning)
	if err != nil || failed != nil || lft.Changes(now.Tables, fresh.Tables).Entries == 0 {
		return nil
	}
	full.Why = fmt.Sprintf("a new plan has %d phases, and tables of its own", fresh.Plan.Report().Phases)
	return full
}

// Release gives memory back to the system that clients have left, which is garbage while nothing
// happens.
func Release() { collect(debug.FreeOSMemory) }

// collect collects garbage where a quarter of what may gather has: now, and not amid the next
// change. To do so after each change would take long beside thousands of watchers, whose
// memory is looked through.
func collect(by func()) {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"}}
	metrics.Read(heap)
	live, now, goal := heap[0].Value.Uint64(), heap[1].Value.Uint64(), heap[2].Value.Uint64()
	if now > live+(goal-live)/4 {
		by()
	}
}
