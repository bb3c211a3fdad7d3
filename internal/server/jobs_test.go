package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
)

// fakeJobs has one job, of two servers, and takes every request.
type fakeJobs struct {
	*fake
	job   api.Job
	plans *published.Plans
}

func newFakeJobs(t testing.TB, f *fake) *fakeJobs {
	at := started.Add(2 * time.Minute)
	j := &fakeJobs{fake: f, plans: &published.Plans{}, job: api.Job{ID: 43, Name: "slurm-1234", Epoch: 43, PublishedAt: at, Created: at, Expires: at.Add(api.DefaultLease), RanksPerHost: 2,
		Servers: 4, Summary: phasetable.Summarize("exact", 3, 3), Proof: phasetable.Proof{Certificate: "servers"}, Missing: []api.JobHost{}, Warnings: []api.Finding{}}}
	j.publish(t, 43)
	return j
}

// publish puts a plan of the job in force.
func (j *fakeJobs) publish(t testing.TB, epoch uint64) {
	t.Helper()
	table := shift(epoch)
	table.Job = 43
	data, err := phasetable.Encode(table)
	if err != nil {
		t.Fatal(err)
	}
	view, err := phasetable.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	p, err := published.NewPlan(view, json.RawMessage(`{}`), j.job.PublishedAt)
	if err != nil {
		t.Fatal(err)
	}
	j.plans.Publish(p)
}

func (j *fakeJobs) find(job string) (*api.Job, error) {
	if job != "43" && job != j.job.Name {
		return nil, api.NoJob(job)
	}
	out := j.job
	for s := range 4 {
		out.Hosts = append(out.Hosts, api.JobHost{GUID: ib.GUID(0x10 - s), Name: fmt.Sprintf("node%03d mlx5_0", s)})
	}
	return &out, j.fails
}

func (j *fakeJobs) Jobs() []api.Job                  { return []api.Job{j.job} }
func (j *fakeJobs) Job(job string) (*api.Job, error) { return j.find(job) }

func (j *fakeJobs) JobPlans(job string) (plans, bases *published.Plans, err error) {
	_, err = j.find(job)
	return j.plans, &published.Plans{}, err
}

func (j *fakeJobs) CreateJob(_ context.Context, q api.JobRequest) (*api.Job, error) {
	j.calls = append(j.calls, fmt.Sprintf("create %q of %s with %d ranks for %v", q.Name, strings.Join(q.Hosts, " "), q.RanksPerHost, api.LeaseOf(q.LeaseSeconds)))
	return j.find("43")
}

func (j *fakeJobs) RenewJob(_ context.Context, job string, lease time.Duration) (*api.Job, error) {
	j.calls = append(j.calls, fmt.Sprintf("renew %s for %v", job, lease))
	return j.find(job)
}

func (j *fakeJobs) RemoveJob(_ context.Context, job string) (*api.Job, error) {
	j.calls = append(j.calls, "remove "+job)
	return j.find(job)
}

func TestJobs(t *testing.T) {
	for _, c := range []struct {
		tcp          bool
		method, path string
		body         string
		status       int
		want         string // in the answer
		call         string // of the backend
	}{
		{false, "GET", "/v1/jobs", "", 200, `{"jobs":[{"id":43,"name":"slurm-1234","epoch":43,`, ""},
		{true, "GET", "/v1/jobs/43", "", 200, `"hosts":[{"guid":"0x0000000000000010","name":"node000 mlx5_0"}`, ""},
		{true, "GET", "/v1/jobs/slurm-1234", "", 200, `"id":43`, ""},
		{true, "GET", "/v1/jobs/44", "", 404, "there is no job 44", ""},
		{true, "GET", "/v1/jobs/other/phases", "", 404, `no job is called \"other\"`, ""},
		{true, "GET", "/v1/jobs/43/phases?format=csv", "", 200, phasetable.CSVHeader, ""},
		{true, "GET", "/v1/jobs/43/servers/2", "", 200, `{"epoch":43,"server":{"guid":"0x000000000000000f"`, ""},
		{true, "GET", "/v1/jobs/43/servers/nobody", "", 404, "no server of the plan", ""},
		{false, "POST", "/v1/jobs", `{"hosts":["a","b"]}`, 200, `"id":43`, `create "" of a b with 1 ranks for 24h0m0s`},
		{false, "POST", "/v1/jobs", `{"name":"x.1-y:z_","hosts":["a"],"ranks_per_host":4,"lease_seconds":60}`, 200, `"id":43`, `create "x.1-y:z_" of a with 4 ranks for 1m0s`},
		{false, "POST", "/v1/jobs", `{"hosts":[]}`, 400, "no hosts", ""},
		{false, "POST", "/v1/jobs", `{"hosts":["a"],"name":"7"}`, 400, "want a letter", ""},
		{false, "POST", "/v1/jobs", `{"hosts":["a"],"name":"a/b"}`, 400, "want a letter", ""},
		{false, "POST", "/v1/jobs", `{"hosts":["a"],"ranks_per_host":-1}`, 400, "ranks_per_host -1", ""},
		{false, "POST", "/v1/jobs", `{"hosts":["a"],"lease_seconds":99999999999}`, 400, "lease_seconds", ""},
		{false, "POST", "/v1/jobs", `{"hosts":["a"],"lease":60}`, 400, "unknown field", ""},
		{false, "POST", "/v1/jobs/43/renew", "", 200, `"id":43`, "renew 43 for 24h0m0s"},
		{false, "POST", "/v1/jobs/slurm-1234/renew", `{"lease_seconds":90}`, 200, `"id":43`, "renew slurm-1234 for 1m30s"},
		{false, "POST", "/v1/jobs/43/renew", `{"lease_seconds":-1}`, 400, "lease_seconds -1", ""},
		{false, "DELETE", "/v1/jobs/43", "", 200, `"id":43`, "remove 43"},
		{true, "POST", "/v1/jobs", `{"hosts":["a"]}`, 403, "Unix socket only", ""},
		{true, "POST", "/v1/jobs/43/renew", "", 403, "Unix socket only", ""},
		{true, "DELETE", "/v1/jobs/43", "", 403, "Unix socket only", ""},
		{false, "PUT", "/v1/jobs/43", "", 405, "use DELETE, GET, HEAD", ""},
	} {
		s := newSite(t)
		w := request(Handler(s.Config, c.tcp), c.method, c.path, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", c.method, c.path, c.body, w.Code, w.Body, c.status, c.want)
		}
		if calls := strings.Join(s.calls, "; "); calls != c.call {
			t.Errorf("%s %s %s did %q, want %q", c.method, c.path, c.body, calls, c.call)
		}
	}
	s := newSite(t)
	s.Jobs = nil
	if w := request(Handler(s.Config, false), "GET", "/v1/jobs", ""); w.Code != 404 {
		t.Errorf("a service without jobs answers %d", w.Code)
	}
}

