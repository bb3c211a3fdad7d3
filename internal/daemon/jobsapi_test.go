package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/standby/replica"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/worker"
)

func TestJobRequests(t *testing.T) {
	d := readable(newDaemon(t))
	code := func(err error) string {
		var e *api.Error
		if !errors.As(err, &e) {
			return fmt.Sprint(err)
		}
		return e.Code
	}
	b := d.serving(t)
	if _, err := b.CreateJob(t.Context(), api.JobRequest{Hosts: names(0, 1)}); code(err) != api.CodeNoPlan {
		t.Errorf("a job before the first plan: %v", err)
	}
	d = readable(newDaemon(t))
	d.atRest(t, fabric(4, 4))
	b = d.serving(t)
	would, err := b.CreateJob(t.Context(), api.JobRequest{Name: "a", Hosts: names(0, 2), DryRun: true})
	if ok(t, err); would.ID != 0 || would.Servers != 3 || would.Phases == 0 || len(b.Jobs()) != 0 {
		t.Errorf("a job that was only asked about: %+v, %d jobs", would, len(b.Jobs()))
	}
	j, err := b.CreateJob(t.Context(), api.JobRequest{Name: "a", Hosts: names(0, 2), RanksPerHost: 3, LeaseSeconds: 60})
	ok(t, err)
	if j.ID != 2 || j.Servers != 3 || j.RanksPerHost != 3 || len(j.Hosts) != 3 || j.Expires.Sub(j.Created) != time.Minute {
		t.Errorf("%+v", j)
	}
	for want, q := range map[string]api.JobRequest{api.CodeRefused: {Name: "a", Hosts: names(3, 4)}, api.CodeBadRequest: {Hosts: []string{"nobody"}}} {
		for range 2 {
			if _, err := b.CreateJob(t.Context(), q); code(err) != want {
				t.Errorf("%+v: %v, want %s", q, err, want)
			}
			q.DryRun = true
		}
	}
	j, err = b.RenewJob(t.Context(), "a", time.Hour)
	if ok(t, err); time.Until(j.Expires) < 59*time.Minute || len(b.Jobs()) != 1 {
		t.Errorf("renewed until %v; jobs %v", j.Expires, b.Jobs())
	}
	plans, _, err := b.JobPlans("2")
	ok(t, err)
	_, err = b.RemoveJob(t.Context(), "2")
	ok(t, err)
	if plans.Current() != nil {
		t.Error("the plan of a job that was removed is in force")
	}
	for _, ask := range []func(string) error{
		func(n string) error { _, err := b.Job(n); return err },
		func(n string) error { _, _, err := b.JobPlans(n); return err },
		func(n string) error { _, err := b.RenewJob(t.Context(), n, time.Hour); return err },
		func(n string) error { _, err := b.RemoveJob(t.Context(), n); return err },
	} {
		for _, name := range []string{"2", "a", ""} {
			if err := ask(name); code(err) != api.CodeNotFound {
				t.Errorf("job %q that was removed: %v", name, err)
			}
		}
	}
}

// TestJobsAreLimited creates as many jobs as permitted. One more is refused, even as a
// dry run, until a job has ended.
func TestJobsAreLimited(t *testing.T) {
	d := readable(newDaemon(t))
	d.atRest(t, fabric(4, 4))
	first := d.make(t, "", names(0, 1))
	for n := range uint64(1022) {
		next := state.NewJob(first.Job, time.Now())
		next.ID = 1<<40 + n
		ok(t, d.state.PutJob(next))
	}
	d.make(t, "the last", names(0, 1))
	var e *api.Error
	for _, dry := range []bool{false, true} {
		_, err := d.tryMake(api.JobRequest{Name: "one more", Hosts: names(0, 1), DryRun: dry})
		if !errors.As(err, &e) || e.Code != api.CodeRefused || !strings.Contains(e.Text, "there are 1024 jobs, as many as may be") {
			t.Errorf("one more than there may be, as a question %v: %v", dry, err)
		}
	}
	d.store.EndJob(first, "removed")
	if d.make(t, "one more", names(0, 1)); len(d.state.Now().Jobs) != 1024 {
		t.Errorf("%d jobs", len(d.state.Now().Jobs))
	}
}

