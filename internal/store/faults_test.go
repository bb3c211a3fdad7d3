package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/internal/sealed"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// deed is an operation that stores something. found fails unless a new process finds all
// of it.
type deed struct {
	do    func(s *Store) error
	found func(s *Store) error
}

// world is the content of a store and the operations on it.
type world struct {
	now   State // the stored state
	deeds map[string]deed
}

func newWorld(t *testing.T) *world {
	v, small := tree(t), treeOf(t, 2, 2)
	jobs := []*Job{jobOf(t, v, 3, 3), jobOf(t, v, 4, 6)}
	jobs[1].Base, jobs[1].BaseEpoch = planned(t, v, 7).Plan, 7
	w := &world{now: State{Baseline: v.Baseline, Epoch: planned(t, v, 2), Base: planned(t, v, 5).Plan, Jobs: jobs,
		Decisions: Decisions{"drains": json.RawMessage(`["a"]`)}}}

	epoch, earlier, base := planned(t, v, 8), planned(t, small, 2), planned(t, v, 9).Plan
	next, other, before := jobOf(t, v, 3, 8), jobOf(t, v, 5, 8), jobOf(t, small, 4, 5)
	leased := *jobs[0]
	leased.Expires, leased.Base, leased.BaseEpoch = time.Unix(7200, 0).UTC(), base, 9
	decisions := Decisions{"drains": json.RawMessage(`["b"]`)}
	w.deeds = map[string]deed{
		"baseline":      {func(s *Store) error { return s.SaveBaseline(small.Baseline) }, func(s *Store) error { return hasBaseline(s, small.Baseline) }},
		"decisions":     {func(s *Store) error { return s.SaveDecisions(decisions) }, func(s *Store) error { return hasDecisions(s, decisions) }},
		"no decisions":  {func(s *Store) error { return s.SaveDecisions(nil) }, func(s *Store) error { return hasDecisions(s, nil) }},
		"base plan":     {func(s *Store) error { return s.SaveBase(base) }, func(s *Store) error { return hasBase(s, base.Bytes(), 9) }},
		"epoch":         {func(s *Store) error { return s.save(epoch, 20) }, func(s *Store) error { return hasEpoch(s, epoch) }},
		"earlier epoch": {func(s *Store) error { return s.ReplaceEpoch(earlier, 20) }, func(s *Store) error { return hasEpoch(s, earlier) }},
		"jobs":          {func(s *Store) error { return s.SaveJobs(next, other) }, func(s *Store) error { return errors.Join(hasJob(s, next), hasJob(s, other)) }},
		"earlier plan":  {func(s *Store) error { return s.ReplaceJob(before) }, func(s *Store) error { return hasJob(s, before) }},
		"lease": {func(s *Store) error { return s.SaveLease(&leased) }, func(s *Store) error {
			if s.Numbers.Last() < 9 {
				return fmt.Errorf("the last number is %d", s.Numbers.Last())
			}
			dir, info := s.Jobs.path(jobVersion{3, 3}), JobInfo{} // the job's plan is not compared
			err := sealed.ReadFile(filepath.Join(dir, jobInfo), &info)
			data, err2 := os.ReadFile(filepath.Join(dir, planner.BaseBinaryFile))
			return errors.Join(err, err2, differs("lease", leased.JobInfo, info), differs("plan for base LIDs", base.Bytes(), data))
		}},
		"end of a job": {func(s *Store) error { return s.RemoveJob(4) }, func(s *Store) error {
			if slices.ContainsFunc(s.Jobs.versions(), func(v jobVersion) bool { return v.id == 4 }) || s.Numbers.Last() < 7 {
				return fmt.Errorf("plans %v are there, the last number is %d", s.Jobs.versions(), s.Numbers.Last())
			}
			return nil
		}},
		"all": {func(s *Store) error { return s.Restore(w.now, 20) }, w.found},
	}
	return w
}

// found fails unless the complete state in force is found.
func (w *world) found(s *Store) error {
	err := errors.Join(hasBaseline(s, w.now.Baseline), hasDecisions(s, w.now.Decisions), hasBase(s, w.now.Base.Bytes(), 7), hasEpoch(s, w.now.Epoch))
	for _, j := range w.now.Jobs {
		err = errors.Join(err, hasJob(s, j))
	}
	if list, _ := s.Jobs.All(); len(list) != len(w.now.Jobs) {
		err = errors.Join(err, fmt.Errorf("%d jobs", len(list)))
	}
	return err
}

func hasBaseline(s *Store, want *topology.Baseline) error {
	b, err := s.Baseline()
	return errors.Join(err, differs("baseline", want, b))
}

func hasDecisions(s *Store, want Decisions) error {
	d, err := s.Decisions()
	return errors.Join(err, differs("decisions", want, d))
}

