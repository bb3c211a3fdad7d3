package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/forsd/forsd/phasetable"
)

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
