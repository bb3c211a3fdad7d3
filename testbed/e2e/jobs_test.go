package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
)

// newPlan waits for a plan of the job after the epoch seen, verifies it on the
// tables that the switches hold at this moment, and returns it.
func (x *test) newPlan(job *api.Job, seen uint64) *phasetable.View {
	x.Helper()
	ctx, cancel := x.within()
	defer cancel()
	plan, err := x.Client.WaitJob(ctx, fmt.Sprint(job.ID), seen)
	x.ok(err)
	sight, err := x.Look(ctx)
	x.ok(err)
	if err := sight.CheckJob(plan); err != nil {
		x.Errorf("%s, epoch %d, on the tables of its moment: %v", job, plan.Epoch(), err)
	}
	if plan.Job() != job.ID || plan.Epoch() <= seen {
		x.Errorf("%s has a table of job %d, epoch %d", job, plan.Job(), plan.Epoch())
	}
	return plan
}

// checkJob verifies a job's plan in force on the tables read back.
func (x *test) checkJob(job *api.Job, servers int) *phasetable.View {
	x.Helper()
	sight := x.check()
	plan, err := x.Client.WaitJob(x.ctx, fmt.Sprint(job.ID), 0)
	x.ok(err)
	if err := sight.CheckJob(plan); err != nil {
		x.Errorf("%s, epoch %d, on the tables read back: %v", job, plan.Epoch(), err)
	}
	if plan.Servers() != servers {
		x.Errorf("the plan of %s has %d servers, not %d", job, plan.Servers(), servers)
	}
	return plan
}

func (x *test) createJob(name string, hosts ...string) *api.Job {
	x.Helper()
	job, err := x.Client.CreateJob(x.ctx, api.JobRequest{Name: name, Hosts: hosts, RanksPerHost: 2})
	x.ok(err)
	return job
}

// TestJobs takes two jobs through a cable pulled and put back, a crash of forsd, and a host that
// vanishes: each of their plans holds on the tables in the switches.
func TestJobs(t *testing.T) {
	t.Parallel()
	x, healthy := up(t, 5*time.Minute, small())
	near := x.createJob("near", "Hca0000", "Hca0002", "Hca0004", "Hca0005", "Hca0009")
	far := x.createJob("far", "Hca0008", "Hca0010", "Hca0012", "Hca0014")
	x.checkJob(near, 5)
	x.checkJob(far, 4)

	// The cable of a lane that the plan uses at leaf 0.
	first := x.newPlan(near, 0)
	lane := -1
	for p := range first.Phases() {
		lane = max(lane, first.Row(0).At(p).Lane)
	}
	broken := false
	x.toggle(healthy, 0, lane, &broken)
	without := x.newPlan(near, first.Epoch())
	st := x.settled(Cable(0, lane, "missing"))
	if without.Epoch() != st.Epoch {
		t.Errorf("the job's plan is of epoch %d, the fabric's of %d", without.Epoch(), st.Epoch)
	}
	if now := x.checkJob(near, 5); now.Epoch() != without.Epoch() {
		t.Errorf("epoch %d took the place of %d after the read-back", now.Epoch(), without.Epoch())
	}
	if now := x.checkJob(far, 4); now.Epoch() != far.Epoch {
		t.Errorf("the job on other leaves has epoch %d, not %d", now.Epoch(), far.Epoch)
	}

	x.ok(x.KillForsd(x.ctx), x.StartForsd())
	x.settled(nil)
	if now := x.checkJob(near, 5); now.Epoch() != without.Epoch() {
		t.Errorf("after a crash the job has epoch %d, not %d", now.Epoch(), without.Epoch())
	}
	x.toggle(healthy, 0, lane, &broken)
	whole := x.newPlan(near, without.Epoch())
	x.settled(Cable(0, lane, "full"))
	x.sameJobRows(first, whole)

	last := false
	hosts := x.toggleLast(healthy, 2, &last) // Hca0011 is of no job
	x.settled(Hosts(hosts))
	x.checkJob(far, 4)
	x.ok(x.Sim.Unlink(x.ctx, "Leaf002", 1)) // Hca0008
	x.settled(Hosts(hosts - 1))
	if plan := x.checkJob(far, 3); plan.Phases() != 2 {
		t.Errorf("three servers take %d phases", plan.Phases())
	}
	x.warned("job-hosts-missing")
	x.ok(x.Sim.Relink(x.ctx, "Leaf002", 1))
	x.settled(Hosts(hosts))
	x.checkJob(far, 4)

	_, err := x.Client.RemoveJob(x.ctx, "far")
	x.ok(err)
	var gone *api.Error
	if _, err := x.Client.WaitJob(x.ctx, "far", 0); !errors.As(err, &gone) || gone.Code != api.CodeNotFound {
		t.Errorf("a job that was removed: %v", err)
	}
}

// sameJobRows fails if two plans of a job differ in more than their epochs.
func (x *test) sameJobRows(a, b *phasetable.View) {
	x.Helper()
	if a.Job() != b.Job() {
		x.Errorf("plans of jobs %d and %d", a.Job(), b.Job())
	}
	x.sameRows(a, b)
}

// TestJobWithOneLID plans a job whose tables belong to the fabric's plan, and pulls a
// cable: the tables come first, then both plans.
func TestJobWithOneLID(t *testing.T) {
	t.Parallel()
	x, healthy := up(t, 5*time.Minute, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})})
	job := x.createJob("", "Hca0000", "Hca0002", "Hca0004", "Hca0005", "Hca0009")
	x.checkJob(job, 5)
	broken := false
	x.toggle(healthy, 0, 1, &broken)
	x.settled(Cable(0, 1, "missing"))
	x.checkJob(job, 5)
	x.toggle(healthy, 0, 1, &broken)
	x.settled(Cable(0, 1, "full"))
	x.checkJob(job, 5)
}
