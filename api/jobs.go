package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// Jobs is what the daemon answers and does for jobs: exchanges among some of the
// servers, each with a plan of its own. A job is named by its number or by the
// name that it was given. The methods are called from many goroutines; their
// errors are like those of Backend.
type Jobs interface {
	// Jobs lists the jobs, ascending by number.
	Jobs() []Job
	// Job is one job with its hosts.
	Job(job string) (*Job, error)
	// JobPlans holds the plan of a job, and JobBases that for base LIDs. They are closed
	// when the job ends.
	JobPlans(job string) (*Plans, error)
	JobBases(job string) (*Plans, error)
	// CreateJob plans a job and puts its plan in force.
	CreateJob(ctx context.Context, q JobRequest) (*Job, error)
	// RenewJob lets a job's lease end so long from now, 0 for the default.
	RenewJob(ctx context.Context, job string, lease time.Duration) (*Job, error)
	// RemoveJob ends a job.
	RemoveJob(ctx context.Context, job string) (*Job, error)
}

// JobRequest asks for a job.
type JobRequest struct {
	Name         string   `json:"name,omitempty"`           // a second way to name it; unique among living jobs
	Hosts        []string `json:"hosts"`                    // descriptions or their first words, port GUIDs, LIDs
	RanksPerHost int      `json:"ranks_per_host,omitempty"` // told to those who read the job; 0 means 1
	LeaseSeconds int64    `json:"lease_seconds,omitempty"`  // 0 means DefaultLease
	OwnLanes     bool     `json:"own_lanes,omitempty"`      // lanes that no other job uses
	SkipUnknown  bool     `json:"skip_unknown,omitempty"`   // leave out hosts that the fabric does not have, instead of refusing the job
	DryRun       bool     `json:"dry_run,omitempty"`        // say what its plan would be, and do nothing
}

// JobList is the answer to GET /v1/jobs, ascending by number.
type JobList struct {
	Jobs []Job `json:"jobs"`
}

// Job is a job with its plan in figures.
type Job struct {
	ID           uint64    `json:"id"` // the epoch of its first plan
	Name         string    `json:"name,omitempty"`
	Epoch        uint64    `json:"epoch"` // of its plan in force
	PublishedAt  time.Time `json:"published_at"`
	Created      time.Time `json:"created_at"`
	Expires      time.Time `json:"expires_at"` // when its lease ends
	RanksPerHost int       `json:"ranks_per_host"`
	Servers      int       `json:"servers"` // that the plan has
	phasetable.Summary
	phasetable.Proof
	Missing  []JobHost    `json:"missing"`         // hosts that the plan leaves out
	Hosts    []JobHost    `json:"hosts,omitempty"` // all of them; absent in lists
	Warnings []JobWarning `json:"warnings"`
	Unknown  []string     `json:"unknown,omitempty"`   // hosts that were left out when the job was created, because the fabric does not have them
	OwnLanes bool         `json:"own_lanes,omitempty"` // asked for
	Lanes    []JobLanes   `json:"lanes,omitempty"`     // that no other job uses; none for a job on one leaf
	Base     *JobBase     `json:"base,omitempty"`      // absent while no plan for base LIDs is in force
}

// JobLanes are the lanes at a leaf that a job has alone.
type JobLanes struct {
	Leaf   topology.GUID   `json:"leaf"`
	Spines []topology.GUID `json:"spines"` // at the other ends
}

// JobBase is what the plan of a job for base LIDs is, in figures.
type JobBase struct {
	Epoch  uint64 `json:"epoch"`  // these numbers count for themselves
	Routed bool   `json:"routed"` // the job's own plan routes its base LIDs, or is about to
	phasetable.Summary
	phasetable.Proof
}

// JobHost is a host port of a job.
type JobHost struct {
	GUID topology.GUID `json:"guid"`
	Name string        `json:"name"`
}

// JobWarning is a deviation of a job's plan.
type JobWarning = topology.Finding

// The limits of a job.
const (
	DefaultLease = 24 * time.Hour
	MaxLease     = 366 * 24 * time.Hour
	maxRanks     = 1 << 16
	maxJobName   = 100
)

// Lease returns the lease that the request asks for.
func (q *JobRequest) Lease() time.Duration { return leaseOf(q.LeaseSeconds) }

func leaseOf(seconds int64) time.Duration {
	if seconds == 0 {
		return DefaultLease
	}
	return time.Duration(seconds) * time.Second
}

// check checks a request by itself.
func (q *JobRequest) check() error {
	switch {
	case len(q.Hosts) == 0:
		return BadRequest(`no hosts: want {"hosts": ["node001", "node002"]}, by name, port GUID or LID`)
	case q.RanksPerHost < 0 || q.RanksPerHost > maxRanks:
		return BadRequest("ranks_per_host %d: want 1 to %d", q.RanksPerHost, maxRanks)
	case q.Name != "" && !jobName(q.Name):
		return BadRequest("name %.100q: want a letter, then letters, digits and . _ - : up to %d in all", q.Name, maxJobName)
	}
	return checkLease(q.LeaseSeconds)
}

