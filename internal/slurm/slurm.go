// Package slurm is what Slurm's prolog and epilogs do for forsd: each Slurm job on more
// than one node gets a job of its own, which ends with it. Nothing here holds Slurm up for
// longer than a few seconds, and nothing makes a Slurm job fail.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/hostlist"
)

// Jobs is what of forsd the scripts use.
type Jobs interface {
	Job(ctx context.Context, job string) (*api.Job, error)
	CreateJob(ctx context.Context, q api.JobRequest) (*api.Job, error)
	RemoveJob(ctx context.Context, job string) (*api.Job, error)
}

// Script is one run of a script of Slurm.
type Script struct {
	Getenv func(string) string
	Jobs   Jobs
	Queue  func(ctx context.Context, job string) (*Queued, error) // nil for a job that Slurm does not run
	Within time.Duration                                          // for all questions to forsd
	Later  func() error                                           // has Retry run in a process of its own
	Report func(text string)                                      // for the system's log
}

// Queued is a job that Slurm starts or runs.
type Queued struct {
	End   time.Time // zero where the job has no time limit
	Nodes string    // as in SLURM_JOB_NODELIST
}

// queueWithin bounds a question to Slurm.
const queueWithin = 2 * time.Second

// Grace is how long a lease outlasts the time limit: the epilog ends the job.
const Grace = time.Hour

// Name returns what the job of a Slurm job is called.
func Name(id string) string { return "slurm-" + id }

// nodes lists the nodes of the Slurm job; none if it is not for forsd.
func (s *Script) nodes() []string {
	id, list := s.Getenv("SLURM_JOB_ID"), s.Getenv("SLURM_JOB_NODELIST")
	if id == "" || list == "" {
		s.Report("SLURM_JOB_ID or SLURM_JOB_NODELIST is not set: run this from Slurm's configuration, by PrologSlurmctld or EpilogSlurmctld")
		return nil
	}
	nodes, err := hostlist.Expand(list)
	if err != nil {
		s.Report(fmt.Sprintf("%s gets no plan of its own: SLURM_JOB_NODELIST: %v", Name(id), err))
	}
	return nodes
}

// Prolog has forsd plan the Slurm job that starts. Where forsd does not answer, it
// is asked again later.
func (s *Script) Prolog(ctx context.Context) {
	nodes := s.nodes()
	if len(nodes) < 2 {
		return // what stays on a node needs no plan
	}
	name := Name(s.Getenv("SLURM_JOB_ID"))
	lease := s.lease(ctx)
	err := s.create(ctx, name, nodes, lease)
	if err == nil {
		return
	}
	s.again(fmt.Sprintf("%s has no plan of its own: %v", name, err), err)
}

// Epilog ends the job of a Slurm job that has ended.
func (s *Script) Epilog(ctx context.Context) {
	if len(s.nodes()) < 2 {
		return
	}
	name := Name(s.Getenv("SLURM_JOB_ID"))
	if err := s.remove(ctx, name); err != nil {
		s.again(fmt.Sprintf("%s could not be ended: %v", name, err), err)
	}
}

// again reports an error, and lets the operation be tried again if that may help.
func (s *Script) again(text string, err error) {
	if !passing(err) {
		s.Report(text)
		return
	}
	if err := s.Later(); err != nil {
		s.Report(fmt.Sprintf("%s; it cannot be tried again: %v", text, err))
		return
	}
	s.Report(fmt.Sprintf("%s; trying again for %s", text, RetryFor))
}

// passing reports whether an error may be temporary: forsd is unreachable, or busy.
func passing(err error) bool {
	var e *api.Error
	return !errors.As(err, &e) || e.Status != http.StatusBadRequest && e.Status != http.StatusNotFound
}

