package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// fakeJobs holds the jobs of the fake daemon: planned by the planner, at fixed times. Their
// numbers start at 43.
type fakeJobs struct {
	*fakeDaemon
	mu   sync.Mutex
	last uint64
	jobs []*fakeJob
}

type fakeJob struct {
	api.Job
	plans *published.Plans
}

func (d *fakeJobs) find(name string) (*fakeJob, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range d.jobs {
		if j.Name == name || strconv.FormatUint(j.ID, 10) == name {
			return j, nil
		}
	}
	return nil, api.NoJob(name)
}

func (d *fakeJobs) Jobs() (out []api.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range d.jobs {
		j := j.Job
		j.Hosts = nil
		out = append(out, j)
	}
	return out
}

func (d *fakeJobs) Job(name string) (*api.Job, error) {
	j, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return &j.Job, nil
}

func (d *fakeJobs) JobPlans(name string) (plans, bases *published.Plans, err error) {
	j, err := d.find(name)
	if err != nil {
		return nil, nil, err
	}
	return j.plans, &published.Plans{}, nil
}

func (d *fakeJobs) CreateJob(_ context.Context, q api.JobRequest) (*api.Job, error) {
	members, err := planner.FindMembers(d.result.Tree, q.Hosts)
	if err != nil {
		return nil, api.BadRequest("%v", err)
	}
	var guids []ib.GUID
	for _, m := range members {
		guids = append(guids, m.GUID)
	}
	s, err := planner.PlanJob(context.Background(), d.result.Tree, guids, planner.Settings{}, d.result.Tables)
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = max(d.last, 42) + 1
	table, r := s.Table(d.last), s.Report()
	table.Job = d.last
	data, err := phasetable.Encode(table)
	if err != nil {
		return nil, err
	}
	view, err := phasetable.Decode(data)
	if err != nil {
		return nil, err
	}
	p, err := published.NewPlan(view, json.RawMessage("{}"), began)
	if err != nil {
		return nil, err
	}
	j := &fakeJob{api.Job{ID: d.last, Name: q.Name, Epoch: d.last, PublishedAt: began, Created: began, Expires: began.Add(api.LeaseOf(q.LeaseSeconds)), RanksPerHost: q.RanksPerHost,
		Servers: r.Servers, Summary: r.Summary, Proof: r.Proof,
		Missing: []api.JobHost{}, Warnings: []api.Finding{}}, &published.Plans{}}
	for _, m := range members {
		j.Hosts = append(j.Hosts, api.JobHost(m))
	}
	j.plans.Publish(p)
	d.jobs = append(d.jobs, j)
	return &j.Job, nil
}

func (d *fakeJobs) RenewJob(_ context.Context, name string, lease time.Duration) (*api.Job, error) {
	j, err := d.find(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	j.Expires = began.Add(lease)
	return &j.Job, nil
}

func (d *fakeJobs) RemoveJob(_ context.Context, name string) (*api.Job, error) {
	j, err := d.find(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs = slices.DeleteFunc(d.jobs, func(x *fakeJob) bool { return x == j })
	return &j.Job, nil
}
