package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/api"
)

// fake acts as forsd, and as Slurm's queue and log.
type fake struct {
	env     map[string]string
	jobs    map[string]api.JobRequest
	unknown []string
	err     error         // in every answer
	hangs   time.Duration // delay before every answer
	queued  *Queued
	log     []string
	later   int
}

var noJob = api.NotFound("no job")

func (f *fake) wait(ctx context.Context) error {
	select {
	case <-time.After(f.hangs):
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fake) Job(ctx context.Context, name string) (*api.Job, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	if _, ok := f.jobs[name]; !ok {
		return nil, noJob
	}
	return &api.Job{Name: name}, nil
}

func (f *fake) CreateJob(ctx context.Context, q api.JobRequest) (*api.Job, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	if _, twice := f.jobs[q.Name]; twice {
		return nil, api.Refused("%s is there", q.Name)
	}
	f.jobs[q.Name] = q
	return &api.Job{Unknown: f.unknown}, nil
}

func (f *fake) RemoveJob(ctx context.Context, name string) (*api.Job, error) {
	j, err := f.Job(ctx, name)
	if errors.Is(err, noJob) {
		f.log = append(f.log, "an order was refused")
	}
	delete(f.jobs, name)
	return j, err
}

func script(t *testing.T, f *fake, env string) *Script {
	t.Helper()
	f.env, f.jobs = map[string]string{}, map[string]api.JobRequest{}
	for _, word := range strings.Fields(env) {
		name, value, _ := strings.Cut(word, "=")
		f.env[name] = value
	}
	return &Script{Getenv: func(name string) string { return f.env[name] }, Jobs: f, Within: 5 * time.Second,
		Queue:  func(context.Context, string) (*Queued, error) { return f.queued, nil },
		Later:  func() error { f.later++; return nil },
		Report: func(text string) { f.log = append(f.log, text) }}
}

const two = "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] "

func TestProlog(t *testing.T) {
	in := func(d time.Duration) *Queued { return &Queued{End: time.Now().Add(d), Nodes: "n[1-2]"} }
	for name, c := range map[string]struct {
		env   string
		fake  fake
		lease time.Duration // of the job, or 0
		later int
		log   string
		took  time.Duration
	}{
		"Slurm tells the end":     {env: two + fmt.Sprintf("SLURM_JOB_END_TIME=%d", time.Date(2000, 1, 4, 0, 0, 0, 0, time.UTC).Unix()), lease: 73 * time.Hour},
		"Slurm before 23.02":      {env: two, fake: fake{queued: in(0)}, lease: 73 * time.Hour},
		"no time limit":           {env: two, fake: fake{queued: &Queued{}}, lease: api.MaxLease},
		"the end is not known":    {env: two, lease: api.DefaultLease, log: "its time limit is not known: squeue does not list it"},
		"one node":                {env: "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1"},
		"not of Slurm":            {env: "SLURM_JOB_ID=7", log: "SLURM_JOB_NODELIST is not set"},
		"a list that is wrong":    {env: "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1", log: "SLURM_JOB_NODELIST"},
		"a host is not known":     {env: two, fake: fake{queued: in(0), unknown: []string{"n2", "n3"}}, lease: 73 * time.Hour, log: "does not have n[2-3]: the plan leaves them out"},
		"forsd is not there":      {env: two, fake: fake{queued: in(0), err: errors.New("connection refused")}, later: 1, log: "connection refused; trying again for 15m"},
		"forsd hangs":             {env: two, fake: fake{queued: in(0), hangs: time.Hour}, later: 1, log: "did not answer within 5s; trying again", took: 5 * time.Second},
		"forsd has no plan yet":   {env: two, fake: fake{queued: in(0), err: api.Errorf(api.CodeNoPlan, "no plan")}, later: 1, log: "no plan; trying again"},
		"forsd refuses for good":  {env: two, fake: fake{queued: in(0), err: api.BadRequest("2 ports are called n1")}, log: "2 ports are called n1"},
		"a part of a larger job":  {env: two + "SLURM_HET_JOB_ID=6", fake: fake{queued: in(0)}, lease: 73 * time.Hour},
		"a name of 64 characters": {env: "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=" + strings.Repeat("n", 63) + "[1-2]", fake: fake{queued: in(0)}, lease: 73 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := c.fake
				if f.queued != nil && !f.queued.End.IsZero() {
					f.queued = in(72 * time.Hour)
				}
				s := script(t, &f, c.env)
				began := time.Now()
				s.Prolog(t.Context())
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %s, not %s", took, c.took)
				}
				if lease := time.Duration(f.jobs["slurm-7"].LeaseSeconds) * time.Second; lease != c.lease {
					t.Errorf("the lease is %s, not %s", lease, c.lease)
				}
				if text := strings.Join(f.log, "\n"); f.later != c.later || !strings.Contains(text, c.log) || (text == "") != (c.log == "") {
					t.Errorf("tried again %d times, log %q; want %d, %q", f.later, text, c.later, c.log)
				}
			})
		})
	}
}

// TestRequeued checks that the prolog replaces the job of an earlier run.
func TestRequeued(t *testing.T) {
	f := &fake{queued: &Queued{}}
	s := script(t, f, two)
	f.jobs["slurm-7"] = api.JobRequest{Hosts: []string{"n8", "n9"}}
	s.Prolog(t.Context())
	if diff := cmp.Diff([]string{"n1", "n2"}, f.jobs["slurm-7"].Hosts); diff != "" || len(f.log) > 0 {
		t.Errorf("%s %q", diff, f.log)
	}
	s.Epilog(t.Context())
	s.Epilog(t.Context()) // the job is gone, as it should be
	if len(f.jobs) > 0 || len(f.log) > 0 {
		t.Errorf("left %v, %q", f.jobs, f.log)
	}
}

