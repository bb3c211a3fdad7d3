package daemon

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// ahead is what planning a failure before it happens would have to keep.
type ahead struct {
	view   *view.View
	epoch  *store.Epoch
	tables *lft.Tables
}

// prepare does for a failure all that makePlan and stage do, on the tables in
// force.
func prepare(b testing.TB, d *Daemon, f *topology.Fabric) ahead {
	b.Helper()
	v, err := view.New(f, d.board.Baseline(), nil)
	if err != nil {
		b.Fatal(err)
	}
	r, err := v.Route(context.Background(), nil, d.planning)
	if err != nil {
		b.Fatal(err)
	}
	a := ahead{view: v, tables: r.Tables}
	schedule, err := planner.Plan(context.Background(), v.Tree, d.planning)
	if err != nil {
		b.Fatal(err)
	}
	if schedule, err = schedule.Verified(context.Background(), d.desk.InSwitches(), a.tables); err != nil {
		b.Fatal(err)
	}
	if a.epoch, err = store.NewEpoch(schedule.Table(d.store.Next())); err != nil {
		b.Fatal(err)
	}
	a.epoch.Fabric, a.epoch.Report = v.ID, schedule.Report()
	return a
}

// singleFailures lists FT(2;20,18) without each of its 360 cables and of its 20
// spines, by number.
func singleFailures(healthy *topology.Fabric) (count int, failed func(n int) *topology.Fabric) {
	const spines, leaves = 20, 18
	return leaves*spines + spines, func(n int) *topology.Fabric {
		if n < leaves*spines {
			return lacking(healthy, spines, n%leaves, n/leaves)
		}
		f := healthy.Clone()
		spine := f.Find(fabgen.SpineGUID + topology.GUID(n-leaves*spines))
		for p := range f.Nodes[spine].Ports {
			f.Disconnect(topology.PortRef{Node: spine, Port: uint8(p)})
		}
		return f
	}
}

// BenchmarkAhead is what it would cost to keep plans and tables ready for every
// failure of one cable or one spine of FT(2;20,18): the time for one of the 380,
// and the memory for all. All are stale as soon as anything changes.
func BenchmarkAhead(b *testing.B) {
	d := newDaemon(b)
	healthy := fabric(20, 18)
	d.bringUp(b, healthy)
	count, failed := singleFailures(healthy)
	const measured = 20
	before := heap()
	var kept [measured]ahead
	for i := range kept {
		kept[i] = prepare(b, d, failed(i*(count-1)/(measured-1))) // the last is a spine
	}
	each := float64(heap()-before) / measured
	runtime.KeepAlive(kept)
	clear(kept[:])
	start := cpu(b)
	for i := 0; b.Loop(); i++ {
		prepare(b, d, failed(i*7%count))
	}
	b.ReportMetric(float64((cpu(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(each*float64(count)/(1<<20), "MiB/all")
}

// heap is the number of bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold outlives one collection
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// cpu is the processor time that the process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPublishAhead is BenchmarkPublish with everything at hand that can be:
// plan, tables, verification and the encoded table. What is left is to recognise
// the failure and to make the epoch durable.
func BenchmarkPublishAhead(b *testing.B) {
	d := newDaemon(b)
	healthy := fabric(20, 18)
	d.bringUp(b, healthy)
	damaged := []*topology.Fabric{lacking(healthy, 20, 0, 3), lacking(healthy, 20, 7, 11)}
	ready := make(map[string]*phasetable.Table)
	for _, f := range damaged {
		a := prepare(b, d, f)
		ready[a.view.ID] = a.epoch.Plan.Table()
	}
	for i := 0; b.Loop(); i++ {
		v := d.see(b, damaged[i%2])
		b.StopTimer()
		table := ready[v.ID]
		table.Epoch = d.store.Next()
		e, err := store.NewEpoch(table)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := d.actions.press.Put(e, store.EpochInfo{Fabric: v.ID, What: d.board.WhatOf(v)}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAhead holds the benchmarks to their word: what was prepared for a failure is
// what is planned when it happens, to the byte.
func TestAhead(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(5, 4)
	d.bringUp(t, healthy)
	f := lacking(healthy, 5, 2, 1)
	a := prepare(t, d, f)
	v := d.see(t, f)
	d.planAndPublish(t, controller.Plan{Fabric: v.Snapshot()})
	if a.view.ID != v.ID || string(a.epoch.Plan.Bytes()) != string(d.board.Current().Plan.Bytes()) {
		t.Errorf("prepared for fabric %s, seen %s; equal tables: %v", a.view.ID, v.ID, string(a.epoch.Plan.Bytes()) == string(d.board.Current().Plan.Bytes()))
	}
}
