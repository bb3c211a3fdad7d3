package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// jobOf returns a job of all servers with a plan.
func jobOf(t *testing.T, v *topology.FatTree, id, n uint64) *Job {
	t.Helper()
	r, err := planner.Make(context.Background(), v, planner.Settings{})
	ok(t, err)
	table := r.Table(n)
	table.Job = id
	j := &Job{JobInfo: JobInfo{ID: id, Epoch: n, Name: fmt.Sprintf("job%d", id), RanksPerHost: 1, Created: time.Unix(1, 0).UTC(),
		PublishedAt: time.Unix(int64(n), 0).UTC(), Expires: time.Unix(3600, 0).UTC(), Report: r.Report()}}
	for _, h := range v.Hosts {
		j.Members = append(j.Members, planner.Member{GUID: h.GUID, Name: "a host"})
	}
	j.Plan, err = phasetable.New(table)
	ok(t, err)
	return j
}

// wantJobs fails unless a new process finds exactly these jobs, undamaged.
func wantJobs(t *testing.T, s *Store, want ...*Job) *Store {
	t.Helper()
	s = reopened(t, s)
	got, damaged := s.Jobs.All()
	ok(t, damaged)
	if len(got) != len(want) {
		t.Fatalf("%d jobs came back, want %d", len(got), len(want))
	}
	for i, j := range want {
		if diff := cmp.Diff(j.JobInfo, got[i].JobInfo); diff != "" || string(j.Plan.Bytes()) != string(got[i].Plan.Bytes()) {
			t.Errorf("job %d came back different (-want +got):\n%s", j.ID, diff)
		}
	}
	return s
}

// TestStoreKeepsJobs follows two jobs from start to end. Each keeps its last plan and the
// one before. No number is given again after the jobs have ended.
func TestStoreKeepsJobs(t *testing.T) {
	s, v := newStore(t), tree(t)
	a, b := jobOf(t, v, 1, 1), jobOf(t, v, 2, 2)
	ok(t, s.SaveJobs(b), s.SaveJobs(a))
	s = wantJobs(t, s, a, b)
	for n := range uint64(3) {
		a = jobOf(t, v, 1, n+3)
		ok(t, s.SaveJobs(a))
	}
	b.Expires = b.Expires.Add(time.Hour)
	ok(t, s.SaveLease(b))
	s = wantJobs(t, s, a, b)
	for n, kept := range map[uint64]bool{1: false, 3: false, 4: true, 5: true, 6: false} {
		if j, err := s.Jobs.Load(1, n); (err == nil) != kept || kept && j.Plan.Epoch() != n {
			t.Errorf("plan %d of job 1: %v", n, err)
		}
	}
	ok(t, s.RemoveJob(1))
	s = wantJobs(t, s, b)
	ok(t, s.RemoveJob(2))
	if s = wantJobs(t, s); s.Numbers.Last() != 5 || s.Numbers.Next() != 6 {
		t.Errorf("without jobs the last number is %d, the next %d", s.Numbers.Last(), s.Numbers.Next())
	}
}

// TestCommittedJobs ends the process between commit and sync. The plan committed is in force, the
// one before is kept, and the number is not given again even if the machine fails.
func TestCommittedJobs(t *testing.T) {
	s, v := newStore(t), tree(t)
	first, second := jobOf(t, v, 1, 1), jobOf(t, v, 1, 2)
	ok(t, s.SaveJobs(first), s.CommitJobs(second))
	s = wantJobs(t, s, second)
	if _, err := s.Jobs.Load(1, 1); err != nil {
		t.Error(err)
	}
	if s.Numbers.Last() != 2 || s.Numbers.promised < 2 {
		t.Errorf("the last number is %d, and up to %d are promised", s.Numbers.Last(), s.Numbers.promised)
	}
}

// TestStoreReplacesJobs adopts another forsd's plan of a job while plans of that job are
// stored under the same number and a higher one. These are removed.
func TestStoreReplacesJobs(t *testing.T) {
	s, v := newStore(t), tree(t)
	other := jobOf(t, v, 1, 8)
	ok(t, s.SaveJobs(other))
	for n := range uint64(2) {
		ok(t, s.SaveJobs(jobOf(t, v, 2, n+4)))
	}
	j := jobOf(t, treeOf(t, 2, 2), 2, 4)
	ok(t, s.ReplaceJob(j))
	s = wantJobs(t, s, other, j)
	if _, err := s.Jobs.Load(2, 5); err == nil || s.Numbers.Next() != 9 {
		t.Errorf("a plan that was replaced is kept (%v), or the next number is %d", err, s.Numbers.Next())
	}
}

// TestJobStoreAfterCrash opens a store with the leftovers of a crash and with damaged
// files.
func TestJobStoreAfterCrash(t *testing.T) {
	s, v := newStore(t), tree(t)
	j := jobOf(t, v, 2, 2)
	ok(t, s.save(planned(t, v, 1), 20), s.SaveJobs(j))
	stale := filepath.Join(string(s.Jobs), tempPrefix+"2")
	ok(t, os.Mkdir(stale, 0o755), os.WriteFile(filepath.Join(stale, jobInfo), []byte("{"), 0o644))
	// A later plan whose table is incomplete.
	torn := s.Jobs.path(jobVersion{j.ID, j.Epoch + 1})
	ok(t, os.Mkdir(torn, 0o755), os.WriteFile(filepath.Join(torn, planFile), j.Plan.Bytes()[:99], 0o644))
	// Another job's files under the name of a third one.
	wrong := s.Jobs.path(jobVersion{7, 7})
	ok(t, os.CopyFS(wrong, os.DirFS(s.Jobs.path(jobVersion{j.ID, j.Epoch}))))
	ok(t, os.WriteFile(filepath.Join(string(s.Jobs), lastFile), []byte("9x"), 0o644))
	s = reopened(t, s)
	jobs, damaged := s.Jobs.All()
	if len(jobs) != 1 || jobs[0].Epoch != j.Epoch || s.Numbers.Last() != 7 {
		t.Errorf("%d jobs came back, last number %d", len(jobs), s.Numbers.Last())
	}
	for _, want := range []string{"job 2: ", "job 7: the files are those of jobs 2 and 2", lastFile} {
		if damaged == nil || !strings.Contains(damaged.Error(), want) {
			t.Errorf("the damage %v does not say %q", damaged, want)
		}
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("the leftovers are still there")
	}
}

// TestLeaseOverStep stores a job with a lease, sets the clock by hours and reads the job
// back. The duration of the lease is unchanged.
func TestLeaseOverStep(t *testing.T) {
	s, v := newStore(t), tree(t)
	j := jobOf(t, v, 1, 1)
	j.Lease(time.Now(), time.Hour)
	ok(t, s.SaveJobs(j))
	s = reopened(t, s)
	for _, step := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} {
		back, damaged := s.Jobs.All()
		ok(t, damaged)
		now := time.Now().Add(step)
		if left := back[0].Due(now).Sub(now); left > time.Hour || left < time.Hour-time.Minute {
			t.Errorf("the clock was set by %v: a lease of an hour lasts %v more", step, left)
		}
	}
}
