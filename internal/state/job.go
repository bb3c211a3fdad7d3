package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/planner"
)

// Job is an exchange among some of the servers, with its plans. It is immutable: a change makes
// a new value.
type Job struct {
	store.Job
	Plans      *published.Plans // for clients that wait for its next plan
	Bases      *published.Plans // the same for base LIDs; empty until tables are read back
	BaseReport planner.Report   // of the plan for base LIDs in force
	Ends       time.Time        // when its lease ends, independent of clock changes
}

// The warnings about jobs.
const (
	JobHostsMissing = "job-hosts-missing"
	JobPlanFailed   = "job-plan-failed"
	JobDegraded     = "job-degraded"
	JobSharesLanes  = "job-shares-lanes"
)

// NewJob returns a job whose plans are not in force yet.
func NewJob(j store.Job, now time.Time) *Job {
	return &Job{Job: j, Plans: &published.Plans{}, Bases: &published.Plans{}, Ends: j.Due(now)}
}

// Renew extends the job's lease to the given duration from now.
func (j *Job) Renew(now time.Time, lasts time.Duration) {
	j.Lease(now, lasts)
	j.Ends = j.Expires
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
	out := api.Job{ID: j.ID, Name: j.Name, Epoch: j.Epoch, PublishedAt: j.PublishedAt, Created: j.Created, Expires: j.Expires, RanksPerHost: j.RanksPerHost,
		Servers: r.Servers, Summary: r.Summary, Proof: r.Proof, Missing: j.Missing(), Warnings: describe.Findings(j.Warnings), OwnLanes: j.OwnLanes}
	for _, x := range j.Lanes { // leaf by leaf
		if n := len(out.Lanes); n == 0 || out.Lanes[n-1].Leaf != x.Leaf {
			out.Lanes = append(out.Lanes, api.JobLanes{Leaf: x.Leaf})
		}
		at := &out.Lanes[len(out.Lanes)-1]
		at.Spines = append(at.Spines, x.Spine)
	}
	if now := j.Bases.Current(); now != nil {
		out.Base = &api.JobBase{Epoch: now.Epoch, Routed: j.Routed, Summary: j.BaseReport.Summary, Proof: j.BaseReport.Proof}
	}
	return out
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

// SetJob has a job in force as it is, without a new plan.
func (s *Shared) SetJob(j *Job) {
	s.change(func(n *State) {
		at, known := slices.BinarySearchFunc(n.Jobs, j.ID, func(j *Job, id uint64) int { return cmp.Compare(j.ID, id) })
		n.Jobs = slices.Clone(n.Jobs)
		if known {
			n.Jobs[at] = j
		} else {
			n.Jobs = slices.Insert(n.Jobs, at, j)
		}
	})
}

// ChangeJob stores a change of a job other than of its plans, and puts it in force.
func (s *Store) ChangeJob(j *Job, change func(next *Job)) *Job {
	next := *j
	change(&next)
	s.NotStored(s.OnDisk(func() error { return s.Disk.SaveLease(&next.Job) }))
	s.state.SetJob(&next)
	return &next
}

// EndJob removes a job permanently.
func (s *Store) EndJob(j *Job, what string) {
	s.NotStored(s.OnDisk(func() error { return s.Disk.RemoveJob(j.ID) }))
	s.state.change(func(n *State) {
		n.Jobs = slices.DeleteFunc(slices.Clone(n.Jobs), func(x *Job) bool { return x.ID == j.ID })
		n.trouble = maps.Clone(n.trouble)
		delete(n.trouble, j.ID)
	})
	j.Plans.End()
	j.Bases.End()
	s.state.jobWarnings()
	s.state.jobEvent(j, what)
}

// LeaseDue returns the end of the first lease, or zero without jobs. Only the leading daemon ends
// leases.
func (s *State) LeaseDue() time.Time {
	if s.Standby || len(s.Jobs) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(s.Jobs, func(a, b *Job) int { return a.Ends.Compare(b.Ends) }).Ends
}

// EndLeases removes the jobs whose lease has ended.
func (s *Store) EndLeases(now time.Time) {
	for _, j := range s.state.Now().Jobs {
		if !now.Before(j.Ends) {
			s.EndJob(j, "expired")
		}
	}
}

// jobEvent reports an event of a job to subscribers and the log.
func (s *Shared) jobEvent(j *Job, what string) {
	s.log.Info("job "+what, zap.Uint64("job", j.ID), zap.String("name", j.Name), zap.Uint64("epoch", j.Epoch),
		zap.Int("servers", j.Report.Servers), zap.Int("phases", j.Report.Phases), zap.Int("lower_bound", j.Report.LowerBound))
	s.Emit(api.KindJob, struct {
		What string  `json:"what"`
		Job  api.Job `json:"job"`
	}{what, j.Summary()})
}

// JobsFailed records the failures of the last planning of jobs, by job.
func (s *Shared) JobsFailed(trouble map[uint64]health.Finding) {
	s.change(func(n *State) { n.trouble = trouble })
	s.jobWarnings()
}

// JobsUnrouted records whether base LIDs cannot be routed by plans of jobs.
func (s *Shared) JobsUnrouted(unrouted bool) {
	s.change(func(n *State) { n.unrouted = unrouted })
	s.jobWarnings()
}

// jobWarnings raises the warnings about jobs: hosts that plans leave out, plans that are
// longer than necessary or leave pairs out, and failures of planning.
func (s *Shared) jobWarnings() {
	var found []health.Finding
	now := s.Now()
	for _, j := range now.Jobs {
		find := func(code, text string) { found = append(found, health.Finding{Code: code, Text: j.Label() + text}) }
		if missing := j.Missing(); len(missing) > 0 {
			text := fmt.Sprintf(": %s (%s)", missing[0].Name, missing[0].GUID)
			if n := len(missing) - 1; n > 0 {
				text += fmt.Sprintf(" and %d more hosts are absent, and its plan leaves them out", n)
			} else {
				text += " is absent, and its plan leaves it out"
			}
			find(JobHostsMissing, text)
		}
		for _, w := range j.Warnings {
			find(JobDegraded, ": "+w.Text)
		}
		if now.unrouted && len(j.Lanes) > 0 {
			find(JobSharesLanes, j.sharesBase())
		}
		if text := now.sharesLanes(j); text != "" {
			find(JobSharesLanes, text)
		}
		if t, failed := now.trouble[j.ID]; failed {
			find(t.Code, ": "+t.Text)
		}
	}
	s.Health.Set("jobs", found, time.Now())
}

// sharesBase describes the cost if a job has reserved lanes and its base LIDs use others.
func (j *Job) sharesBase() string {
	text := " has lanes of its own for programs that choose LIDs alone: base LIDs take other lanes here, which jobs share, as the LMC gives one LID for each lane and none to spare, or spines have several cables to a leaf"
	if j.Base != nil {
		text += fmt.Sprintf("; its plan for base LIDs has %d phases, that by lanes %d", j.BaseReport.Phases, j.Report.Phases)
	}
	return text + ". With an LMC of one more, base LIDs can be routed over the job's lanes where cables are single"
}

// leaves returns the numbers of the leaves of the hosts in a job's plan.
func (j *Job) leaves() map[int]bool {
	out := map[int]bool{}
	for s := range j.Plan.Servers() {
		out[j.Plan.Server(s).Leaf] = true
	}
	return out
}

// sharesLanes describes the jobs that share lanes with a job that asked for its own, and the
// possible cost, or returns "".
func (s *State) sharesLanes(j *Job) string {
	leaves := j.leaves()
	if !j.OwnLanes || len(j.Lanes) > 0 || len(leaves) < 2 {
		return ""
	}
	var with []string
	for _, other := range s.Jobs {
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
	text := " asked for lanes of its own, and there are none that would not slow it down by more than 5 %: "
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