// TestJobPoll waits for the plans of a job: they are its own, and its end ends the
// wait.
func TestJobPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		jobs := s.Jobs.(*fakeJobs)
		h := Handler(s.Config, true)
		time.AfterFunc(time.Second, func() { s.Plans.Publish(publish(t, 44)) })
		time.AfterFunc(2*time.Second, func() { jobs.publish(t, 45) })
		time.AfterFunc(9*time.Second, jobs.plans.End)
		for _, want := range []struct {
			match, etag string
			status      int
			at          time.Duration
		}{{`"43"`, `"45"`, 200, 2 * time.Second}, {`"45"`, "", 404, 9 * time.Second}, {`"45"`, "", 404, 9 * time.Second}} {
			w := request(h, "GET", "/v1/jobs/43/phases", "", "If-None-Match", want.match, "Prefer", "wait=30")
			if at := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); w.Code != want.status || w.Header().Get("ETag") != want.etag || at != want.at {
				t.Errorf("%d with ETag %s after %v, want %+v", w.Code, w.Header().Get("ETag"), at, want)
			}
		}
		if w := request(h, "GET", "/v1/jobs/43/phases", ""); w.Code != 404 {
			t.Errorf("a job that has ended answers %d", w.Code)
		}
	})
}

func TestJobClient(t *testing.T) {
	s, l := newSite(t), newPipes()
	server := httpServer(context.Background(), Handler(s.Config, false), nil)
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	c := l.client(t)
	defer c.Close()
	jobs, err := c.Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].String() != "job 43 (slurm-1234)" {
		t.Errorf("%v, %v", jobs, err)
	}
	job, err := c.Job(t.Context(), "slurm-1234")
	if err != nil || job.ID != 43 || len(job.Hosts) != 4 {
		t.Errorf("%+v, %v", job, err)
	}
	view, err := c.WaitJob(t.Context(), "43", 0)
	if err != nil || view.Epoch() != 43 || view.Job() != 43 {
		t.Errorf("%v, %v", view, err)
	}
	csv, epoch, err := c.JobPhases(t.Context(), "43", true, false)
	if err != nil || epoch != 43 || !strings.HasPrefix(string(csv), phasetable.CSVHeader) {
		t.Errorf("%.40s, %v", csv, err)
	}
	_, err = c.CreateJob(t.Context(), api.JobRequest{Hosts: []string{"a"}, LeaseSeconds: 5})
	_, err2 := c.RenewJob(t.Context(), "43", time.Minute)
	_, err3 := c.RemoveJob(t.Context(), "43")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Error(err)
	}
	if want := []string{`create "" of a with 1 ranks for 5s`, "renew 43 for 1m0s", "remove 43"}; !slices.Equal(s.calls, want) {
		t.Errorf("it did %q, want %q", s.calls, want)
	}
	var e *api.Error
	if _, err := c.Job(t.Context(), "7"); !errors.As(err, &e) || e.Code != api.CodeNotFound {
		t.Errorf("a job that is not: %v", err)
	}
}