func hasBase(s *Store, want []byte, last uint64) error {
	b, err := s.Base()
	if err == nil && (b == nil || !bytes.Equal(b.Bytes(), want)) {
		err = errors.New("another plan for base LIDs")
	}
	if s.Numbers.Last() < last {
		err = errors.Join(err, fmt.Errorf("the last number is %d", s.Numbers.Last()))
	}
	return err
}

// hasEpoch fails unless the given epoch is in force.
func hasEpoch(s *Store, want *Epoch) error {
	e, damaged := s.Epochs.Current()
	if e == nil {
		return errors.Join(damaged, errors.New("no epoch"))
	}
	if !bytes.Equal(want.Plan.Bytes(), e.Plan.Bytes()) {
		return fmt.Errorf("epoch %d has another plan than epoch %d", e.Epoch, want.Epoch)
	}
	return differs("epoch", want.EpochInfo, e.EpochInfo)
}

// hasJob fails unless the given plan of a job is in force, with its plan for base LIDs.
func hasJob(s *Store, want *Job) error {
	list, damaged := s.Jobs.All()
	i := slices.IndexFunc(list, func(j *Job) bool { return j.ID == want.ID })
	if i < 0 {
		return errors.Join(damaged, fmt.Errorf("no job %d", want.ID))
	}
	if list[i].Stale || !bytes.Equal(list[i].Plan.Bytes(), want.Plan.Bytes()) {
		return fmt.Errorf("plan %d of job %d, stale: %v", list[i].Epoch, want.ID, list[i].Stale)
	}
	if (want.Base == nil) != (list[i].Base == nil) || want.Base != nil && !bytes.Equal(list[i].Base.Bytes(), want.Base.Bytes()) {
		return fmt.Errorf("another plan for base LIDs of job %d", want.ID)
	}
	return differs("job", want.JobInfo, list[i].JobInfo)
}

func differs[T any](what string, want, got T) error {
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("%s (-want +got):\n%s", what, d)
	}
	return nil
}

// template returns a state directory with the complete state in force, earlier plans of a
// job and an earlier epoch.
func (w *world) template(t *testing.T) string {
	s, v := newStore(t), tree(t)
	ok(t, s.SaveBaseline(w.now.Baseline), s.save(planned(t, v, 1), 20), s.save(w.now.Epoch, 20), s.SaveJobs(w.now.Jobs[:1]...), s.SaveBase(w.now.Base),
		s.SaveJobs(jobOf(t, v, 4, 4)), s.SaveJobs(jobOf(t, v, 4, 5)), s.SaveJobs(w.now.Jobs[1]), s.SaveLease(w.now.Jobs[1]), s.SaveDecisions(w.now.Decisions), s.Close())
	return s.dir
}

// copied opens a copy of a state directory.
func copied(t *testing.T, template string) *Store {
	dir := filepath.Join(inMemory(t), "state")
	ok(t, os.CopyFS(dir, os.DirFS(template)))
	s, err := Open(dir)
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() }) // no effect if the test has closed it
	return s
}

// below lists a directory and everything in it.
func below(t *testing.T, dir string) (paths []string) {
	ok(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}))
	return paths
}

// TestBarred blocks every path of the state directory in every way, including paths that
// are about to be created, and performs one operation after the other. Either a new
// process finds the result, or the operation returns an error, something is pending, and
// Restore stores everything once the path is free.
func TestBarred(t *testing.T) {
	w := newWorld(t)
	template := w.template(t)
	paths := below(t, template)
	for _, name := range []string{"epochs/.new-8", "epochs/.new-2", "epochs/0000000008", "jobs/.new-3", "jobs/.new-4", "jobs/.new-5", "jobs/0000000003-0000000008",
		"jobs/0000000005-0000000008", "jobs/.new-4-6", "jobs/.new-4-5", "jobs/0000000004-0000000009"} {
		paths = append(paths, filepath.Join(template, name))
	}
	bars := map[string]func(path string) error{
		"gone":        func(string) error { return nil },
		"a file":      func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"a directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o755) },
	}
	failed := map[string]int{}
	for _, path := range paths {
		for how, bar := range bars {
			for what, d := range w.deeds {
				s := copied(t, template)
				barred := filepath.Join(s.dir, strings.TrimPrefix(path, template))
				ok(t, os.RemoveAll(barred))
				if err := bar(barred); err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("%s: %s in place of %s", what, how, barred)
				err := d.do(s)
				if err == nil {
					if s.PendingErr() != nil && what == "all" {
						t.Errorf("%s: it is stored, and pending: %v", name, s.PendingErr())
					}
					if err := d.found(reopened(t, s)); err != nil {
						t.Errorf("%s: it is said to be stored: %v", name, err)
					}
					continue
				}
				failed[what]++
				if s.PendingErr() == nil || !strings.Contains(err.Error(), s.dir) {
					t.Errorf("%s: %v, pending %v", name, err, s.PendingErr())
				}
				ok(t, os.RemoveAll(barred))
				if err := s.Restore(w.now, 20); err != nil || s.PendingErr() != nil {
					t.Errorf("%s: it is free again, and Restore fails: %v, pending %v", name, err, s.PendingErr())
				} else if err := w.found(reopened(t, s)); err != nil {
					t.Errorf("%s: after Restore: %v", name, err)
				}
			}
		}
	}
	for what := range w.deeds {
		if failed[what] == 0 {
			t.Errorf("%s: nothing bars it", what)
		}
	}
}

