package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// This file follows the fabric's plan with those of the jobs: whatever the
// controller has planned, published and read back holds for them too.

// jobPlan is a plan of a job that is to take the place of the one in force.
type jobPlan struct {
	job  *job
	plan view.Proposal
}

// planJobs plans every job, side by side, and returns those whose plan is another than
// the one in force, or that get a number of their own anyway. A plan that does not hold on
// all tables that the switches may hold is left for after the read-back; one that fails
// then (final) is a warning, and the old one stays.
func (r *Registry) planJobs(ctx context.Context, plan memberPlanner, final, reissue bool) []jobPlan {
	jobs := r.jobList()
	if len(jobs) == 0 {
		return nil
	}
	plans, errs := make([]view.Proposal, len(jobs)), make([]error, len(jobs))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(len(jobs), runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs); i = int(next.Add(1)) - 1 {
				plans[i], errs[i] = planJob(jobs[i], plan, final)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return nil // they are planned for the fabric that has been seen since
	}
	var out []jobPlan
	trouble := map[uint64]health.Finding{}
	for i, j := range jobs {
		switch {
		case errors.Is(errs[i], planner.ErrNoMember):
			trouble[j.ID] = health.Finding{Code: jobHostsMissing, Text: "none of its hosts is attached to the fabric, and its last plan stays"}
		case errs[i] != nil && final:
			trouble[j.ID] = health.Finding{Code: jobPlanFailed, Text: errs[i].Error()}
		case errs[i] != nil:
			r.log.Info("no plan of a job holds on the tables in force, the tables come first", zap.Uint64("job", j.ID), zap.Error(errs[i]))
		case reissue || j.plans.Current() == nil || !plans[i].Is(j.Plan, &j.Report):
			out = append(out, jobPlan{j, plans[i]})
		}
	}
	if final {
		r.mu.Lock()
		r.trouble = trouble
		r.mu.Unlock()
		r.jobWarnings(trouble)
	}
	return out
}

// planJob plans one job. Before the tables of a newcomer are there, the job is
// planned without it: it must not keep a lost lane in the plan until then.
func planJob(j *job, plan memberPlanner, final bool) (view.Proposal, error) {
	p, err := plan(j.guids())
	if err == nil || final {
		return p, err
	}
	var known []topology.GUID
	for i := range j.Plan.Servers() {
		known = append(known, j.Plan.Server(i).GUID)
	}
	return plan(known)
}

// publishJobs puts plans of jobs in force under the number n.
func (r *Registry) publishJobs(plans []jobPlan, n uint64) error {
	if len(plans) == 0 {
		return nil
	}
	r.store.saveBaseline()
	for _, p := range plans {
		j, err := p.job.planned(p.plan, n)
		if err != nil {
			return err
		}
		j.PublishedAt = time.Now()
		if err := r.store.fromMemory(n, r.store.onDisk(func() error { return r.store.SaveJob(&j.Job) })); err != nil {
			return err
		}
		if err := r.setJob(j); err != nil {
			return err
		}
		r.tellJob(j, "planned")
	}
	r.jobWarnings(r.troubles())
	return nil
}

// troubles is what the last planning could not do for jobs.
func (r *Registry) troubles() map[uint64]health.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.trouble)
}

// calm runs f between two events while no action is under way, so that neither
// the tables nor the store change meanwhile, and waits for it. The error is that
// of ctx or of a daemon that ends; f has not run then.
func (d *Daemon) calm(ctx context.Context, f func()) error {
	var claimed atomic.Bool // by the loop, or by a caller that waits no longer
	done := make(chan struct{})
	turn := func() {
		if claimed.CompareAndSwap(false, true) {
			f()
			close(done)
		}
	}
	if err := d.call(ctx, func() { d.waiting = append(d.waiting, turn) }); err != nil {
		return err
	}
	var err error
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err = fmt.Errorf("wait for the change under way: %w", ctx.Err())
	case <-d.stopped:
		err = errStopping
	}
	if claimed.CompareAndSwap(false, true) {
		return err
	}
	<-done // its turn came just now
	return nil
}

// calmNow is what the loop does between two actions.
func (d *Daemon) calmNow() {
	for len(d.waiting) > 0 && !d.core.Busy() { // a turn may begin an action
		turn := d.waiting[0]
		d.waiting = d.waiting[1:]
		turn()
	}
	if d.core.Busy() {
		return
	}
	if now, due := time.Now(), d.jobs.leaseDue(); !due.IsZero() && !now.Before(due) {
		d.jobs.endLeases(now)
	}
	if now, due := time.Now(), d.peer.machine.Wake(); !due.IsZero() && !now.Before(due) {
		d.stand(d.life, standby.Tick{})
	}
	d.store.restore(time.Now())
}