// TestJobWaits requests a job during a change. The request waits for a turn, or until its
// deadline.
func TestJobWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &loop{components: &components{inbox: newInbox(), state: state.New(nil, nil, nil), store: &state.Store{Disk: &store.Store{}}, peer: &replica.Peer{}},
			core: controller.New(controller.Settings{}), standby: standby.New(standby.Settings{})}
		d.excluder = &excluder{components: d.components, loop: d, drains: exclusions.NewDrains(exclusions.DrainSettings{})}
		d.core.Step(time.Now(), controller.Seen{Snapshot: controller.Snapshot{ID: "a"}}) // it has tables to write
		go func() {
			for call := range d.inbox.calls {
				call(t.Context(), d)
				d.giveTurns(t.Context())
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.inbox.between(ctx, func(_ context.Context, _ turn) { t.Error("it ran amid an action") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		ran := false
		time.AfterFunc(time.Minute, func() {
			d.inbox.calls <- func(context.Context, *loop) { d.core.Step(time.Now(), controller.Written{Err: "disk full"}) }
		})
		start := time.Now()
		if err := d.inbox.between(t.Context(), func(_ context.Context, _ turn) { ran = true }); err != nil || !ran || time.Since(start) != time.Minute {
			t.Errorf("ran %v after %v, %v", ran, time.Since(start), err)
		}
		close(d.inbox.calls)
	})
}

// TestJobOfNewcomer requests a job with a new host while OpenSM sweeps. The tables in
// force do not lead to the host, so the job waits for the new ones. A job without the
// host is planned immediately.
func TestJobOfNewcomer(t *testing.T) {
	d := readable(newDaemon(t))
	whole := fabric(4, 4)
	before := whole.Clone()
	_, err := before.Fail("Hca0005")
	ok(t, err)
	d.atRest(t, before)
	d.dumpSeen(t.Context(), dump(whole))
	for d.core.State() != controller.Sweeping {
		d.step(t.Context(), d.next(t.Context(), t))
	}
	b := d.serving(t)
	j, err := b.CreateJob(t.Context(), api.JobRequest{Hosts: []string{"Hca0000", "Hca0006"}})
	ok(t, err)
	ok(t, d.inbox.between(t.Context(), func(_ context.Context, _ turn) {
		fabric, avoid := d.core.Ground()
		v := view.Of(fabric)
		members, _, err := v.Members([]string{"Hca0000", "Hca0005"}, false)
		ok(t, err)
		asked := state.Job{Job: store.Job{JobInfo: store.JobInfo{Members: members}}}
		if p, err := worker.PlanJob(t.Context(), d.workers.Orders, &worker.JobRequest{Tree: v.Held(avoid), Settings: worker.Settings(d.planning),
			Members: asked.Guids(), Tables: d.desk.Possible(), Number: d.store.Disk.Numbers.Next()}); err == nil {
			t.Errorf("amid the sweep the newcomer is in %s", p.Report)
		}
	}))
	created := make(chan *api.Job)
	go func() {
		j, err := b.CreateJob(t.Context(), api.JobRequest{Hosts: []string{"Hca0000", "Hca0005"}})
		if err != nil {
			t.Error(err)
		}
		created <- j
	}()
	d.inbox.snapshots <- dump(whole)
	if late := <-created; late == nil || late.Servers != 2 || late.ID <= j.ID {
		t.Errorf("after the sweep: %+v", late)
	}
}

// TestLeases lets leases end at their time, one of them renewed.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := readable(newDaemon(t))
		d.atRest(t, fabric(4, 4))
		b := d.serving(t)
		for i, name := range []string{"short", "renewed"} {
			_, err := b.CreateJob(t.Context(), api.JobRequest{Name: name, Hosts: names(4*i, 4*i+3), LeaseSeconds: 3600})
			ok(t, err)
		}
		plans, _, err := b.JobPlans("short")
		ok(t, err)
		time.Sleep(30 * time.Minute)
		_, err = b.RenewJob(t.Context(), "renewed", 24*time.Hour)
		ok(t, err)
		start := time.Now()
		if _, err := plans.Wait(t.Context(), func(p *published.Plan) bool { return p.Epoch > 2 }); err == nil || time.Since(start) != 30*time.Minute {
			t.Errorf("the plan ended after %v: %v", time.Since(start), err)
		}
		var left []string
		for _, j := range b.Jobs() {
			left = append(left, j.Name)
		}
		if !slices.Equal(left, []string{"renewed"}) {
			t.Errorf("jobs %q are left", left)
		}
		time.Sleep(23*time.Hour + 29*time.Minute)
		if len(b.Jobs()) != 1 {
			t.Error("a lease ended early")
		}
		time.Sleep(2 * time.Minute)
		stored, err := filepath.Glob(filepath.Join(d.cfg.StateDir, "jobs", "*-*"))
		ok(t, err)
		if len(b.Jobs()) != 0 || len(stored) != 0 {
			t.Errorf("jobs %v are left, %v on disk", b.Jobs(), stored)
		}
	})
}

// TestLeaseAfterClock checks that an expired lease ends even if nothing else happens, as
// after a step of the clock, which triggers no timer.
func TestLeaseAfterClock(t *testing.T) {
	s := running(t, fabric(4, 4))
	_, err := backend.Jobs{Parts: &s.Daemon.backend.Parts}.CreateJob(s.ctx, api.JobRequest{Name: "a", Hosts: names(0, 6), LeaseSeconds: 3600})
	ok(t, err)
	s.settles(func(*store.Epoch, *view.View) bool { return true })
	over := *s.state.Now().Jobs[0]
	over.Expires = time.Now().Add(-time.Second).Round(0)
	over.Ends = over.Expires
	ok(t, s.state.PutJob(&over)) // without the loop's knowledge
	for len(s.state.Now().Jobs) > 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.ctx.Done():
			t.Fatal("the job is still there")
		}
	}
}
