// Package slurm implements Slurm's prolog and epilog scripts for forsd. Each Slurm job on more
// than one node gets a forsd job, which ends with it. The scripts delay Slurm by at most a few
// seconds, and never make a Slurm job fail.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/hostlist"
)

// Jobs has the operations of forsd that the scripts use.
type Jobs interface {
	Job(ctx context.Context, job string) (*api.Job, error)
	CreateJob(ctx context.Context, q api.JobRequest) (*api.Job, error)
	RemoveJob(ctx context.Context, job string) (*api.Job, error)
}

// Script is one run of a script of Slurm.
type Script struct {
	Getenv func(string) string
	Jobs   Jobs
	Queue  func(ctx context.Context, job string) (*Queued, error) // returns nil if Slurm does not run the job
	Within time.Duration                                          // for all requests to forsd
	Later  func() error                                           // runs Retry in a separate process
	Report func(text string)                                      // writes to the system's log
}

// Queued is a job that Slurm starts or runs.
type Queued struct {
	End   time.Time // zero without a time limit
	Nodes string    // as in SLURM_JOB_NODELIST
}

// queueWithin is the time limit of a request to Slurm.
const queueWithin = 2 * time.Second

// Grace is how much longer than the time limit a lease lasts. Normally the epilog ends the job.
const Grace = time.Hour

// Name returns the name of the forsd job for a Slurm job.
func Name(id string) string { return "slurm-" + id }

// nodes lists the nodes of the Slurm job, or returns nil if forsd does not plan it.
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

// Prolog makes forsd plan the Slurm job that starts. If forsd does not answer, it tries again
// later.
func (s *Script) Prolog(ctx context.Context) {
	nodes := s.nodes()
	if len(nodes) < 2 {
		return // traffic within a node needs no plan
	}
	name := Name(s.Getenv("SLURM_JOB_ID"))
	lease := s.lease(ctx)
	err := s.create(ctx, name, nodes, lease)
	if err == nil {
		return
	}
	s.again(fmt.Sprintf("%s has no plan of its own: %v", name, err), err)
}

// Epilog ends the forsd job of a Slurm job that has ended.
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
	e, ok := errors.AsType[*api.Error](err)
	return !ok || e.Code != api.CodeBadRequest && e.Code != api.CodeNotFound
}

// within limits the time of requests to forsd, and reports if forsd did not answer.
func (s *Script) within(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Within, fmt.Errorf("forsd did not answer within %s", s.Within))
	defer cancel()
	err := ask(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// create makes forsd plan the exchange of the nodes that it knows. An existing job with the
// name is from an earlier run of the Slurm job, before it was requeued.
func (s *Script) create(ctx context.Context, name string, nodes []string, lease time.Duration) error {
	return s.within(ctx, func(ctx context.Context) error {
		if err := s.end(ctx, name); err != nil {
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
	return s.within(ctx, func(ctx context.Context) error { return s.end(ctx, name) })
}

// end ends a job if there is one. It asks first, because forsd's history has refused orders.
func (s *Script) end(ctx context.Context, name string) error {
	_, err := s.Jobs.Job(ctx, name)
	if err == nil {
		_, err = s.Jobs.RemoveJob(ctx, name)
	}
	if unknown(err) {
		return nil
	}
	return err
}

// unknown reports whether forsd answered that it does not know the job.
func unknown(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.CodeNotFound
}

// lease returns the lease for the Slurm job. Slurm reports the job's end since version 23.02;
// for earlier versions, its queue does.
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

// RetryFor is how long requests to forsd are repeated.
const RetryFor = 15 * time.Minute

// Retry repeats the failed part of Prolog or Epilog until forsd answers, as long as Slurm runs
// the job, or after the job has ended.
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
		_ = s.remove(ctx, name) // the Slurm job has ended; if this fails, the lease ends the job
	}
}

// runs reports whether Slurm runs the job on the nodes given to this script.
func (s *Script) runs(ctx context.Context, id string) (bool, error) {
	q, err := s.queue(ctx, id)
	return q != nil && q.Nodes == s.Getenv("SLURM_JOB_NODELIST"), err
}

// TaskProlog returns the output of Slurm's task prolog: the variables by which tasks find the
// plan of their job. Each part of a heterogeneous job has its own plan.
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
				server = "unix:" + server // libfors takes a plain path for a file
			}
			return fmt.Sprintf("export FORSD_JOB=%s\nexport FORSD_TABLE=%s\n", name, server) + s.preload()
		}
		if !unknown(err) {
			s.Report(fmt.Sprintf("%s: the tasks follow the plan of the whole fabric: %v", name, err))
		}
	}
	if strings.HasPrefix(s.Getenv("FORSD_JOB"), Name("")) {
		return "unset FORSD_JOB\n" // it belongs to another part
	}
	return ""
}

// preload returns the line that has tasks load the library that FORS_SHIM names, before those
// that they load anyway.
func (s *Script) preload() string {
	shim, others := s.Getenv("FORS_SHIM"), s.Getenv("LD_PRELOAD")
	switch {
	case shim == "" || strings.ContainsAny(shim, " :\n") || slices.Contains(strings.FieldsFunc(others, func(r rune) bool { return r == ':' || r == ' ' }), shim):
		return ""
	case others != "":
		shim += ":" + others
	}
	return "export LD_PRELOAD=" + shim + "\n"
}

// part returns the Slurm job that this node belongs to, and its nodes.
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
	nodes, _ = hostlist.Expand(s.Getenv("SLURM_JOB_NODELIST")) // if this fails, the caller asks forsd about the job
	return s.Getenv("SLURM_JOB_ID"), nodes
}

// Squeue looks a job up in Slurm's queue by its unique number, which tasks of an array and
// parts of a heterogeneous job also have.
func Squeue(ctx context.Context, job string) (*Queued, error) {
	cmd := exec.CommandContext(ctx, "squeue", "-h", "-j", job, "-o", "%A|%T|%e|%N")
	cmd.Env = append(os.Environ(), "SLURM_TIME_FORMAT=%s")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		text := strings.TrimSpace(string(exit.Stderr))
		if strings.Contains(text, "Invalid job id") {
			return nil, nil // it ended some time ago
		}
		err = fmt.Errorf("%w: %.200s", err, text[strings.LastIndexByte(text, '\n')+1:])
	}
	if err != nil {
		return nil, fmt.Errorf("squeue: %w", err)
	}
	return readQueue(string(out), job)
}

// readQueue finds a job in the output of squeue.
func readQueue(out, job string) (*Queued, error) {
	for line := range strings.Lines(out) {
		words := strings.SplitN(strings.TrimSpace(line), "|", 4)
		if len(words) != 4 || words[0] != job {
			continue
		}
		switch words[1] {
		case "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT":
		default:
			return nil, nil
		}
		q := &Queued{Nodes: words[3]}
		if seconds, err := strconv.ParseInt(words[2], 10, 64); err == nil {
			q.End = time.Unix(seconds, 0)
		} else if words[2] != "NONE" && words[2] != "UNLIMITED" {
			return nil, fmt.Errorf("squeue: %q is not the end of a job in seconds since 1970", words[2])
		}
		return q, nil
	}
	return nil, nil
}