// within bounds what is asked of forsd, and says so where it did not answer.
func (s *Script) within(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Within, fmt.Errorf("forsd did not answer within %s", s.Within))
	defer cancel()
	err := ask(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// create has forsd plan the exchange of the nodes that it knows. A job of that name is of a
// run of the Slurm job before it was requeued.
func (s *Script) create(ctx context.Context, name string, nodes []string, lease time.Duration) error {
	return s.within(ctx, func(ctx context.Context) error {
		if _, err := s.Jobs.RemoveJob(ctx, name); err != nil && !unknown(err) {
			return err
		}
		j, err := s.Jobs.CreateJob(ctx, api.JobRequest{Name: name, Hosts: nodes, LeaseSeconds: int64(lease / time.Second), SkipUnknown: true})
		if err == nil && len(j.Unknown) > 0 {
			s.Report(fmt.Sprintf("%s: the fabric does not have %s: the plan leaves them out", name, hostlist.Compress(j.Unknown)))
		}
		return err
	})
}

func (s *Script) remove(ctx context.Context, name string) error {
	return s.within(ctx, func(ctx context.Context) error {
		if _, err := s.Jobs.RemoveJob(ctx, name); err != nil && !unknown(err) {
			return err
		}
		return nil
	})
}

// unknown reports whether forsd answered that it does not know the job.
func unknown(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// lease is how long the job of the Slurm job may last. Slurm tells its end from 23.02 on;
// before, its queue does.
func (s *Script) lease(ctx context.Context) time.Duration {
	id := s.Getenv("SLURM_JOB_ID")
	end, err := time.Time{}, error(nil)
	if seconds, perr := strconv.ParseInt(s.Getenv("SLURM_JOB_END_TIME"), 10, 64); perr == nil && seconds > 0 {
		end = time.Unix(seconds, 0)
	} else {
		var q *Queued
		if q, err = s.queue(ctx, id); q != nil {
			end = q.End
		} else if err == nil {
			err = errors.New("squeue does not list it")
		}
	}
	switch {
	case err != nil:
		s.Report(fmt.Sprintf("%s keeps its plan for %s, because its time limit is not known: %v", Name(id), api.DefaultLease, err))
		return api.DefaultLease
	case end.IsZero():
		return api.MaxLease
	}
	return min(api.MaxLease, max(0, time.Until(end).Truncate(time.Second))+Grace)
}

func (s *Script) queue(ctx context.Context, id string) (*Queued, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, queueWithin, fmt.Errorf("squeue did not answer within %s", queueWithin))
	defer cancel()
	q, err := s.Queue(ctx, id)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return q, err
}

// RetryFor is how long forsd is asked again.
const RetryFor = 15 * time.Minute

// Retry tries what Prolog or Epilog could not do until forsd answers, as long as
// Slurm runs the job, or has ended it.
func (s *Script) Retry(ctx context.Context, epilog bool) {
	id := s.Getenv("SLURM_JOB_ID")
	name, nodes := Name(id), s.nodes()
	ctx, cancel := context.WithTimeout(ctx, RetryFor)
	defer cancel()
	var err error
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			s.Report(fmt.Sprintf("%s: given up after %s: %v", name, RetryFor, err))
			return
		}
		if runs, qerr := s.runs(ctx, id); qerr == nil && runs == epilog {
			return
		} else if qerr != nil && epilog {
			err = qerr
			continue
		}
		if epilog {
			err = s.remove(ctx, name)
		} else {
			err = s.create(ctx, name, nodes, s.lease(ctx))
		}
		if err == nil {
			break
		}
		if !passing(err) {
			s.Report(fmt.Sprintf("%s: %v", name, err))
			return
		}
	}
	if runs, err := s.runs(ctx, id); err == nil && !epilog && !runs {
		_ = s.remove(ctx, name) // it ended in the meantime; its lease ends it otherwise
	}
}

// runs reports whether Slurm runs the job on the nodes given to this script.
func (s *Script) runs(ctx context.Context, id string) (bool, error) {
	q, err := s.queue(ctx, id)
	return q != nil && q.Nodes == s.Getenv("SLURM_JOB_NODELIST"), err
}

// TaskProlog returns what Slurm's task prolog prints: the variables by which the tasks find
// the plan of their job. Of a heterogeneous job each part has its own.
func (s *Script) TaskProlog(ctx context.Context, server string) string {
	id, nodes := s.part()
	name := Name(id)
	if id != "" && len(nodes) != 1 {
		err := s.within(ctx, func(ctx context.Context) error {
			_, err := s.Jobs.Job(ctx, name)
			return err
		})
		if err == nil {
			if strings.HasPrefix(server, "/") {
				server = "unix:" + server // for libfors a mere path is a file's
			}
			return fmt.Sprintf("export FORSD_JOB=%s\nexport FORSD_TABLE=%s\n", name, server)
		}
		if !unknown(err) {
			s.Report(fmt.Sprintf("%s: the tasks follow the plan of the whole fabric: %v", name, err))
		}
	}
	if strings.HasPrefix(s.Getenv("FORSD_JOB"), Name("")) {
		return "unset FORSD_JOB\n" // that of another part
	}
	return ""
}

// part returns the Slurm job that this node belongs to, and the nodes of that.
func (s *Script) part() (id string, nodes []string) {
	for n := 0; ; n++ {
		group := fmt.Sprintf("_HET_GROUP_%d", n)
		if id = s.Getenv("SLURM_JOB_ID" + group); id == "" {
			break
		}
		nodes, err := hostlist.Expand(s.Getenv("SLURM_JOB_NODELIST" + group))
		if err == nil && slices.Contains(nodes, s.Getenv("SLURMD_NODENAME")) {
			return id, nodes
		}
	}
	nodes, _ = hostlist.Expand(s.Getenv("SLURM_JOB_NODELIST")) // forsd knows the job where this fails
	return s.Getenv("SLURM_JOB_ID"), nodes
}
