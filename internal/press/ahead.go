package press

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
)

// PrepareAhead makes the plans that the loss of one more cable would call for, before it
// happens: one answers for all cables that are alike. It runs in parallel to everything else, on
// what does not change any more, and collects what the change has left in memory: now
// rather than during the next one. It ends when another fabric is seen, or with ctx. On three
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
		collect()
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

// Release collects garbage while nothing happens. Where half of the clients have left, their memory,
// which passes for live since, goes back to the system at once, which holds up all that takes memory.
func Release() {
	if int64(runtime.NumGoroutine()) < served.Load()/2 {
		debug.FreeOSMemory()
	} else {
		collect()
	}
}

// roomForGarbage may gather before the heap is collected, or half of what is in use where that is
// more. A small heap is collected seldom, since a collection during a failure costs more than
// memory; with thousands of clients, who are in use, it does not grow to a multiple of them.
const roomForGarbage = 32 << 20

// PaceGarbage has the process collect garbage by roomForGarbage from now on: after each collection
// it sets when the next one is due.
func PaceGarbage() {
	percent := 100
	var next func(**int)
	next = func(marker **int) {
		read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
		metrics.Read(read)
		live := read[0].Value.Uint64()
		all := live + read[1].Value.Uint64() + read[2].Value.Uint64() // what a percentage is of, 4 MB at least
		if p := int(100 * max(roomForGarbage, live/2) / max(4<<20, all)); p < percent/5*4 || p > percent/4*5 {
			percent = p
			debug.SetGCPercent(p)
		}
		served.Store(int64(runtime.NumGoroutine()))
		runtime.SetFinalizer(marker, next)
	}
	next(new(*int)) // an object that is garbage at once, and again after each collection
}

// served is how many goroutines there were at the last collection: clients have one or two each.
var served atomic.Int64

// collect collects garbage where a quarter of what may gather has: now, and not during the next
// change. After each change it would take long with thousands of watchers, whose memory is looked
// through.
func collect() {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"}}
	metrics.Read(heap)
	live, now, goal := heap[0].Value.Uint64(), heap[1].Value.Uint64(), heap[2].Value.Uint64()
	if now > live+(goal-live)/4 {
		runtime.GC()
	}
}
