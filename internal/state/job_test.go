package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/planner"
)

// resumed returns the store of a directory, which it takes over from an earlier one.
func resumed(t *testing.T, dir string, before *Store) *Store {
	t.Helper()
	if before != nil {
		ok(t, before.Close())
	}
	v := open(t, dir)
	damaged, err := v.Resume()
	ok(t, damaged, err)
	return v
}

// job returns the job with a name.
func job(t *testing.T, v *Store, name string) *Job {
	t.Helper()
	j, err := v.state.Now().Job(name)
	ok(t, err)
	return j
}

// admit adds a job of all servers of a tree.
func admit(t *testing.T, v *Store, name string, lease time.Duration) *Job {
	t.Helper()
	k := known(t, 3)
	j := NewJob(store.Job{JobInfo: store.JobInfo{Name: name}}, time.Now())
	for i := range k.Plan.Servers() {
		s := k.Plan.Server(i)
		j.Members = append(j.Members, planner.Member{Name: s.Name, GUID: s.GUID})
	}
	j.Renew(time.Now(), lease)
	made := []Plan{{Proposal: k, Job: j}}
	ok(t, v.Publish(v.Disk.Numbers.Next(), made...))
	if made[0].Job != job(t, v, name) {
		t.Error("another job is in force")
	}
	return made[0].Job
}

// base returns the number of a job's plan for base LIDs in force, or 0.
func base(j *Job) uint64 {
	if p := j.Bases.Current(); p != nil {
		return p.Epoch
	}
	return 0
}

// TestBaseNumbers checks the numbers of a job's plans for base LIDs, across restarts of forsd
// and of the machine.
func TestBaseNumbers(t *testing.T) {
	dir := t.TempDir()
	v := resumed(t, dir, nil)
	id := admit(t, v, "a", time.Hour).ID
	small, large := known(t, 3), known(t, 4)
	set := func(k Known, want uint64) {
		t.Helper()
		ok(t, v.Publish(job(t, v, "a").Epoch, Plan{Proposal: k, Job: job(t, v, "a"), Base: true}))
		if n := base(job(t, v, "a")); n != want || job(t, v, "a").BaseEpoch != want {
			t.Errorf("the plan for base LIDs is %d, want %d", n, want)
		}
	}
	set(small, id) // together with the job's first plan
	set(small, id)
	set(large, id+1)
	job(t, v, "a").Bases.Withdraw()
	if base(job(t, v, "a")) != 0 {
		t.Error("a plan that has ended is in force")
	}
	set(large, id+1)
	v = resumed(t, dir, v)
	if j := job(t, v, "a"); j.Plans.Current() == nil || base(j) != 0 {
		t.Error("after a restart the plan is not in force, or that for base LIDs is before tables are known")
	}
	set(large, id+1)
	set(small, id+2)
	ok(t, v.Close())
	path := filepath.Join(dir, "state", "promised.json")
	ok(t, os.WriteFile(path, []byte(`{"epoch":100,"boot":"another"}`), 0o644))
	v = resumed(t, dir, nil)
	if job(t, v, "a").Plans.Current() != nil {
		t.Error("the machine failed, and a plan is in force that may not be the last")
	}
	set(small, 101)
}

// TestPublish checks that plans of jobs are published under one number, even if the disk fails.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	v := resumed(t, dir, nil)
	a, b := admit(t, v, "a", time.Hour), admit(t, v, "b", time.Hour)
	for _, j := range []*Job{a, b} {
		if !v.Stays(&Plan{Proposal: known(t, 3), Job: j}) || v.Stays(&Plan{Proposal: known(t, 4), Job: j}) {
			t.Errorf("%s: another plan stays than the one in force", j.Label())
		}
	}
	ok(t, os.RemoveAll(filepath.Join(dir, "state")))
	ok(t, v.Publish(v.Disk.Numbers.Next(), Plan{Proposal: known(t, 4), Job: a}, Plan{Proposal: known(t, 4), Job: b}))
	n := job(t, v, "b").Epoch // from the clock, as no number was promised
	for _, was := range []*Job{a, b} {
		j := job(t, v, was.Name)
		if j.Epoch != n || n <= b.Epoch || j.Plans.Current().Epoch != n || j.ID != was.ID || j.Plan.Job() != was.ID {
			t.Errorf("job %d has plan %d of job %d, and %d is in force", j.ID, j.Epoch, j.Plan.Job(), j.Plans.Current().Epoch)
		}
	}
	if v.Disk.PendingErr() == nil {
		t.Error("stored in a directory that is gone")
	}
	if v.RestoreNow(); v.Disk.PendingErr() != nil {
		t.Error(v.Disk.PendingErr())
	}
	v = resumed(t, dir, v)
	if jobs := v.state.Now().Jobs; len(jobs) != 2 || job(t, v, "b").Epoch != n {
		t.Errorf("after a restart there are %d jobs, and b is not at %d", len(jobs), n)
	}
	if next := v.Disk.Numbers.Next(); next <= n {
		t.Errorf("number %d follows %d", next, n)
	}
}

// TestNewJobWithoutDisk creates a job while no number can be promised: job and plan get another
// one.
func TestNewJobWithoutDisk(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.MkdirAll(filepath.Join(dir, "s.numbers", "x"), 0o755), os.MkdirAll(filepath.Join(dir, "lfts.dump.numbers", "x"), 0o755))
	v := resumed(t, dir, nil)
	ok(t, os.RemoveAll(filepath.Join(dir, "state")))
	first := v.Disk.Numbers.Next()
	if j := admit(t, v, "a", time.Hour); j.ID <= first || j.ID != j.Epoch || j.Plan.Job() != j.ID || j.Plan.Epoch() != j.ID || j.ID != v.Disk.Numbers.Last() {
		t.Errorf("job %d has plan %d, its table is of job %d and has the number %d; the last is %d", j.ID, j.Epoch, j.Plan.Job(), j.Plan.Epoch(), v.Disk.Numbers.Last())
	}
}

// TestLeases checks that jobs end permanently when their lease ends or they are removed.
func TestLeases(t *testing.T) {
	dir := t.TempDir()
	v := resumed(t, dir, nil)
	short, long := admit(t, v, "short", time.Minute), admit(t, v, "long", time.Hour)
	if due := time.Until(v.state.Now().LeaseDue()); due <= 0 || due > time.Minute {
		t.Errorf("the first lease ends in %v", due)
	}
	v.EndLeases(time.Now().Add(2 * time.Minute))
	if _, err := v.state.Now().Job("short"); err == nil || len(v.state.Now().Jobs) != 1 {
		t.Error("a job outlasts its lease")
	}
	if short.Plans.Current() != nil {
		t.Error("the plan of a job that has ended is in force")
	}
	v.EndJob(long, "removed")
	last := v.Disk.Numbers.Last()
	v = resumed(t, dir, v)
	if n := len(v.state.Now().Jobs); n != 0 || v.Disk.Numbers.Last() != last {
		t.Errorf("%d jobs are back, and the last number is %d, was %d", n, v.Disk.Numbers.Last(), last)
	}
}
