// Package plans makes, verifies and publishes plans, and orders their tables, as the controller
// asks: those of the fabric (Publisher), and those of jobs, which are exchanges among some of the
// servers (Jobs) and follow the fabric's. In a forsd that only watches, it compares plans with
// OpenSM's own tables.
package plans

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// Job is an exchange among some of the servers, with its plan in force. It is immutable: a
// change makes a new value.
type Job struct {
	store.Job
	Plans *published.Plans // for clients that wait for its next plan
	Bases *published.Plans // the same for base LIDs; empty until tables are read back

	due        time.Time      // end of its lease, independent of clock changes
	BaseReport planner.Report // of the plan for base LIDs in force
}

// The warnings about jobs.
const (
	JobHostsMissing = "job-hosts-missing"
	JobPlanFailed   = "job-plan-failed"
	JobDegraded     = "job-degraded"
	JobSharesLanes  = "job-shares-lanes"
)

// Renew extends the job's lease to the given duration from now.
func (j *Job) Renew(now time.Time, lasts time.Duration) {
	j.Lease(now, lasts)
	j.due = j.Expires
}

// Guids lists the port GUIDs of the members.
func (j *Job) Guids() []ib.GUID {
	out := make([]ib.GUID, len(j.Members))
	for i, m := range j.Members {
		out[i] = m.GUID
	}
	return out
}

// Missing lists the members that the plan leaves out.
func (j *Job) Missing() []api.JobHost {
	out := []api.JobHost{}
	for _, m := range j.Members {
		if _, planned := j.Plan.FindGUID(m.GUID); !planned {
			out = append(out, api.JobHost(m))
		}
	}
	return out
}

// Summary returns the job in the API's form for lists.
func (j *Job) Summary() api.Job {
	r := &j.Report
	return api.Job{ID: j.ID, Name: j.Name, Epoch: j.Epoch, PublishedAt: j.PublishedAt, Created: j.Created, Expires: j.Expires, RanksPerHost: j.RanksPerHost,
		Servers: r.Servers, Summary: r.Summary, Proof: r.Proof, Missing: j.Missing(), Warnings: describe.Findings(j.Warnings),
		OwnLanes: j.OwnLanes, Lanes: j.lanes(), Base: j.base()}
}

// Detail returns the job with its hosts.
func (j *Job) Detail() *api.Job {
	out := j.Summary()
	for _, m := range j.Members {
		out.Hosts = append(out.Hosts, api.JobHost(m))
	}
	return &out
}

// Label returns the job's name for messages.
func (j *Job) Label() string { return (&api.Job{ID: j.ID, Name: j.Name}).String() }

// Planned returns the job with another plan, which has the number n.
func (j *Job) Planned(p view.Proposal, n uint64) (*Job, error) {
	next := *j
	next.Epoch, next.Report, next.Warnings, next.Stale = n, p.Report(), p.Cautions(), false
	next.ID = cmp.Or(next.ID, n)
	table := p.Table(n)
	table.Job = next.ID
	var err error
	if next.Plan, err = phasetable.New(table); err != nil {
		return nil, err
	}
	return &next, nil
}

// Jobs has the jobs and their leases. Changes run while no action is under way, or as part
// of that action.
type Jobs struct {
	Log   *zap.Logger
	State *state.State
	Store *state.Store

	mu       sync.Mutex                // guards the fields below
	list     []*Job                    // ascending; the slice is replaced, not changed
	trouble  map[uint64]health.Finding // [job] failures of the last planning
	changed  bool                      // lanes or routing of jobs, since Changed
	unrouted bool                      // base LIDs cannot be routed by plans of jobs in this fabric
}

// List returns the jobs, ascending.
func (r *Jobs) List() []*Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// Stored returns the jobs as the store keeps them.
func (r *Jobs) Stored() []*store.Job {
	var out []*store.Job
	for _, j := range r.List() {
		out = append(out, &j.Job)
	}
	return out
}

// Find finds a job by its number or its name.
func (r *Jobs) Find(name string) (*Job, error) {
	n, err := strconv.ParseUint(name, 10, 64)
	for _, j := range r.List() {
		if err == nil && j.ID == n || err != nil && name != "" && j.Name == name {
			return j, nil
		}
	}
	return nil, api.NoJob(name)
}

