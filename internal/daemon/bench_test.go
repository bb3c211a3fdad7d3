package daemon

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/testbed/fabgen"
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
		stations["planned"] += d.state.Now().Change.Since(d.state.Now().Change.Planned)
		stations["verified"] += d.state.Now().Change.Since(d.state.Now().Change.Verified)
		stations["published"] += d.state.Now().Change.Since(d.state.Now().Change.Published)
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

// BenchmarkPublishPods measures the same on the 8-ary tree: until a plan for all LIDs is in force
// without new tables, or where none is possible, until one is that was verified on its tables. The
// processor time is that of all threads, the least of all rounds.
func BenchmarkPublishPods(b *testing.B) {
	for lmc := range uint8(5) {
		for _, part := range []string{"Leaf001/5", "Mid002/6", "Mid002", "Top001"} {
			b.Run(fmt.Sprintf("LMC=%d/%s", lmc, strings.ReplaceAll(part, "/", ":")), func(b *testing.B) {
				spec := fabgen.KAry(8)
				spec.LMC = lmc
				d, whole, _ := podsUp(b, spec)
				dead, least := failing(b, whole, part), time.Hour
				for b.Loop() {
					start := processorTime(b)
					v := d.see(b, dead).Stage(true)
					d.state.Remember(v)
					if e := d.actions.plans.Plan(b.Context(), controller.Plan{Fabric: v.Snapshot(), Avoid: v.Down}).(controller.Planned); e.Err != "" {
						d.toTables(b, v)
					} else if err := d.actions.plans.Publish(b.Context()); err != nil {
						b.Fatal(err)
					}
					least = min(least, processorTime(b)-start)
					b.StopTimer()
					d.toTables(b, d.see(b, whole))
					b.StartTimer()
				}
				b.ReportMetric(least.Seconds()*1e3, "least-cpu-ms")
			})
		}
	}
}

// toTables brings a fabric's tables into the switches and publishes the plan on them.
func (d *Daemon) toTables(b *testing.B, v *view.View) {
	tables, err := tablesOf(v)
	if err != nil {
		b.Fatal(err)
	}
	d.reads(b, v, tables)
}

// processorTime returns what all threads have used.
func processorTime(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
