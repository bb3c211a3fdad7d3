package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/internal/sealed"
	"github.com/forsd/forsd/internal/steady"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// JobInfo is what is told of a job, as job.json has it beside the phase table.
type JobInfo struct {
	ID           uint64            `json:"id"`    // the epoch of its first plan
	Epoch        uint64            `json:"epoch"` // of this plan
	Name         string            `json:"name"`
	Members      []planner.Member  `json:"members"` // in the order of the request
	RanksPerHost int               `json:"ranks_per_host"`
	Created      time.Time         `json:"created"`
	PublishedAt  time.Time         `json:"published_at"`
	Expires      time.Time         `json:"expires"`
	Leased       steady.Mark       `json:"leased,omitzero"` // when the lease was given: it lasts as long wherever the clock is set
	Report       planner.Report    `json:"report"`
	Warnings     []planner.Warning `json:"warnings"`

	OwnLanes  bool              `json:"own_lanes,omitempty"`  // asked for
	Lanes     []planner.JobLane `json:"lanes,omitempty"`      // that it has alone
	Routed    bool              `json:"routed,omitempty"`     // its base LIDs take lanes of its own plan
	BaseEpoch uint64            `json:"base_epoch,omitempty"` // of the last plan for base LIDs
}

// Lease lets the job's lease end so long from now.
func (j *JobInfo) Lease(now time.Time, lasts time.Duration) {
	j.Expires, j.Leased = now.Add(lasts), steady.Now(now)
}

// Due is when the lease ends, by the clock as it is now.
func (j *JobInfo) Due(now time.Time) time.Time {
	return j.Leased.Time(now, j.Expires)
}

// Planning is what planning must know of the job.
func (j *JobInfo) Planning() planner.Job {
	p := planner.Job{ID: j.ID, Lanes: j.Lanes, Routed: j.Routed}
	for _, m := range j.Members {
		p.Members = append(p.Members, m.GUID)
	}
	return p
}

// Job is a job with one of its plans.
type Job struct {
	JobInfo
	Plan  *phasetable.View // of the same job and number
	Stale bool             // a later plan of it is damaged: this one may use what has died since
	Base  *phasetable.View // the plan for base LIDs published last, nil for none or where it is lost
}

const (
	jobInfo  = "job.json"
	lastFile = "last" // the highest number that a removed job had, or a plan for base LIDs
)

// jobVersion names a directory of a job: one for each plan, of which the highest
// epoch counts.
type jobVersion struct{ id, epoch uint64 }

// jobs is the directory of the jobs.
type jobs string

func (dir jobs) path(v jobVersion) string {
	return filepath.Join(string(dir), fmt.Sprintf("%010d-%010d", v.id, v.epoch))
}

// versions lists the stored plans of jobs, by job and epoch.
func (dir jobs) versions() []jobVersion {
	entries, _ := os.ReadDir(string(dir))
	var out []jobVersion
	for _, e := range entries {
		id, epoch, _ := strings.Cut(e.Name(), "-")
		i, err := strconv.ParseUint(id, 10, 64)
		n, err2 := strconv.ParseUint(epoch, 10, 64)
		if errors.Join(err, err2) == nil {
			out = append(out, jobVersion{i, n})
		}
	}
	slices.SortFunc(out, func(a, b jobVersion) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.epoch, b.epoch))
	})
	return out
}

// lastGiven is the highest number that a job has or had. The error says that it may have been
// higher.
func (dir jobs) lastGiven() (last uint64, err error) {
	for _, v := range dir.versions() {
		last = max(last, v.epoch)
	}
	path := filepath.Join(string(dir), lastFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	} else if err != nil {
		return last, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return last, fmt.Errorf("%s: %w", path, err)
	}
	return max(last, n), nil
}

// flushes is how many jobs are brought to disk side by side: a disk does that together.
const flushes = 32

