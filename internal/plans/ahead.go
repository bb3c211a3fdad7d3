package plans

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
)

// PrepareAhead makes the plans for the loss of one more cable in advance; one plan serves
// all equivalent cables. It uses immutable data only, runs concurrently with everything
// else, and first frees the garbage of the last change. It ends when another fabric is seen
// or ctx is done. On three levels it makes a new plan instead, and returns the view for
// that plan if its gain exceeds its cost.
func (p *Parts) PrepareAhead(ctx context.Context, v *view.View, held []controller.Lane) (better *view.View) {
	latest := func() bool { return p.State.Now().Latest.ID == v.ID }
	ended := v.TwoLevels() == nil
	if !ended {
		_, ended = p.Planning.Memory.PrepareLosses(ctx, v.Held(held), p.Planning, latest)
	} else if v.AtOnce {
		better, _ = v.Better(ctx, held, p.Planning) // without it the plan made at once stays
	}
	if ended {
		collect()
	}
	return better
}

// Release collects garbage while the daemon is idle. If half of the clients have left, it
// also returns their memory to the system, which stops all allocation for the time.
func Release() {
	if int64(runtime.NumGoroutine()) < served.Load()/2 {
		debug.FreeOSMemory()
	} else {
		collect()
	}
}

// roomForGarbage is how much garbage, in bytes, may accumulate before a collection; half of
// the live heap if that is more. A small heap is collected rarely, since a collection
// during a failure costs more than memory; with thousands of clients the heap does not grow
// to a multiple of the live data.
const roomForGarbage = 24 << 20

// SetUp sets up the process for planning. While a plan and a collection keep all processors
// busy, goroutines that are due otherwise wait for Go's time slices of 10 ms: with one thread
// more, the kernel's shorter ones apply.
func SetUp() {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	paceGarbage()
}

// paceGarbage applies roomForGarbage from now on: after each collection it sets the GC
// percentage for the next one.
func paceGarbage() {
	percent := 100
	var next func(**int)
	next = func(marker **int) {
		read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
		metrics.Read(read)
		live := read[0].Value.Uint64()
		all := live + read[1].Value.Uint64() + read[2].Value.Uint64() // base of the GC percentage, at least 4 MB
		if p := int(100 * max(roomForGarbage, live/2) / max(4<<20, all)); p < percent/5*4 || p > percent/4*5 {
			percent = p
			debug.SetGCPercent(p)
		}
		served.Store(int64(runtime.NumGoroutine()))
		runtime.SetFinalizer(marker, next)
	}
	next(new(*int)) // garbage at once, and again after each collection
}

// served is the number of goroutines at the last collection: each client has one or two.
var served atomic.Int64

// collect runs a collection if a quarter of the allowed garbage has accumulated, so that it
// does not run during the next change. Running one after every change would take long with
// thousands of watching clients, whose memory must be scanned.
func collect() {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"}}
	metrics.Read(heap)
	live, now, goal := heap[0].Value.Uint64(), heap[1].Value.Uint64(), heap[2].Value.Uint64()
	if now > live+(goal-live)/4 {
		runtime.GC()
	}
}
