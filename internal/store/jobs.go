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
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// JobInfo describes a job. It is stored as job.json next to the phase table.
type JobInfo struct {
	ID           uint64            `json:"id"`    // epoch of its first plan
	Epoch        uint64            `json:"epoch"` // of this plan
	Name         string            `json:"name"`
	Members      []planner.Member  `json:"members"` // in the order of the request
	RanksPerHost int               `json:"ranks_per_host"`
	Created      time.Time         `json:"created"`
	PublishedAt  time.Time         `json:"published_at"`
	Expires      time.Time         `json:"expires"`
	Leased       Timestamp         `json:"leased,omitzero"` // when the lease was granted; makes its duration independent of clock changes
	Report       planner.Report    `json:"report"`
	Warnings     []planner.Warning `json:"warnings"`

	OwnLanes  bool              `json:"own_lanes,omitempty"`  // as requested
	Lanes     []planner.JobLane `json:"lanes,omitempty"`      // reserved for this job
	Routed    bool              `json:"routed,omitempty"`     // its base LIDs follow lanes of its own plan
	BaseEpoch uint64            `json:"base_epoch,omitempty"` // of its last plan for base LIDs
}

// Lease sets the lease to end at now+lasts.
func (j *JobInfo) Lease(now time.Time, lasts time.Duration) {
	j.Expires, j.Leased = now.Add(lasts), StampNow(now)
}

// Due returns when the lease ends by the current clock, which may have been set.
func (j *JobInfo) Due(now time.Time) time.Time {
	return j.Leased.Time(now, j.Expires)
}

// Planning returns the part of the job that the planner needs.
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
	Plan  *phasetable.View // of the same job and epoch
	Stale bool             // a later plan is damaged: this one may use cables that have died since
	Base  *phasetable.View // last published plan for base LIDs, nil if none or lost
}

const (
	jobInfo  = "job.json"
	lastFile = "last" // highest number of a removed job or of a plan for base LIDs
)

// jobVersion names the directory of one plan of a job. The highest epoch is in force.
type jobVersion struct{ id, epoch uint64 }

// Jobs is the path of the directory with the jobs.
type Jobs string

func (dir Jobs) path(v jobVersion) string {
	return filepath.Join(string(dir), fmt.Sprintf("%010d-%010d", v.id, v.epoch))
}

// versions returns the stored plans, ascending by job and epoch.
func (dir Jobs) versions() []jobVersion {
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

// lastGiven returns the highest number known to have been given to a job. If err is not
// nil, higher ones may have been given.
func (dir Jobs) lastGiven() (last uint64, err error) {
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

// flushes is how many jobs are synced concurrently; the disk merges their writes.
const flushes = 32

// SaveJobs stores plans of jobs durably and puts them in force.
func (s *Store) SaveJobs(list ...*Job) error {
	if err := s.CommitJobs(list...); err != nil {
		return err
	}
	return s.SyncJobs(list...)
}

// CommitJobs puts plans of jobs in force, as Commit does with an epoch. After a crash of the
// process during the call, each job has its previous plan or this one. A job's plan with the
// highest number is in force. SyncJobs completes it.
func (s *Store) CommitJobs(list ...*Job) (err error) {
	if len(list) == 0 {
		return nil
	}
	defer s.markPendingOn(&err)
	if err = s.here(); err == nil {
		err = s.Numbers.promise(highest(list))
	}
	if err != nil {
		return fmt.Errorf("save jobs: %w", err)
	}
	err = parallel.All(len(list), flushes, func(int) func(int) error {
		return func(i int) error { return s.writeJob(list[i]) }
	})
	for _, j := range list {
		if err == nil {
			err = os.Rename(s.Jobs.hidden(j.ID), s.Jobs.path(jobVersion{j.ID, j.Epoch}))
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.Jobs.hidden(j.ID)))
			continue
		}
		s.Numbers.last = max(s.Numbers.last, j.Epoch)
	}
	if err != nil {
		return fmt.Errorf("save jobs: %w", err)
	}
	return nil
}

// highest returns the highest number of the jobs' plans.
func highest(list []*Job) (n uint64) {
	for _, j := range list {
		n = max(n, j.Epoch)
	}
	return n
}

// SyncJobs syncs committed plans of jobs to disk, and removes the jobs' older plans except the
// latest of those, whose exchange may still run. It promises further numbers, as Sync does.
func (s *Store) SyncJobs(list ...*Job) (err error) {
	if len(list) == 0 {
		return nil
	}
	defer s.markPendingOn(&err)
	err = parallel.All(len(list), flushes, func(int) func(int) error {
		return func(i int) error {
			dir := s.Jobs.path(jobVersion{list[i].ID, list[i].Epoch})
			if list[i].Base != nil {
				if err := SyncPath(filepath.Join(dir, planner.BaseBinaryFile)); err != nil {
					return err
				}
			}
			return syncPlan(dir, jobInfo)
		}
	})
	if err == nil {
		err = SyncPath(string(s.Jobs))
	}
	if err != nil {
		return fmt.Errorf("save jobs: %w", err)
	}
	for _, j := range list {
		s.Jobs.drop(j.ID, j.Epoch)
	}
	return s.Numbers.promiseAfter(highest(list))
}

