package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// told shows a fabric to the daemon immediately, as OpenSM's dump. Later sweeps show it
// as well.
func (s *site) told(f *topology.Fabric) {
	s.t.Helper()
	ok(s.t, os.WriteFile(filepath.Join(s.dir, "fabric.lst"), fabgen.SubnetLst(f), 0o644))
	ok(s.t, s.inbox.call(s.ctx, func(_ context.Context, _ *loop) { s.dumpSeen(s.ctx, dump(f)) }))
}

// planned waits until a plan for the last fabric seen is published.
func (s *site) planned() {
	s.t.Helper()
	for {
		if e, v := s.state.Now().Epoch, s.state.Now().Latest; e != nil && e.Fabric == v.ID {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-s.ctx.Done():
			s.t.Fatal("there is no plan")
		}
	}
}

// after measures the time until next has a plan. The daemon is at rest on healthy before,
// and the given function starts other work.
func after(t *testing.T, healthy, next *topology.Fabric, amid func(*site), set ...func(*Daemon)) time.Duration {
	t.Helper()
	s := running(t, healthy, set...)
	s.settles(func(e *store.Epoch, v *view.View) bool { return e.Fabric == v.ID })
	amid(s)
	began := time.Now()
	s.told(next)
	s.planned()
	took := time.Since(began)
	s.cancel()
	ok(t, <-s.ended)
	return took
}

// median returns the median of some durations.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// lackingSome returns the fabric without some cables, each at a different leaf.
func lackingSome(f *topology.Fabric, spines, leaves, first, n int) *topology.Fabric {
	for i := range n {
		f = lacking(f, spines, (first+i)%leaves, (5*i+first)%spines)
	}
	return f
}

// TestJobsOvertaken lets a new fabric overtake the planning of jobs, which follows the
// fabric's plan and the order of its tables. These stay in force, the jobs keep their
// plans, and nothing fails.
func TestJobsOvertaken(t *testing.T) {
	healthy := fabric(4, 4)
	s := running(t, healthy)
	_, err := backend.Jobs{Parts: &s.Daemon.backend.Parts}.CreateJob(s.ctx, api.JobRequest{Name: "a", Hosts: names(0, 6), LeaseSeconds: 600})
	ok(t, err)
	before, overtaken := s.state.Now().Jobs[0], lackingSome(healthy, 4, 4, 1, 2)
	ok(t, s.inbox.between(s.ctx, func(_ context.Context, _ turn) {
		v := s.see(t, overtaken)
		if e := s.actions.carryOut(s.ctx, s.ctx, controller.Plan{Fabric: v.Snapshot()}).(controller.Planned); e.Err != "" {
			t.Error(e.Err)
		}
		gone, cancel := context.WithCancel(s.ctx)
		cancel()
		published := s.actions.carryOut(s.ctx, gone, controller.Publish{Fabric: v.Snapshot()}).(controller.Published)
		written := s.actions.carryOut(s.ctx, gone, controller.Write{Fabric: v.Snapshot()}).(controller.Written)
		signalled := s.actions.carryOut(s.ctx, gone, controller.Signal{}).(controller.Signalled)
		if published.Err != "" || written.Err != "" || !written.Changed || signalled.Err != "" || s.state.Now().Epoch.Fabric != v.ID || s.state.Now().Jobs[0] != before {
			t.Errorf("%v, %v, %v; the plan in force is for %s, that of the job is %d, and was %d", published, written, signalled, s.state.Now().Epoch.Fabric, s.state.Now().Jobs[0].Epoch, before.Epoch)
		}
	}))
}

// TestJobsWithoutTables fails the writing of the tables after a failure of a cable, or
// removes the manager. The jobs avoid the dead cable nevertheless.
func TestJobsWithoutTables(t *testing.T) {
	healthy := fabric(4, 4)
	for _, refuse := range []func(d *Daemon){
		func(d *Daemon) { ok(t, os.Remove(d.cfg.OpenSM.LFTsFile), os.Mkdir(d.cfg.OpenSM.LFTsFile, 0o755)) },
		func(d *Daemon) { d.manager.Finder = nobody{} },
	} {
		d := readable(newDaemon(t))
		d.atRest(t, healthy)
		j := d.make(t, "a", names(0, 7))
		old := d.desk.InSwitches()
		refuse(d)
		d.dumpSeen(t.Context(), dump(lacking(healthy, 4, 0, 2)))
		for d.core.Busy() {
			d.step(t.Context(), d.next(t.Context(), t))
		}
		if now := d.job(t, "a"); d.core.State() != controller.Backoff || now.Epoch <= j.Epoch {
			t.Errorf("in state %s the job has epoch %d, as before", d.core.State(), now.Epoch)
		} else {
			holds(t, d.state.Now().Latest, now, old)
		}
	}
}

// nobody is a finder that finds no manager.
type nobody struct{}

func (nobody) Find(context.Context) (opensm.Process, error) {
	return opensm.Process{}, errors.New("there is none")
}

// TestFailureWhileOthersCompute lets cables die while clients request what-ifs without
// pause. These delay the plan only by their share of the processors.
func TestFailureWhileOthersCompute(t *testing.T) {
	healthy := fabric(20, 18)
	cut := lackingSome(healthy, 20, 18, 3, 3)
	var alone, beside []time.Duration
	for range 3 {
		alone = append(alone, after(t, healthy, cut, func(*site) {}))
		beside = append(beside, after(t, healthy, cut, func(s *site) {
			for range 2 {
				s.work.Go(func() {
					for s.ctx.Err() == nil {
						if _, err := s.backend.WhatIf(s.ctx, api.WhatIf{Fail: []string{"Spine003"}}); err != nil && s.ctx.Err() == nil {
							t.Error(err)
						}
					}
				})
			}
			time.Sleep(300 * time.Millisecond)
		}))
	}
	a, b := median(alone), median(beside)
	t.Logf("the plan is there after %v, and beside two what-ifs at a time after %v", a, b)
	if b > 4*a+time.Second {
		t.Error("it waits for them")
	}
}