// TestRetry makes forsd come back after a while.
func TestRetry(t *testing.T) {
	for name, c := range map[string]struct {
		epilog bool
		queued *Queued
		back   time.Duration
		want   int // jobs
		log    string
	}{
		"the job runs":             {queued: &Queued{Nodes: "n[1-2]"}, back: 20 * time.Second, want: 1},
		"the job has ended":        {back: 20 * time.Second},
		"it runs on other nodes":   {queued: &Queued{Nodes: "n[3-4]"}, back: 20 * time.Second},
		"never":                    {queued: &Queued{Nodes: "n[1-2]"}, back: time.Hour, log: "given up after 15m0s: away"},
		"the epilog":               {epilog: true, back: 20 * time.Second},
		"the epilog, and requeued": {epilog: true, queued: &Queued{Nodes: "n[1-2]"}, back: 20 * time.Second, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{queued: c.queued, err: errors.New("away")}
				s := script(t, f, two)
				if c.epilog {
					f.jobs["slurm-7"] = api.JobRequest{}
				}
				time.AfterFunc(c.back, func() { f.err = nil })
				s.Retry(t.Context(), c.epilog)
				if text := strings.Join(f.log, "\n"); len(f.jobs) != c.want || !strings.Contains(text, c.log) || (text == "") != (c.log == "") {
					t.Errorf("%d jobs, log %q", len(f.jobs), text)
				}
			})
		})
	}
}

func TestTaskProlog(t *testing.T) {
	het := two + "SLURM_JOB_ID_HET_GROUP_0=7 SLURM_JOB_NODELIST_HET_GROUP_0=n[1-2] SLURM_JOB_ID_HET_GROUP_1=8 SLURM_JOB_NODELIST_HET_GROUP_1=n[3-4] SLURM_JOB_ID_HET_GROUP_2=9 SLURM_JOB_NODELIST_HET_GROUP_2=n5 "
	for name, c := range map[string]struct {
		env, server, want string
		hangs             time.Duration
	}{
		"TCP":                   {env: two, server: "http://a:1", want: "export FORSD_JOB=slurm-7\nexport FORSD_TABLE=http://a:1\n"},
		"a socket":              {env: two, server: "/run/s", want: "export FORSD_JOB=slurm-7\nexport FORSD_TABLE=unix:/run/s\n"},
		"the shim":              {env: two + "FORS_SHIM=libforsmpi.so", server: "x", want: "export FORSD_JOB=slurm-7\nexport FORSD_TABLE=x\nexport LD_PRELOAD=libforsmpi.so\n"},
		"the shim and others":   {env: two + "FORS_SHIM=/l/s.so LD_PRELOAD=a.so:b.so", server: "x", want: "export FORSD_JOB=slurm-7\nexport FORSD_TABLE=x\nexport LD_PRELOAD=/l/s.so:a.so:b.so\n"},
		"the shim is there":     {env: two + "FORS_SHIM=b.so LD_PRELOAD=a.so:b.so", server: "x", want: "export FORSD_JOB=slurm-7\nexport FORSD_TABLE=x\n"},
		"the shim of no job":    {env: "SLURM_JOB_ID=6 SLURM_JOB_NODELIST=n[1-2] FORS_SHIM=libforsmpi.so"},
		"no job of forsd":       {env: "SLURM_JOB_ID=6 SLURM_JOB_NODELIST=n[1-2]"},
		"one node":              {env: "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1"},
		"the first part":        {env: het + "SLURMD_NODENAME=n2", server: "x", want: "export FORSD_JOB=slurm-7\nexport FORSD_TABLE=x\n"},
		"the second part":       {env: het + "SLURMD_NODENAME=n3 FORSD_JOB=slurm-7", server: "x", want: "export FORSD_JOB=slurm-8\nexport FORSD_TABLE=x\n"},
		"a part on one node":    {env: het + "SLURMD_NODENAME=n5 FORSD_JOB=slurm-7", want: "unset FORSD_JOB\n"},
		"a job that users name": {env: het + "SLURMD_NODENAME=n5 FORSD_JOB=mine"},
		"forsd hangs":           {env: two, hangs: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{hangs: c.hangs}
				s := script(t, f, c.env)
				f.jobs["slurm-7"], f.jobs["slurm-8"] = api.JobRequest{}, api.JobRequest{}
				began := time.Now()
				if got := s.TaskProlog(t.Context(), c.server); got != c.want || time.Since(began) > 5*time.Second {
					t.Errorf("prints %q after %s, want %q", got, time.Since(began), c.want)
				}
			})
		})
	}
}

// TestQueue parses output of squeue, which lists other tasks of an array and other parts of a
// heterogeneous job along with the requested one.
func TestQueue(t *testing.T) {
	out := "13|RUNNING|1795621708|Hca0001\n15|CONFIGURING|1795621709|Hca[0000,0002]\n14|RUNNING|NONE|Hca0002\n16|PENDING|N/A|\n17|RUNNING|soon|x\n"
	for job, want := range map[string]*Queued{
		"13": {time.Unix(1795621708, 0), "Hca0001"}, "15": {time.Unix(1795621709, 0), "Hca[0000,0002]"}, "14": {time.Time{}, "Hca0002"}, "16": nil, "1": nil,
	} {
		if q, err := readQueue(out, job); err != nil || !cmp.Equal(q, want) {
			t.Errorf("job %s is %+v, %v", job, q, err)
		}
	}
	if _, err := readQueue(out, "17"); err == nil {
		t.Error("an end that cannot be read is none")
	}
}
