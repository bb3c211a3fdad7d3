package daemon

import (
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/topology"
)

// BenchmarkPublish measures the failure path from a parsed dump to a published epoch on
// FT(2;20,18): recognise the tree, find the differences, plan and verify on the current
// tables and the next ones, publish, and make the epoch durable. Two cables die in turn,
// and a plan is ready for each: see prepare.
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
		stations["planned"] += d.state.Change().Since(d.state.Change().Planned)
		stations["verified"] += d.state.Change().Since(d.state.Change().Verified)
		stations["published"] += d.state.Change().Since(d.state.Change().Published)
		v.LetGo() // the next tables are made as for an unknown failure
	}
	for station, sum := range stations {
		b.ReportMetric(sum.Seconds()*1e3/float64(b.N), "ms-until-"+station)
	}
}

// BenchmarkSeen measures the part of BenchmarkPublish before planning.
func BenchmarkSeen(b *testing.B) {
	d := newDaemon(b)
	healthy := fabric(20, 18)
	d.bringUp(b, healthy)
	damaged := []*topology.Fabric{healthy, lacking(healthy, 20, 0, 3)}
	for i := 0; b.Loop(); i++ {
		d.see(b, damaged[i%2])
	}
}