// SaveJob makes a job's plan durable: see SaveJobs.
func (s *Store) SaveJob(j *Job) error { return s.SaveJobs([]*Job{j}) }

// SaveJobs makes plans of jobs durable and drops the jobs' older ones but the last, whose
// exchange may be under way. Of a job's plans the one with the highest number counts. A
// crash before it returns leaves each job with the plan before, or this one.
func (s *Store) SaveJobs(list []*Job) (err error) {
	defer s.oweWhere(&err)
	if err = s.here(); err != nil {
		return fmt.Errorf("save jobs: %w", err)
	}
	err = parallel.All(len(list), flushes, func(int) func(int) error {
		return func(i int) error { return s.writeJob(list[i]) }
	})
	for _, j := range list {
		if err == nil {
			err = os.Rename(s.jobs.hidden(j.ID), s.jobs.path(jobVersion{j.ID, j.Epoch}))
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.jobs.hidden(j.ID)))
			continue
		}
		s.last = max(s.last, j.Epoch)
	}
	if err != nil {
		return fmt.Errorf("save jobs: %w", err)
	}
	err = syncPath(string(s.jobs))
	for _, j := range list {
		s.jobs.drop(j.ID, j.Epoch)
	}
	return err
}

// writeJob brings the files of a job's plan to disk, out of sight.
func (s *Store) writeJob(j *Job) error {
	temp := s.jobs.hidden(j.ID)
	info, err := json.MarshalIndent(j.JobInfo, "", " ")
	if err == nil {
		err = writePlan(temp, j.Plan)
	}
	if err == nil && j.Base != nil {
		base := filepath.Join(temp, planner.BaseBinaryFile)
		if err = os.WriteFile(base, j.Base.Bytes(), 0o644); err == nil {
			err = syncPath(base)
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, jobInfo), sealed.Seal(info), 0o644)
	}
	if err == nil {
		err = syncPlan(temp, jobInfo)
	}
	if err != nil {
		return fmt.Errorf("job %d: %w", j.ID, err)
	}
	return nil
}

// hidden is where a job's plan is before it appears.
func (dir jobs) hidden(id uint64) string {
	return filepath.Join(string(dir), fmt.Sprintf("%s%d", tempPrefix, id))
}

// ReplaceJob makes a job's plan durable, whatever is stored of the job under its number
// and higher ones, whole or not: that is removed first, so that a crash meanwhile may
// leave part of it in force, or the plan before.
func (s *Store) ReplaceJob(j *Job) (err error) {
	defer s.oweWhere(&err)
	if err := s.jobs.remove(j.ID, j.Epoch); err != nil {
		return fmt.Errorf("save job %d: %w", j.ID, err)
	}
	return s.SaveJob(j)
}

// drop removes the plans of a job before an epoch but the last of them. What
// cannot be removed now is removed next time.
func (dir jobs) drop(id, before uint64) {
	old := slices.DeleteFunc(dir.versions(), func(v jobVersion) bool { return v.id != id || v.epoch >= before })
	for _, v := range old[:max(0, len(old)-1)] {
		_ = os.RemoveAll(dir.path(v))
	}
}

// SaveLease makes the lease of a job durable, whose plan stays, and its plan for base
// LIDs.
func (s *Store) SaveLease(j *Job) (err error) {
	defer s.oweWhere(&err)
	if err = s.here(); err != nil {
		return fmt.Errorf("save the lease of job %d: %w", j.ID, err)
	}
	info, err := json.MarshalIndent(j.JobInfo, "", " ")
	if err != nil {
		return err
	}
	if err = s.saveGiven(j.BaseEpoch); err != nil {
		return fmt.Errorf("save the plan for base LIDs of job %d: %w", j.ID, err)
	}
	dir := s.jobs.path(jobVersion{j.ID, j.Epoch})
	if j.Base != nil {
		if err := renameio.WriteFile(filepath.Join(dir, planner.BaseBinaryFile), j.Base.Bytes(), 0o644); err != nil {
			return fmt.Errorf("save the plan for base LIDs of job %d: %w", j.ID, err)
		}
	}
	if err := renameio.WriteFile(filepath.Join(dir, jobInfo), sealed.Seal(info), 0o644); err != nil {
		return fmt.Errorf("save the lease of job %d: %w", j.ID, err)
	}
	return syncPath(dir)
}

