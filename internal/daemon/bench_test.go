package daemon

import (
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/topology"
)

// BenchmarkPublish is the failure path from a parsed dump to a published epoch
// on FT(2;20,18): recognise the tree, tell the differences, plan and verify on
// the tables in force and those that are to follow, publish, make the epoch durable.
// Two cables die by turns, for which a plan is ready: see prepare.
func BenchmarkPublish(b *testing.B) {
	d := newDaemon(b)
	healthy := fabric(20, 18)
	d.bringUp(b, healthy)
	damaged := []*topology.Fabric{lacking(healthy, 20, 0, 3), lacking(healthy, 20, 7, 11)}
	b.ReportAllocs()
	stations := map[string]time.Duration{}
	for i := 0; b.Loop(); i++ {
		v := d.see(b, damaged[i%2])
		d.planAndPublish(b, controller.Plan{Fabric: v.Snapshot()})
		stations["planned"] += d.board.Change().Since(d.board.Change().Planned)
		stations["verified"] += d.board.Change().Since(d.board.Change().Verified)
		stations["published"] += d.board.Change().Since(d.board.Change().Published)
		v.LetGo() // the next tables are made as for a failure never seen before
	}
	for station, sum := range stations {
		b.ReportMetric(sum.Seconds()*1e3/float64(b.N), "ms-until-"+station)
	}
}

// BenchmarkSeen is the part of it before planning.
func BenchmarkSeen(b *testing.B) {
	d := newDaemon(b)
	healthy := fabric(20, 18)
	d.bringUp(b, healthy)
	damaged := []*topology.Fabric{healthy, lacking(healthy, 20, 0, 3)}
	for i := 0; b.Loop(); i++ {
		d.see(b, damaged[i%2])
	}
}
