package daemon

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

	"forsd/phasetable"
	"forsd/planner"
)

// jobFile is what the store keeps beside a job's phase table.
type jobFile struct {
	ID           uint64            `json:"id"`    // the epoch of its first plan
	Epoch        uint64            `json:"epoch"` // of this plan
	Name         string            `json:"name"`
	Members      []planner.Member  `json:"members"` // in the order of the request
	RanksPerHost int               `json:"ranks_per_host"`
	Created      time.Time         `json:"created"`
	PublishedAt  time.Time         `json:"published_at"`
	Expires      time.Time         `json:"expires"`
	Report       planner.Report    `json:"report"`
	Warnings     []planner.Warning `json:"warnings"`
}

const (
	jobsDir  = "jobs"
	jobMeta  = "job.json"
	lastFile = "last" // the highest number that a removed job had
)

// jobVersion names a directory of a job: one for each plan, of which the highest
// epoch counts.
type jobVersion struct{ id, epoch uint64 }

func (s *store) jobPath(v jobVersion) string {
	return filepath.Join(s.dir, jobsDir, fmt.Sprintf("%010d-%010d", v.id, v.epoch))
}

// jobVersions lists the stored plans of jobs, by job and epoch.
func (s *store) jobVersions() []jobVersion {
	entries, _ := os.ReadDir(filepath.Join(s.dir, jobsDir))
	var out []jobVersion
	for _, e := range entries {
		id, epoch, ok := strings.Cut(e.Name(), "-")
		i, err := strconv.ParseUint(id, 10, 64)
		n, err2 := strconv.ParseUint(epoch, 10, 64)
		if ok && errors.Join(err, err2) == nil {
			out = append(out, jobVersion{i, n})
		}
	}
	slices.SortFunc(out, func(a, b jobVersion) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.epoch, b.epoch))
	})
	return out
}

// lastOfJobs is the highest number that a job has or had. The error says that it
// may have been higher.
func (s *store) lastOfJobs() (last uint64, err error) {
	for _, v := range s.jobVersions() {
		last = max(last, v.epoch)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, jobsDir, lastFile))
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	} else if err != nil {
		return last, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return last, fmt.Errorf("%s: %w", filepath.Join(s.dir, jobsDir, lastFile), err)
	}
	return max(last, n), nil
}

// saveJob makes a job's plan durable and drops its older ones but the last, whose
// exchange may be under way. Its epoch must be the last number, or the next.
func (s *store) saveJob(j *job) error {
	v, parent := jobVersion{j.ID, j.Epoch}, filepath.Join(s.dir, jobsDir)
	temp := filepath.Join(parent, fmt.Sprintf("%s%d", tempPrefix, j.ID))
	meta, err := json.MarshalIndent(j.jobFile, "", " ")
	if err == nil {
		err = os.RemoveAll(temp)
	}
	if err == nil {
		err = os.Mkdir(temp, 0o755)
	}
	if err == nil {
		err = writeDurably(filepath.Join(temp, epochTable), j.view.Bytes())
	}
	if err == nil {
		err = writeDurably(filepath.Join(temp, jobMeta), append(meta, '\n'))
	}
	if err == nil {
		err = syncDir(temp)
	}
	if err == nil {
		err = os.Rename(temp, s.jobPath(v))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("save job %d: %w", j.ID, err), os.RemoveAll(temp))
	}
	s.last = max(s.last, j.Epoch)
	err = syncDir(parent)
	s.dropJob(j.ID, j.Epoch)
	return err
}

// dropJob removes the plans of a job before an epoch but the last of them. What
// cannot be removed now is removed next time.
func (s *store) dropJob(id, before uint64) {
	old := slices.DeleteFunc(s.jobVersions(), func(v jobVersion) bool { return v.id != id || v.epoch >= before })
	for _, v := range old[:max(0, len(old)-1)] {
		_ = os.RemoveAll(s.jobPath(v))
	}
}

// saveLease makes the lease of a job durable.
func (s *store) saveLease(j *job) error {
	meta, err := json.MarshalIndent(j.jobFile, "", " ")
	if err != nil {
		return err
	}
	dir := s.jobPath(jobVersion{j.ID, j.Epoch})
	if err := renameio.WriteFile(filepath.Join(dir, jobMeta), append(meta, '\n'), 0o644); err != nil {
		return fmt.Errorf("save the lease of job %d: %w", j.ID, err)
	}
	return syncDir(dir)
}

// removeJob forgets a job, and keeps in mind that its numbers were given.
func (s *store) removeJob(id uint64) error {
	parent := filepath.Join(s.dir, jobsDir)
	if err := renameio.WriteFile(filepath.Join(parent, lastFile), fmt.Appendln(nil, s.last), 0o644); err != nil {
		return fmt.Errorf("remove job %d: %w", id, err)
	}
	for _, v := range s.jobVersions() {
		if v.id != id {
			continue
		}
		gone := filepath.Join(parent, fmt.Sprintf("%s%d-%d", tempPrefix, v.id, v.epoch))
		if err := os.Rename(s.jobPath(v), gone); err != nil {
			return fmt.Errorf("remove job %d: %w", id, err)
		}
		// What cannot be removed now is removed at the next start.
		_ = os.RemoveAll(gone)
	}
	return syncDir(parent)
}

// loadJobs loads every job by its highest epoch that is whole, ascending; damaged
// says what was skipped.
func (s *store) loadJobs() (jobs []*job, damaged error) {
	_, damaged = s.lastOfJobs()
	versions := s.jobVersions()
	slices.Reverse(versions)
	for _, v := range versions {
		if n := len(jobs); n > 0 && jobs[n-1].ID == v.id {
			continue
		}
		j, err := s.loadJob(v)
		if err != nil {
			damaged = errors.Join(damaged, err)
			continue
		}
		jobs = append(jobs, j)
		s.dropJob(j.ID, j.Epoch)
	}
	slices.Reverse(jobs)
	return jobs, damaged
}

// loadJob reads a stored plan of a job and checks it whole.
func (s *store) loadJob(v jobVersion) (*job, error) {
	dir := s.jobPath(v)
	fail := func(err error) (*job, error) { return nil, fmt.Errorf("job %d: %w", v.id, err) }
	data, err := os.ReadFile(filepath.Join(dir, jobMeta))
	if err != nil {
		return fail(err)
	}
	j := &job{}
	if err := json.Unmarshal(data, &j.jobFile); err != nil {
		return fail(fmt.Errorf("%s: %w", jobMeta, err))
	}
	if data, err = os.ReadFile(filepath.Join(dir, epochTable)); err != nil {
		return fail(err)
	}
	if j.view, err = phasetable.Decode(data); err != nil {
		return fail(err)
	}
	if j.ID != v.id || j.Epoch != v.epoch || j.view.Job() != v.id || j.view.Epoch() != v.epoch {
		return fail(fmt.Errorf("the files are those of jobs %d and %d, epochs %d and %d", j.ID, j.view.Job(), j.Epoch, j.view.Epoch()))
	}
	return j, nil
}