// Set publishes a job's new plan or lease to all readers.
func (r *Jobs) Set(j *Job) error {
	p, err := published.NewPlan(j.Plan, j.Report, j.PublishedAt)
	if err != nil {
		return err
	}
	if j.Plans == nil {
		j.Plans, j.Bases = &published.Plans{}, &published.Plans{}
	}
	r.mu.Lock()
	r.changed = true
	at, known := slices.BinarySearchFunc(r.list, j.ID, func(j *Job, id uint64) int { return cmp.Compare(j.ID, id) })
	if !j.due.Equal(j.Expires) && !(known && r.list[at].Expires.Equal(j.Expires) && r.list[at].Leased == j.Leased) {
		j.due = j.Due(time.Now())
	} else if known && !j.due.Equal(j.Expires) {
		j.due = r.list[at].due
	}
	if known {
		r.list = slices.Clone(r.list)
		r.list[at] = j
	} else {
		r.list = slices.Insert(slices.Clone(r.list), at, j)
	}
	r.mu.Unlock()
	j.Plans.Publish(p)
	return nil
}

// Resume loads the stored jobs. If a later plan of a job may have been in force, its stored
// plans are not used until they are verified and published again.
func (r *Jobs) Resume() (damaged, err error) {
	jobs, damaged := r.Store.Jobs()
	for _, j := range jobs {
		if j.Stale {
			j.Base = nil // the same holds for these plans
		}
		if j.Stale || j.Epoch <= r.Store.Passed() {
			r.list = append(r.list, &Job{Job: *j, Plans: &published.Plans{}, Bases: &published.Plans{}, due: j.Due(time.Now())})
			continue
		}
		if err := r.Set(&Job{Job: *j}); err != nil {
			return damaged, err
		}
	}
	r.Warnings(nil)
	return damaged, nil
}

// Tell reports an event of a job to subscribers and the log.
func (r *Jobs) Tell(j *Job, what string) {
	r.Log.Info("job "+what, zap.Uint64("job", j.ID), zap.String("name", j.Name), zap.Uint64("epoch", j.Epoch),
		zap.Int("servers", j.Report.Servers), zap.Int("phases", j.Report.Phases), zap.Int("lower_bound", j.Report.LowerBound))
	r.State.Emit(api.KindJob, struct {
		What string  `json:"what"`
		Job  api.Job `json:"job"`
	}{what, j.Summary()})
}

// End removes a job permanently. It runs while no action is under way.
func (r *Jobs) End(j *Job, what string) {
	r.Store.NotStored(r.Store.OnDisk(func() error { return r.Store.RemoveJob(j.ID) }))
	r.mu.Lock()
	r.list = slices.DeleteFunc(slices.Clone(r.list), func(x *Job) bool { return x.ID == j.ID })
	delete(r.trouble, j.ID)
	r.changed = true
	r.mu.Unlock()
	j.Plans.End()
	j.Bases.End()
	r.Warnings(r.Troubles())
	r.Tell(j, what)
}

// LeaseDue returns the end of the first lease, or zero without jobs.
func (r *Jobs) LeaseDue() (first time.Time) {
	if r.State.StandsBy() {
		return first // only the leading daemon ends leases
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.list {
		if first.IsZero() || j.due.Before(first) {
			first = j.due
		}
	}
	return first
}

// EndLeases removes the jobs whose lease has ended.
func (r *Jobs) EndLeases(now time.Time) {
	for _, j := range r.List() {
		if !now.Before(j.due) {
			r.End(j, "expired")
		}
	}
}

// Warnings raises the warnings about jobs: hosts that plans leave out, plans that are
// longer than necessary or leave pairs out, and failures of planning.
func (r *Jobs) Warnings(trouble map[uint64]health.Finding) {
	var found []health.Finding
	for _, j := range r.List() {
		if missing := j.Missing(); len(missing) > 0 {
			text := fmt.Sprintf("%s: %s (%s)", j.Label(), missing[0].Name, missing[0].GUID)
			if n := len(missing) - 1; n > 0 {
				text += fmt.Sprintf(" and %d more hosts are absent, and its plan leaves them out", n)
			} else {
				text += " is absent, and its plan leaves it out"
			}
			found = append(found, health.Finding{Code: JobHostsMissing, Text: text})
		}
		for _, w := range j.Warnings {
			found = append(found, health.Finding{Code: JobDegraded, Text: j.Label() + ": " + w.Text})
		}
		if text := r.sharesBase(j); text != "" {
			found = append(found, health.Finding{Code: JobSharesLanes, Text: j.Label() + " " + text})
		}
		if text := r.shares(j); text != "" {
			found = append(found, health.Finding{Code: JobSharesLanes, Text: j.Label() + " " + text})
		}
		if t, ok := trouble[j.ID]; ok {
			found = append(found, health.Finding{Code: t.Code, Text: j.Label() + ": " + t.Text})
		}
	}
	r.State.Health.Set("jobs", found, time.Now())
}
