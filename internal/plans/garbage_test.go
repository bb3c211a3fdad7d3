package plans

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// TestGarbageIsPaced checks how far the heap may grow: by a fixed amount if little memory is in
// use, and otherwise by half of the live heap.
func TestGarbageIsPaced(t *testing.T) {
	paceGarbage()
	for _, inUse := range []uint64{1 << 20, 100 << 20} {
		kept := make([]byte, inUse)
		due, want := time.Now().Add(time.Minute), max(inUse/2, roomForGarbage)
		var goal uint64
		for time.Now().Before(due) {
			runtime.GC()
			read := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
			metrics.Read(read)
			if goal = read[0].Value.Uint64() - inUse; goal > want/3*2 && goal < want/2*3 {
				break
			}
			time.Sleep(time.Millisecond) // the percentage is set concurrently with the collection
		}
		if goal <= want/3*2 || goal >= want/2*3 {
			t.Errorf("with %d MB in use %d more may gather, want about %d", inUse>>20, goal>>20, want>>20)
		}
		runtime.KeepAlive(kept)
	}
}