// RemoveJob forgets a job, and writes down first that its numbers were given. A crash
// before it returns may leave the job, with its plan in force or the one before.
func (s *Store) RemoveJob(id uint64) (err error) {
	defer s.oweWhere(&err)
	if err = s.here(); err != nil {
		return fmt.Errorf("remove job %d: %w", id, err)
	}
	if err = s.saveLast(); err == nil {
		err = s.jobs.remove(id, 0)
	}
	if err != nil {
		return fmt.Errorf("remove job %d: %w", id, err)
	}
	return syncPath(string(s.jobs))
}

// saveGiven records the number n of a plan whose file name does not contain it.
func (s *Store) saveGiven(n uint64) error {
	if n <= s.last {
		return nil
	}
	s.last = n
	return s.saveLast()
}

// saveLast writes down that numbers up to s.last were given.
func (s *Store) saveLast() error {
	if err := renameio.WriteFile(filepath.Join(string(s.jobs), lastFile), fmt.Appendln(nil, s.last), 0o644); err != nil {
		return err
	}
	return syncPath(string(s.jobs))
}

// remove removes the plans of a job from a number on, each of them at once.
func (dir jobs) remove(id, from uint64) error {
	for _, v := range dir.versions() {
		if v.id != id || v.epoch < from {
			continue
		}
		gone := filepath.Join(string(dir), fmt.Sprintf("%s%d-%d", tempPrefix, v.id, v.epoch))
		if err := os.Rename(dir.path(v), gone); err != nil {
			return err
		}
		// What cannot be removed now is removed at the next start.
		_ = os.RemoveAll(gone)
	}
	return nil
}

// Jobs loads every job by its highest plan that is whole, ascending, and drops the plans
// that SaveJob would have dropped; damaged says what was skipped.
func (dir jobs) Jobs() (jobs []*Job, damaged error) {
	_, damaged = dir.lastGiven()
	versions, stale := dir.versions(), map[uint64]bool{}
	slices.Reverse(versions)
	for _, v := range versions {
		if n := len(jobs); n > 0 && jobs[n-1].ID == v.id {
			continue
		}
		j, err := dir.LoadJob(v.id, v.epoch)
		if err != nil {
			damaged, stale[v.id] = errors.Join(damaged, err), true
			continue
		}
		j.Stale = stale[v.id]
		jobs = append(jobs, j)
		dir.drop(j.ID, j.Epoch)
	}
	slices.Reverse(jobs)
	return jobs, damaged
}

// LoadJob reads the plan that a job has under the number epoch, and checks it whole. Its
// plan in force and the one before are kept.
func (dir jobs) LoadJob(id, epoch uint64) (j *Job, err error) {
	j = &Job{}
	if j.Plan, err = readPlan(dir.path(jobVersion{id, epoch}), jobInfo, &j.JobInfo); err != nil {
		return nil, fmt.Errorf("job %d: %w", id, err)
	}
	if j.ID != id || j.Epoch != epoch || j.Plan.Job() != id || j.Plan.Epoch() != epoch {
		return nil, fmt.Errorf("job %d: the files are those of jobs %d and %d, epochs %d and %d", id, j.ID, j.Plan.Job(), j.Epoch, j.Plan.Epoch())
	}
	if data, err := os.ReadFile(filepath.Join(dir.path(jobVersion{id, epoch}), planner.BaseBinaryFile)); err == nil {
		j.Base, _ = phasetable.Decode(data) // a damaged one is made anew, under the next number
	}
	return j, nil
}