// writeJob writes a job's plan at a temporary path.
func (s *Store) writeJob(j *Job) error {
	temp := s.Jobs.hidden(j.ID)
	info, err := json.MarshalIndent(j.JobInfo, "", " ")
	if err == nil {
		err = writePlan(temp, j.Plan)
	}
	if err == nil && j.Base != nil {
		err = os.WriteFile(filepath.Join(temp, planner.BaseBinaryFile), j.Base.Bytes(), 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, jobInfo), sealed.Seal(info), 0o644)
	}
	if err != nil {
		return fmt.Errorf("job %d: %w", j.ID, err)
	}
	return nil
}

// hidden returns the path at which a job's plan is written before it is renamed.
func (dir Jobs) hidden(id uint64) string {
	return filepath.Join(string(dir), fmt.Sprintf("%s%d", tempPrefix, id))
}

// ReplaceJob stores a job's plan durably, and removes all plans of the job with the same or
// a higher number first, damaged or not. A crash during the call may leave one of those or
// the previous plan in force.
func (s *Store) ReplaceJob(j *Job) (err error) {
	defer s.markPendingOn(&err)
	if err := s.Jobs.remove(j.ID, j.Epoch); err != nil {
		return fmt.Errorf("save job %d: %w", j.ID, err)
	}
	return s.SaveJobs(j)
}

// drop removes the plans of a job before an epoch, except the latest of them. What cannot
// be removed is tried again by the next call.
func (dir Jobs) drop(id, before uint64) {
	old := slices.DeleteFunc(dir.versions(), func(v jobVersion) bool { return v.id != id || v.epoch >= before })
	for _, v := range old[:max(0, len(old)-1)] {
		_ = os.RemoveAll(dir.path(v))
	}
}

// SaveLease stores a job's JobInfo and its plan for base LIDs durably. Its plan is not
// written.
func (s *Store) SaveLease(j *Job) (err error) {
	defer s.markPendingOn(&err)
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
	dir := s.Jobs.path(jobVersion{j.ID, j.Epoch})
	if j.Base != nil {
		if err := renameio.WriteFile(filepath.Join(dir, planner.BaseBinaryFile), j.Base.Bytes(), 0o644); err != nil {
			return fmt.Errorf("save the plan for base LIDs of job %d: %w", j.ID, err)
		}
	}
	if err := replaceFile(filepath.Join(dir, jobInfo), sealed.Seal(info)); err != nil {
		return fmt.Errorf("save the lease of job %d: %w", j.ID, err)
	}
	return nil
}

// RemoveJob removes a job, after recording that its numbers were given. A crash during the
// call may leave the job with its current or its previous plan.
func (s *Store) RemoveJob(id uint64) (err error) {
	defer s.markPendingOn(&err)
	if err = s.here(); err != nil {
		return fmt.Errorf("remove job %d: %w", id, err)
	}
	if err = s.saveLast(); err == nil {
		err = s.Jobs.remove(id, 0)
	}
	if err != nil {
		return fmt.Errorf("remove job %d: %w", id, err)
	}
	return SyncPath(string(s.Jobs))
}

// saveGiven records the number n of a plan whose file name does not contain it.
func (s *Store) saveGiven(n uint64) error {
	if n <= s.Numbers.last {
		return nil
	}
	s.Numbers.last = n
	return s.saveLast()
}

// saveLast records durably that numbers up to s.Numbers.last were given.
func (s *Store) saveLast() error {
	return replaceFile(filepath.Join(string(s.Jobs), lastFile), fmt.Appendln(nil, s.Numbers.last))
}

// remove removes the plans of a job with epoch from and higher, each atomically.
func (dir Jobs) remove(id, from uint64) error {
	for _, v := range dir.versions() {
		if v.id != id || v.epoch < from {
			continue
		}
		gone := filepath.Join(string(dir), fmt.Sprintf("%s%d-%d", tempPrefix, v.id, v.epoch))
		if err := os.Rename(dir.path(v), gone); err != nil {
			return err
		}
		// On failure, Open removes it.
		_ = os.RemoveAll(gone)
	}
	return nil
}

// All loads every job with its highest plan that is intact, ascending by ID, and removes
// superseded plans. If damaged plans were skipped, damaged describes them.
func (dir Jobs) All() (jobs []*Job, damaged error) {
	_, damaged = dir.lastGiven()
	versions, stale := dir.versions(), map[uint64]bool{}
	slices.Reverse(versions)
	for _, v := range versions {
		if n := len(jobs); n > 0 && jobs[n-1].ID == v.id {
			continue
		}
		j, err := dir.Load(v.id, v.epoch)
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

// Load reads one plan of a job and checks it completely. A job's current and previous
// plans are stored.
func (dir Jobs) Load(id, epoch uint64) (j *Job, err error) {
	j = &Job{}
	if j.Plan, err = readPlan(dir.path(jobVersion{id, epoch}), jobInfo, &j.JobInfo); err != nil {
		return nil, fmt.Errorf("job %d: %w", id, err)
	}
	if j.ID != id || j.Epoch != epoch || j.Plan.Job() != id || j.Plan.Epoch() != epoch {
		return nil, fmt.Errorf("job %d: the files are those of jobs %d and %d, epochs %d and %d", id, j.ID, j.Plan.Job(), j.Epoch, j.Plan.Epoch())
	}
	if data, err := os.ReadFile(filepath.Join(dir.path(jobVersion{id, epoch}), planner.BaseBinaryFile)); err == nil {
		j.Base, _ = phasetable.Decode(data) // a damaged one is planned again, under the next number
	}
	return j, nil
}
