package plans

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// This file manages the jobs' plans for programs that send to base LIDs, and the lanes reserved
// for jobs.

// Planning returns the planner's input about the jobs.
func (r *Jobs) Planning() (jobs []planner.Job) {
	for _, j := range r.List() {
		jobs = append(jobs, j.Planning())
	}
	return jobs
}

// Changed reports whether a job was changed since the last call.
func (r *Jobs) Changed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.changed
	r.changed = false
	return was
}

// SetBase puts a job's plan for base LIDs in force, unless it is already. The plan gets a new
// number unless it was the last one published.
func (r *Jobs) SetBase(id uint64, table *phasetable.Table, report planner.Report) error {
	j := r.byID(id)
	if j == nil {
		return nil // it has ended
	}
	next, last := *j, j.Base
	if last != nil {
		var err error
		if last, err = last.Numbered(j.BaseEpoch, table.TopologyHash); err != nil {
			return err
		}
	}
	t := *table
	t.Job = id
	var err error
	next.Base, err = r.Store.PutBase(t, last, r.Store.After(j.Epoch, j.BaseEpoch), func(plan *phasetable.View) error {
		next.Base, next.BaseEpoch = plan, plan.Epoch()
		return r.Store.SaveLease(&next.Job)
	})
	switch now := j.Bases.Current(); {
	case err != nil:
		return err
	case next.Base == last:
		if next.Base = j.Base; now != nil && now.Epoch == j.BaseEpoch {
			return nil
		}
	}
	next.BaseEpoch, next.BaseReport = next.Base.Epoch(), report
	r.replace(&next)
	return r.PublishBase(&next)
}

// PublishBase publishes the job's plan for base LIDs.
func (r *Jobs) PublishBase(j *Job) error {
	p, err := published.NewPlan(j.Base, j.BaseReport, time.Now())
	if err != nil {
		return err
	}
	j.Bases.Publish(p)
	r.Tell(j, "planned for base LIDs")
	return nil
}

// NoBase ends a job's plan for base LIDs, if one is in force.
func (r *Jobs) NoBase(id uint64, why error) {
	if j := r.byID(id); j != nil && j.Bases.Current() != nil {
		r.Log.Info("no plan of a job for base LIDs holds any more", zap.Uint64("job", id), zap.Error(why))
		j.Bases.Withdraw()
	}
}

// Route makes the next tables route the base LIDs of a job by the job's own plan.
func (r *Jobs) Route(id uint64) error {
	return r.change(id, func(j *Job) (*Job, error) {
		next := *j
		next.Routed = true
		return &next, nil
	})
}

// GiveLanes reserves lanes for a job.
func (r *Jobs) GiveLanes(id uint64, lanes []planner.JobLane) error {
	return r.change(id, func(j *Job) (*Job, error) {
		next := *j
		next.Lanes = lanes
		return &next, nil
	})
}

// change stores and publishes a changed job. Its plan must not change.
func (r *Jobs) change(id uint64, change func(*Job) (*Job, error)) error {
	j := r.byID(id)
	if j == nil {
		return nil // it has ended
	}
	next, err := change(j)
	if next == nil || err != nil {
		return err
	}
	r.Store.NotStored(r.Store.OnDisk(func() error { return r.Store.SaveLease(&next.Job) }))
	r.replace(next)
	return nil
}

// replace publishes a changed job.
func (r *Jobs) replace(next *Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.Clone(r.list)
	for i := range r.list {
		if r.list[i].ID == next.ID {
			r.list[i], r.changed = next, true
		}
	}
}

func (r *Jobs) byID(id uint64) *Job {
	for _, j := range r.List() {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// base returns the figures of the plan for base LIDs in force, or nil.
func (j *Job) base() *api.JobBase {
	if j.Bases == nil {
		return nil
	}
	now := j.Bases.Current()
	if now == nil {
		return nil
	}
	return &api.JobBase{Epoch: now.Epoch, Routed: j.Routed, Summary: j.BaseReport.Summary, Proof: j.BaseReport.Proof}
}

// lanes lists the lanes reserved for the job, leaf by leaf.
func (j *Job) lanes() (out []api.JobLanes) {
	for _, x := range j.Lanes {
		if n := len(out); n == 0 || out[n-1].Leaf != x.Leaf {
			out = append(out, api.JobLanes{Leaf: x.Leaf})
		}
		at := &out[len(out)-1]
		at.Spines = append(at.Spines, x.Spine)
	}
	return out
}

// leaves returns the numbers of the leaves of the hosts in a job's plan.
func (j *Job) leaves() map[int]bool {
	out := map[int]bool{}
	for s := range j.Plan.Servers() {
		out[j.Plan.Server(s).Leaf] = true
	}
	return out
}

// Unrouted tells the registry whether base LIDs can be routed by plans of jobs.
func (r *Jobs) Unrouted(unrouted bool) {
	r.mu.Lock()
	r.unrouted = unrouted
	r.mu.Unlock()
	r.Warnings(r.Troubles())
}

// sharesBase describes the cost if a job has reserved lanes and its base LIDs use others, or
// returns "".
func (r *Jobs) sharesBase(j *Job) string {
	r.mu.Lock()
	unrouted := r.unrouted
	r.mu.Unlock()
	if !unrouted || len(j.Lanes) == 0 {
		return ""
	}
	text := "has lanes of its own for programs that choose LIDs alone: base LIDs take other lanes here, which jobs share, as the LMC gives one LID for each lane and none to spare, or spines have several cables to a leaf"
	if j.Base != nil {
		text += fmt.Sprintf("; its plan for base LIDs has %d phases, that by lanes %d", j.BaseReport.Phases, j.Report.Phases)
	}
	return text + ". With an LMC of one more, base LIDs can be routed over the job's lanes where cables are single"
}

// shares describes the jobs that share lanes with a job that asked for its own, and the
// possible cost, or returns "".
func (r *Jobs) shares(j *Job) string {
	leaves := j.leaves()
	if !j.OwnLanes || len(j.Lanes) > 0 || len(leaves) < 2 {
		return ""
	}
	var with []string
	for _, other := range r.List() {
		if other.ID == j.ID || len(other.leaves()) < 2 {
			continue
		}
		for leaf := range other.leaves() {
			if leaves[leaf] {
				with = append(with, other.Label())
				break
			}
		}
	}
	text := "asked for lanes of its own, and there are none that would not slow it down by more than 5 %: "
	if len(with) == 0 {
		return text + "no other job of several leaves has hosts on its leaves now"
	}
	const most = 5
	names := strings.Join(with[:min(most, len(with))], ", ")
	if n := len(with) - most; n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	return text + fmt.Sprintf("it shares cables with %s; where all of them send over one at a time, a phase takes %d times as long", names, len(with)+1)
}