func checkLease(seconds int64) error {
	if seconds < 0 || seconds > int64(MaxLease/time.Second) {
		return BadRequest("lease_seconds %d: want 1 to %d, or 0 for %d", seconds, int64(MaxLease/time.Second), int64(DefaultLease/time.Second))
	}
	return nil
}

// jobName reports whether a text is a valid job name: not a number, and without characters
// that need quoting.
func jobName(name string) bool {
	for i, c := range []byte(name) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' && c != ':') {
			return false
		}
	}
	return name != "" && len(name) <= maxJobName
}

// handleJobs registers the endpoints of jobs.
func (s *service) handleJobs() {
	s.handle(readers, "GET /v1/jobs", s.listJobs)
	s.handle(readers, "GET /v1/jobs/{job}", s.showJob)
	s.handle(readers, "GET /v1/jobs/{job}/plan", ofPlan(s.jobPlans, sendPlan))
	s.handle(readers, "GET /v1/jobs/{job}/phases", ofPlan(s.jobPlans, sendPhases))
	s.handle(readers, "GET /v1/jobs/{job}/servers/{server...}", ofPlan(s.jobPlans, sendServer))
	s.handle(operators, "POST /v1/jobs", s.createJob)
	s.handle(operators, "POST /v1/jobs/{job}/renew", s.renewJob)
	s.handle(operators, "DELETE /v1/jobs/{job}", s.removeJob)
}

func (s *service) listJobs(w http.ResponseWriter, r *http.Request) error {
	return writeMade(w, r, func() (any, error) { return JobList{append([]Job{}, s.Jobs.Jobs()...)}, nil })
}

func (s *service) showJob(w http.ResponseWriter, r *http.Request) error {
	job, err := s.Jobs.Job(r.PathValue("job"))
	if err != nil {
		return err
	}
	return WriteJSON(w, r, job)
}

// jobPlans returns the plans of a job for the LIDs that the request is for. Where its plan
// sends to base LIDs alone and there is no other for these, it is for both.
func (s *service) jobPlans(r *http.Request) (*Plans, error) {
	name := r.PathValue("job")
	base, err := forBaseLIDs(r)
	if err != nil {
		return nil, err
	}
	plans, err := s.Jobs.JobPlans(name)
	if err != nil || !base {
		return plans, err
	}
	bases, err := s.Jobs.JobBases(name)
	if err != nil {
		return nil, err
	}
	if now := plans.Current(); bases.Current() == nil && now != nil && now.onBaseLIDs() {
		return plans, nil
	}
	return bases, nil
}

// createJob answers POST /v1/jobs.
func (s *service) createJob(w http.ResponseWriter, r *http.Request) error {
	var q JobRequest
	if err := ReadJSON(r, &q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	q.RanksPerHost = max(q.RanksPerHost, 1)
	return s.changeJob(w, r, func(ctx context.Context) (*Job, error) { return s.Jobs.CreateJob(ctx, q) })
}

// renewal is the body of POST /v1/jobs/{job}/renew.
type renewal struct {
	LeaseSeconds int64 `json:"lease_seconds"`
}

// renewJob answers POST /v1/jobs/{job}/renew; without a body the lease is the
// default one.
func (s *service) renewJob(w http.ResponseWriter, r *http.Request) error {
	var q renewal
	if r.ContentLength != 0 {
		if err := ReadJSON(r, &q); err != nil {
			return err
		}
	}
	if err := checkLease(q.LeaseSeconds); err != nil {
		return err
	}
	return s.changeJob(w, r, func(ctx context.Context) (*Job, error) {
		return s.Jobs.RenewJob(ctx, r.PathValue("job"), leaseOf(q.LeaseSeconds))
	})
}

// removeJob answers DELETE /v1/jobs/{job} with the job that was.
func (s *service) removeJob(w http.ResponseWriter, r *http.Request) error {
	return s.changeJob(w, r, func(ctx context.Context) (*Job, error) { return s.Jobs.RemoveJob(ctx, r.PathValue("job")) })
}

// changeJob gives a change its time and answers with the job.
func (s *service) changeJob(w http.ResponseWriter, r *http.Request, change func(context.Context) (*Job, error)) error {
	ctx, cancel := unhurried(w, r, maxChange)
	defer cancel()
	job, err := change(ctx)
	if err != nil {
		return err
	}
	return WriteJSON(w, r, job)
}

// NoJob returns the error of a question about a job that does not exist.
func NoJob(job string) *Error {
	if _, err := strconv.ParseUint(job, 10, 64); err == nil {
		return Errorf(http.StatusNotFound, CodeNotFound, "there is no job %s: it was removed, or its lease has ended; forsctl job list lists those that are", job)
	}
	return Errorf(http.StatusNotFound, CodeNotFound, "no job is called %.100q: it was removed, or its lease has ended; forsctl job list lists those that are", job)
}