// TestUnsynced fails each sync of an operation in turn. The operation must fail, and its
// state is pending.
func TestUnsynced(t *testing.T) {
	w := newWorld(t)
	template := w.template(t)
	plain := SyncPath
	t.Cleanup(func() { SyncPath = plain })
	for what, d := range w.deeds {
		for n := 1; ; n++ {
			s, left := copied(t, template), n
			var mu sync.Mutex
			SyncPath = func(path string) error {
				mu.Lock()
				defer mu.Unlock()
				if left--; left == 0 {
					return fmt.Errorf("%s: the disk fails", path)
				}
				return plain(path)
			}
			err := d.do(s)
			SyncPath = plain
			if left > 0 { // fewer than n syncs
				ok(t, err)
				break
			}
			if err == nil || s.PendingErr() == nil || !strings.Contains(err.Error(), "the disk fails") {
				t.Errorf("%s: where sync %d fails: %v, pending %v", what, n, err, s.PendingErr())
			}
		}
	}
}

// TestSynced simulates a crash of the machine at the end of each operation. Anything that
// was not synced is lost, and the operation's result must survive.
func TestSynced(t *testing.T) {
	w := newWorld(t)
	empty := newStore(t)
	ok(t, empty.Close())
	for what, d := range w.deeds {
		w.synced(t, what, d, w.template(t))
		if what != "lease" && what != "end of a job" {
			w.synced(t, what+", the first", d, empty.dir)
		}
	}
}

func (w *world) synced(t *testing.T, what string, d deed, template string) {
	plain := SyncPath
	defer func() { SyncPath = plain }()
	s := copied(t, template)
	var mu sync.Mutex
	disk := map[uint64]string{} // [inode] the content of a file, or the names in a directory
	inode := func(path string) uint64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	look := func(path string) string {
		if text, err := os.ReadFile(path); err == nil {
			return "file " + string(text)
		}
		entries, _ := os.ReadDir(path)
		names := ""
		for _, e := range entries {
			names += "/" + e.Name() + "/"
		}
		return names
	}
	for _, path := range below(t, s.dir) {
		disk[inode(path)] = look(path)
	}
	SyncPath = func(path string) error {
		mu.Lock()
		defer mu.Unlock()
		disk[inode(path)] = look(path)
		return plain(path)
	}
	ok(t, d.do(s))
	SyncPath = plain
	for _, path := range below(t, s.dir) {
		was, is := disk[inode(path)], look(path)
		if filepath.Base(filepath.Dir(path)) == filepath.Base(s.dir) && strings.HasPrefix(is, "file ") || strings.HasSuffix(path, lastFile) {
			continue // such files are synced before they are renamed
		}
		if strings.HasPrefix(is, "file ") {
			if _, err := os.Stat(strings.Replace(filepath.Dir(path), s.dir, template, 1)); err == nil {
				continue // as above
			}
			if was != is {
				t.Errorf("%s: %s is not on disk", what, path)
			}
			continue
		}
		for _, name := range strings.FieldsFunc(is, func(r rune) bool { return r == '/' }) {
			if !strings.Contains(was, "/"+name+"/") {
				t.Errorf("%s: the name %s in %s is not on disk", what, name, path)
			}
		}
		if gone := strings.Contains(was, decisionsFile) && !strings.Contains(is, decisionsFile) || what == "end of a job" && strings.Contains(was, "/0000000004-"); gone {
			t.Errorf("%s: what was removed from %s comes back", what, path)
		}
	}
}

// TestUntold checks that values which cannot be encoded are refused, and that nothing of
// them is stored.
func TestUntold(t *testing.T) {
	w := newWorld(t)
	template := w.template(t)
	never := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	e, j := *planned(t, tree(t), 8), *w.now.Jobs[0]
	e.PublishedAt, j.Expires = never, never
	for what, do := range map[string]func(s *Store) error{
		"epoch":     func(s *Store) error { return s.Commit(&e) },
		"job":       func(s *Store) error { return s.SaveJobs(&j) },
		"lease":     func(s *Store) error { return s.SaveLease(&j) },
		"decisions": func(s *Store) error { return s.SaveDecisions(Decisions{"drains": json.RawMessage("{")}) },
	} {
		s := copied(t, template)
		if err := do(s); err == nil || s.PendingErr() == nil {
			t.Errorf("%s: %v, pending %v", what, err, s.PendingErr())
		}
		ok(t, w.found(reopened(t, s)))
	}
}
