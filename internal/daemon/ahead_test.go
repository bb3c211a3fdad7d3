package daemon

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// ahead is the data to keep for a failure that was planned in advance.
type ahead struct {
	view   *view.View
	epoch  *store.Epoch
	tables *lft.Tables
}

// prepare does the work of makePlan and stage for a failure, on the tables in force.
func prepare(b testing.TB, d *Daemon, f *topology.Fabric) ahead {
	b.Helper()
	v, err := view.New(f, d.state.Now().Baseline, &config.Planning{})
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
	if a.epoch, err = store.NewEpoch(schedule.Table(d.store.Disk.Numbers.Next())); err != nil {
		b.Fatal(err)
	}
	a.epoch.Fabric, a.epoch.Report = v.ID, schedule.Report()
	return a
}

// singleFailures returns FT(2;20,18) without one of its 360 cables or 20 spines, by
// number.
func singleFailures(healthy *topology.Fabric) (count int, failed func(n int) *topology.Fabric) {
	const spines, leaves = 20, 18
	return leaves*spines + spines, func(n int) *topology.Fabric {
		if n < leaves*spines {
			return lacking(healthy, spines, n%leaves, n/leaves)
		}
		f := healthy.Clone()
		spine := f.Find(fabgen.SpineGUID + ib.GUID(n-leaves*spines))
		for p := range f.Nodes[spine].Ports {
			f.Disconnect(topology.PortRef{Node: spine, Port: uint8(p)})
		}
		return f
	}
}

// BenchmarkAhead measures the cost of keeping plans and tables ready for every failure of
// one cable or one spine of FT(2;20,18): the time for one of the 380 failures, and the
// memory for all. Any change makes all of them stale.
func BenchmarkAhead(b *testing.B) {
	d := newDaemon(b)
	healthy := fabric(20, 18)
	d.bringUp(b, healthy)
	count, failed := singleFailures(healthy)
	const measured = 20
	before := heap()
	var kept [measured]ahead
	for i := range kept {
		kept[i] = prepare(b, d, failed(i*(count-1)/(measured-1))) // the last failure is of a spine
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

// heap returns the number of bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep their contents for one collection
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// cpu returns the processor time that the process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPublishAhead is BenchmarkPublish with the plan, the tables, the verification
// and the encoded table prepared. It measures recognising the failure and making the
// epoch durable.
func BenchmarkPublishAhead(b *testing.B) {
	d := newDaemon(b)
	healthy := fabric(20, 18)
	d.bringUp(b, healthy)
	damaged := []*topology.Fabric{lacking(healthy, 20, 0, 3), lacking(healthy, 20, 7, 11)}
	ready := make(map[string]*phasetable.View)
	for _, f := range damaged {
		a := prepare(b, d, f)
		ready[a.view.ID] = a.epoch.Plan
	}
	for i := 0; b.Loop(); i++ {
		v := d.see(b, damaged[i%2])
		b.StopTimer()
		plan := state.Plan{Proposal: state.Known{Plan: ready[v.ID]}, About: store.EpochInfo{Fabric: v.ID, What: d.state.Now().WhatOf(v)}}
		b.StartTimer()
		if err := d.store.Publish(d.store.Disk.Numbers.Next(), plan); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAhead checks the benchmarks' assumption: the plan prepared for a failure is
// identical, byte by byte, to the one made when the failure happens.
func TestAhead(t *testing.T) {
	d := newDaemon(t)
	healthy := fabric(5, 4)
	d.bringUp(t, healthy)
	f := lacking(healthy, 5, 2, 1)
	a := prepare(t, d, f)
	v := d.see(t, f)
	d.planAndPublish(t, controller.Plan{Fabric: v.Snapshot()})
	if a.view.ID != v.ID || string(a.epoch.Plan.Bytes()) != string(d.state.Now().Epoch.Plan.Bytes()) {
		t.Errorf("prepared for fabric %s, seen %s; equal tables: %v", a.view.ID, v.ID, string(a.epoch.Plan.Bytes()) == string(d.state.Now().Epoch.Plan.Bytes()))
	}
}
