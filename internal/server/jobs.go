package server

import (
	"context"
	"net/http"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
)

// Jobs is what the daemon answers and does for jobs: exchanges among some of the
// servers, each with a plan of its own. A job is named by its number or by the
// name that it was given. The methods are called from many goroutines; their
// errors are like those of Backend.
type Jobs interface {
	// Jobs lists the jobs, ascending by number.
	Jobs() []api.Job
	// Job is one job with its hosts.
	Job(job string) (*api.Job, error)
	// JobPlans holds the plan of a job, and that for base LIDs. They are closed when the job
	// ends.
	JobPlans(job string) (plans, bases *published.Plans, err error)
	// CreateJob plans a job and puts its plan in force.
	CreateJob(ctx context.Context, q api.JobRequest) (*api.Job, error)
	// RenewJob lets a job's lease end so long from now, 0 for the default.
	RenewJob(ctx context.Context, job string, lease time.Duration) (*api.Job, error)
	// RemoveJob ends a job.
	RemoveJob(ctx context.Context, job string) (*api.Job, error)
}

// The limits of a job.
const (
	maxRanks   = 1 << 16
	maxJobName = 100
)

// checkJob checks a request by itself.
func checkJob(q *api.JobRequest) error {
	switch {
	case len(q.Hosts) == 0:
		return api.BadRequest(`no hosts: want {"hosts": ["node001", "node002"]}, by name, port GUID or LID`)
	case q.RanksPerHost < 0 || q.RanksPerHost > maxRanks:
		return api.BadRequest("ranks_per_host %d: want 1 to %d", q.RanksPerHost, maxRanks)
	case q.Name != "" && !jobName(q.Name):
		return api.BadRequest("name %.100q: want a letter, then letters, digits and . _ - : up to %d in all", q.Name, maxJobName)
	}
	return checkLease(q.LeaseSeconds)
}

func checkLease(seconds int64) error {
	if seconds < 0 || seconds > int64(api.MaxLease/time.Second) {
		return api.BadRequest("lease_seconds %d: want 1 to %d, or 0 for %d", seconds, int64(api.MaxLease/time.Second), int64(api.DefaultLease/time.Second))
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
	s.handle(api.Reader, "GET /v1/jobs", look(func(*http.Request) (any, error) { return api.JobList{Jobs: append([]api.Job{}, s.Jobs.Jobs()...)}, nil }))
	s.handle(api.Reader, "GET /v1/jobs/{job}", look(func(r *http.Request) (any, error) { return s.Jobs.Job(r.PathValue("job")) }))
	s.handle(api.Reader, "GET /v1/jobs/{job}/plan", ofPlan(s.jobPlans, sendPlan))
	s.handle(api.Reader, "GET /v1/jobs/{job}/phases", ofPlan(s.jobPlans, sendPhases))
	s.handle(api.Reader, "GET /v1/jobs/{job}/servers/{server...}", ofPlan(s.jobPlans, sendServer))
	s.handle(api.Reader, "POST /v1/jobs/{job}/times", ofPlan(s.jobPlans, ofTimes(s.Backend)))
	s.handle(api.Operator, "POST /v1/jobs", work(s.createJob))
	s.handle(api.Operator, "POST /v1/jobs/{job}/renew", work(s.renewJob))
	s.handle(api.Operator, "DELETE /v1/jobs/{job}", work(func(r *http.Request) (any, error) { return s.Jobs.RemoveJob(r.Context(), r.PathValue("job")) }))
}

// jobPlans returns the plans of a job for the LIDs that the request is for. Where its plan
// sends to base LIDs alone and there is no other for these, it is for both.
func (s *service) jobPlans(r *http.Request) (*published.Plans, error) {
	base, err := forBaseLIDs(r)
	if err != nil {
		return nil, err
	}
	plans, bases, err := s.Jobs.JobPlans(r.PathValue("job"))
	if err != nil || !base {
		return plans, err
	}
	if now := plans.Current(); bases.Current() == nil && now != nil && now.OnBaseLIDs() {
		return plans, nil
	}
	return bases, nil
}

// createJob answers POST /v1/jobs.
func (s *service) createJob(r *http.Request) (any, error) {
	var q api.JobRequest
	if err := ReadJSON(r, &q); err != nil {
		return nil, err
	}
	if err := checkJob(&q); err != nil {
		return nil, err
	}
	q.RanksPerHost = max(q.RanksPerHost, 1)
	return s.Jobs.CreateJob(r.Context(), q)
}

// renewJob answers POST /v1/jobs/{job}/renew; without a body the lease is the
// default one.
func (s *service) renewJob(r *http.Request) (any, error) {
	var q api.Renewal
	if r.ContentLength != 0 {
		if err := ReadJSON(r, &q); err != nil {
			return nil, err
		}
	}
	if err := checkLease(q.LeaseSeconds); err != nil {
		return nil, err
	}
	return s.Jobs.RenewJob(r.Context(), r.PathValue("job"), api.LeaseOf(q.LeaseSeconds))
}
