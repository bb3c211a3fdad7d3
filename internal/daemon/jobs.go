package daemon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// job is an exchange among some of the servers, with its plan in force. It does
// not change: what happens to a job makes another value of it.
type job struct {
	store.Job
	plans *api.Plans // for those who wait for its next plan
}

// The warnings about jobs.
const (
	jobHostsMissing = "job-hosts-missing"
	jobPlanFailed   = "job-plan-failed"
	jobDegraded     = "job-degraded"
)

// guids lists the port GUIDs of the members.
func (j *job) guids() []topology.GUID {
	out := make([]topology.GUID, len(j.Members))
	for i, m := range j.Members {
		out[i] = m.GUID
	}
	return out
}

// missing lists the members that the plan leaves out.
func (j *job) missing() []api.JobHost {
	out := []api.JobHost{}
	for _, m := range j.Members {
		if _, planned := j.Plan.FindGUID(m.GUID); !planned {
			out = append(out, api.JobHost(m))
		}
	}
	return out
}

// summary is the job as the API lists it.
func (j *job) summary() api.Job {
	r := &j.Report
	return api.Job{ID: j.ID, Name: j.Name, Epoch: j.Epoch, PublishedAt: j.PublishedAt, Created: j.Created, Expires: j.Expires, RanksPerHost: j.RanksPerHost,
		Servers: r.Servers, Summary: r.Summary, Proof: r.Proof, Missing: j.missing(), Warnings: append([]api.JobWarning{}, j.Warnings...)}
}

// detail is the job with its hosts.
func (j *job) detail() *api.Job {
	out := j.summary()
	for _, m := range j.Members {
		out.Hosts = append(out.Hosts, api.JobHost(m))
	}
	return &out
}

// label names the job in texts.
func (j *job) label() string { return (&api.Job{ID: j.ID, Name: j.Name}).String() }

// planned is the job with another plan, under the number n.
func (j *job) planned(p view.Proposal, n uint64) (*job, error) {
	next := *j
	next.Epoch, next.Report, next.Warnings, next.Stale = n, p.Report(), p.Cautions(), false
	if next.ID == 0 {
		next.ID = n
	}
	table := p.Table(n)
	table.Job = next.ID
	var err error
	if next.Plan, err = phasetable.New(table); err != nil {
		return nil, err
	}
	return &next, nil
}

// Registry is the jobs, with their leases. Whatever changes it runs while no action is
// under way, or is the one that is.
type Registry struct {
	log   *zap.Logger
	board *Board
	store *vault

	mu      sync.Mutex                // guards what follows
	list    []*job                    // ascending; the slice is replaced, not changed
	trouble map[uint64]health.Finding // [job] what the last planning could not do
}

// jobList is the jobs, ascending.
func (r *Registry) jobList() []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// findJob finds a job by its number or its name.
func (r *Registry) findJob(name string) (*job, error) {
	n, err := strconv.ParseUint(name, 10, 64)
	for _, j := range r.jobList() {
		if err == nil && j.ID == n || err != nil && name != "" && j.Name == name {
			return j, nil
		}
	}
	return nil, api.NoJob(name)
}

// setJob puts a job's plan, or its lease, in force for everybody who asks.
func (r *Registry) setJob(j *job) error {
	report, err := json.Marshal(j.Report)
	if err != nil {
		return err
	}
	p, err := api.NewPublished(j.Plan, report, j.PublishedAt)
	if err != nil {
		return err
	}
	if j.plans == nil {
		j.plans = &api.Plans{}
	}
	r.mu.Lock()
	at, known := slices.BinarySearchFunc(r.list, j.ID, func(j *job, id uint64) int { return cmp.Compare(j.ID, id) })
	if known {
		r.list = slices.Clone(r.list)
		r.list[at] = j
	} else {
		r.list = slices.Insert(slices.Clone(r.list), at, j)
	}
	r.mu.Unlock()
	j.plans.Publish(p)
	return nil
}

// takeUpJobs goes on with the jobs that are stored. Where the plan in force is to get a
// number of its own, so are theirs.
func (r *Registry) takeUpJobs(reissue bool) (damaged, err error) {
	jobs, damaged := r.store.Jobs()
	for _, j := range jobs {
		if j.Stale || reissue { // nobody gets this plan before it is verified and published anew
			r.list = append(r.list, &job{Job: *j, plans: &api.Plans{}})
			continue
		}
		if err := r.setJob(&job{Job: *j}); err != nil {
			return damaged, err
		}
	}
	r.jobWarnings(nil)
	return damaged, nil
}

// tellJob tells subscribers and the log what happened to a job.
func (r *Registry) tellJob(j *job, what string) {
	r.log.Info("job "+what, zap.Uint64("job", j.ID), zap.String("name", j.Name), zap.Uint64("epoch", j.Epoch),
		zap.Int("servers", j.Report.Servers), zap.Int("phases", j.Report.Phases), zap.Int("lower_bound", j.Report.LowerBound))
	r.board.say(api.KindJob, struct {
		What string  `json:"what"`
		Job  api.Job `json:"job"`
	}{what, j.summary()})
}

// endJob removes a job for good. It runs while no action is under way.
func (r *Registry) endJob(j *job, what string) {
	r.store.notStored(r.store.onDisk(func() error { return r.store.RemoveJob(j.ID) }))
	r.mu.Lock()
	r.list = slices.DeleteFunc(slices.Clone(r.list), func(x *job) bool { return x.ID == j.ID })
	delete(r.trouble, j.ID)
	r.mu.Unlock()
	j.plans.End()
	r.jobWarnings(r.troubles())
	r.tellJob(j, what)
}

// leaseDue is when the first lease is to be ended, zero without jobs.
func (r *Registry) leaseDue() (first time.Time) {
	if r.board.standsBy() {
		return first // the daemon that leads ends them
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.list {
		if first.IsZero() || j.Expires.Before(first) {
			first = j.Expires
		}
	}
	return first
}

// endLeases removes the jobs whose lease has ended.
func (r *Registry) endLeases(now time.Time) {
	for _, j := range r.jobList() {
		if !now.Before(j.Expires) {
			r.endJob(j, "expired")
		}
	}
}

// jobWarnings raises what is wrong with jobs: hosts that plans leave out, plans
// that are longer than need be or leave pairs out, and what could not be planned.
func (r *Registry) jobWarnings(trouble map[uint64]health.Finding) {
	var found []health.Finding
	for _, j := range r.jobList() {
		if missing := j.missing(); len(missing) > 0 {
			text := fmt.Sprintf("%s: %s (%s)", j.label(), missing[0].Name, missing[0].GUID)
			if n := len(missing) - 1; n > 0 {
				text += fmt.Sprintf(" and %d more hosts are absent, and its plan leaves them out", n)
			} else {
				text += " is absent, and its plan leaves it out"
			}
			found = append(found, health.Finding{Code: jobHostsMissing, Text: text})
		}
		for _, w := range j.Warnings {
			found = append(found, health.Finding{Code: jobDegraded, Text: j.label() + ": " + w.Text})
		}
		if t, ok := trouble[j.ID]; ok {
			found = append(found, health.Finding{Code: t.Code, Text: j.label() + ": " + t.Text})
		}
	}
	r.board.health.Set("jobs", found, time.Now())
}
