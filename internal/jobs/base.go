package jobs

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// This file keeps the plans of jobs for programs that send to base LIDs, and the lanes
// that jobs have alone.

// Planning is what planning must know of the jobs.
func (r *Registry) Planning() (jobs []planner.Job) {
	for _, j := range r.List() {
		jobs = append(jobs, j.Planning())
	}
	return jobs
}

// Changed tells whether a job was changed since it was asked last.
func (r *Registry) Changed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.changed
	r.changed = false
	return was
}

// WithBase is the job with another plan for base LIDs, under a number of its own unless it
// is the one published last. Numbers only grow, and are not below the job's epoch.
func (j *Job) WithBase(table *phasetable.Table, report planner.Report) (*Job, error) {
	next, t := *j, *table
	if t.Job, t.Epoch = j.ID, j.BaseEpoch; j.Base != nil {
		t.TopologyHash = j.Base.TopologyHash() // a plan that stays, stays as it is
	}
	plan, err := phasetable.New(&t)
	if err != nil {
		return nil, err
	}
	if next.renumber = false; j.Base == nil || j.renumber || !bytes.Equal(plan.Bytes(), j.Base.Bytes()) {
		t.Epoch, t.TopologyHash = max(j.Epoch, j.BaseEpoch+1), table.TopologyHash
		if plan, err = phasetable.New(&t); err != nil {
			return nil, err
		}
	}
	next.Base, next.BaseEpoch, next.BaseReport = plan, t.Epoch, report
	return &next, nil
}

// RenumberBases says whether the next plans of jobs for base LIDs get numbers of their own,
// even where they stay the same.
func (r *Registry) RenumberBases(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.Clone(r.list)
	for i, j := range r.list {
		next := *j
		next.renumber = on
		r.list[i] = &next
	}
}

// SetBase puts a plan of a job for base LIDs in force for everybody who asks, unless it is.
func (r *Registry) SetBase(id uint64, table *phasetable.Table, report planner.Report) error {
	return r.change(id, func(j *Job) (*Job, error) {
		if now := j.Bases.Current(); now != nil && now.Epoch == j.BaseEpoch {
			if same, err := j.WithBase(table, report); err != nil || same.BaseEpoch == j.BaseEpoch {
				return nil, err
			}
		}
		next, err := j.WithBase(table, report)
		if err != nil {
			return nil, err
		}
		return next, r.PublishBase(next)
	})
}

// PublishBase has everybody who asks get the job's plan for base LIDs.
func (r *Registry) PublishBase(j *Job) error {
	p, err := api.NewPublished(j.Base, j.BaseReport, time.Now())
	if err != nil {
		return err
	}
	j.Bases.Publish(p)
	r.Tell(j, "planned for base LIDs")
	return nil
}

// NoBase ends the plan of a job for base LIDs in force, if there is one.
func (r *Registry) NoBase(id uint64, why error) {
	if j := r.byID(id); j != nil && j.Bases.Current() != nil {
		r.Log.Info("no plan of a job for base LIDs holds any more", zap.Uint64("job", id), zap.Error(why))
		j.Bases.Withdraw()
	}
}

// Route has the base LIDs of a job routed by its own plan from the next tables on.
func (r *Registry) Route(id uint64) error {
	return r.change(id, func(j *Job) (*Job, error) {
		next := *j
		next.Routed = true
		return &next, nil
	})
}

// GiveLanes gives a job lanes of its own.
func (r *Registry) GiveLanes(id uint64, lanes []planner.JobLane) error {
	return r.change(id, func(j *Job) (*Job, error) {
		next := *j
		next.Lanes = lanes
		return &next, nil
	})
}

// change makes another value of a job, whose plan stays, durable and known.
func (r *Registry) change(id uint64, change func(*Job) (*Job, error)) error {
	j := r.byID(id)
	if j == nil {
		return nil // it has ended
	}
	next, err := change(j)
	if next == nil || err != nil {
		return err
	}
	r.Store.NotStored(r.Store.OnDisk(func() error { return r.Store.SaveLease(&next.Job) }))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.Clone(r.list)
	for i := range r.list {
		if r.list[i].ID == id {
			r.list[i], r.changed = next, true
		}
	}
	return nil
}

func (r *Registry) byID(id uint64) *Job {
	for _, j := range r.List() {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// base is the plan for base LIDs in force, in figures, nil for none.
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

// lanes lists the lanes that the job has alone, leaf by leaf.
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

// leaves lists the leaves of the hosts of a job's plan, by number.
func (j *Job) leaves() map[int]bool {
	out := map[int]bool{}
	for s := range j.Plan.Servers() {
		out[j.Plan.Server(s).Leaf] = true
	}
	return out
}

// Unrouted tells the registry whether base LIDs can be routed by plans of jobs.
func (r *Registry) Unrouted(unrouted bool) {
	r.mu.Lock()
	r.unrouted = unrouted
	r.mu.Unlock()
	r.Warnings(r.Troubles())
}

// sharesBase says what it costs that a job has lanes of its own and its base LIDs have
// others; "" where there is nothing to say.
func (r *Registry) sharesBase(j *Job) string {
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

// shares says with whom a job shares lanes that asked for its own and has none, and what
// that may cost; "" where there is nothing to say.
func (r *Registry) shares(j *Job) string {
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
