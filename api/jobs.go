package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
)

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
	Missing  []JobHost  `json:"missing"`         // hosts that the plan leaves out
	Hosts    []JobHost  `json:"hosts,omitempty"` // all of them; absent in lists
	Warnings []Finding  `json:"warnings"`
	Unknown  []string   `json:"unknown,omitempty"`   // hosts that were left out when the job was created, because the fabric does not have them
	OwnLanes bool       `json:"own_lanes,omitempty"` // asked for
	Lanes    []JobLanes `json:"lanes,omitempty"`     // that no other job uses; none for a job on one leaf
	Base     *JobBase   `json:"base,omitempty"`      // absent while no plan for base LIDs is in force
}

// JobLanes are the lanes at a leaf that a job has alone.
type JobLanes struct {
	Leaf   ib.GUID   `json:"leaf"`
	Spines []ib.GUID `json:"spines"` // at the other ends
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
	GUID ib.GUID `json:"guid"`
	Name string  `json:"name"`
}

// The limits of a job.
const (
	DefaultLease = 24 * time.Hour
	MaxLease     = 366 * 24 * time.Hour
)

// LeaseOf is a lease in seconds as a duration, 0 for the default.
func LeaseOf(seconds int64) time.Duration {
	if seconds == 0 {
		return DefaultLease
	}
	return time.Duration(seconds) * time.Second
}

// Renewal is the body of POST /v1/jobs/{job}/renew.
type Renewal struct {
	LeaseSeconds int64 `json:"lease_seconds"`
}

// jobPath returns the path of a job, given by its number or name.
func jobPath(job, rest string) string { return "/v1/jobs/" + url.PathEscape(job) + rest }

// Jobs asks for the jobs, ascending by number.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	var out JobList
	err := c.call(ctx, http.MethodGet, "/v1/jobs", nil, &out, maxDocument)
	return out.Jobs, err
}

// Job asks for one job with its hosts.
func (c *Client) Job(ctx context.Context, job string) (*Job, error) {
	return ask[Job](ctx, c, http.MethodGet, jobPath(job, ""), nil)
}

// CreateJob has the daemon plan a job.
func (c *Client) CreateJob(ctx context.Context, q JobRequest) (*Job, error) {
	return ask[Job](ctx, c, http.MethodPost, "/v1/jobs", q)
}

// RenewJob lets a job's lease end so long from now, in whole seconds, 0 for the
// default.
func (c *Client) RenewJob(ctx context.Context, job string, lease time.Duration) (*Job, error) {
	return ask[Job](ctx, c, http.MethodPost, jobPath(job, "/renew"), Renewal{int64(lease / time.Second)})
}

// RemoveJob ends a job and returns what it was.
func (c *Client) RemoveJob(ctx context.Context, job string) (*Job, error) {
	return ask[Job](ctx, c, http.MethodDelete, jobPath(job, ""), nil)
}

// JobPhases asks for the phases of a job's plan, or of that for base LIDs, as the binary
// table or as phases.csv, and their epoch.
func (c *Client) JobPhases(ctx context.Context, job string, csv, base bool) (data []byte, epoch uint64, err error) {
	media, path := phasetable.MediaType, "/phases"
	if base {
		path += "?lids=base"
	}
	if csv {
		media = "text/csv"
	}
	return c.phases(ctx, jobPath(job, path), http.Header{"Accept": {media}})
}

// WaitJob waits for a plan of the job of an epoch other than seen, by long polls,
// and returns its table, checked whole; 0 returns the one in force. It ends with
// ctx's error, or with that of a request that fails: the job may have ended.
func (c *Client) WaitJob(ctx context.Context, job string, seen uint64) (*phasetable.View, error) {
	header := http.Header{"Accept": {phasetable.MediaType}, "Prefer": {"wait=60"}, "If-None-Match": {ETag(seen)}}
	for {
		data, _, err := c.phases(ctx, jobPath(job, "/phases"), header)
		if err != nil {
			return nil, err
		}
		if data != nil {
			return phasetable.Decode(data)
		}
	}
}

// String names a job as people do: "job 6 (slurm-123)".
func (j *Job) String() string {
	text := "job " + strconv.FormatUint(j.ID, 10)
	if j.Name != "" {
		text += " (" + j.Name + ")"
	}
	return text
}
