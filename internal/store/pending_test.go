package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/planner"
)

// besides opens a store with a note file outside its directory.
func besides(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(filepath.Join(dir, "state"), filepath.Join(dir, "beside"))
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() }) // no effect if the test has closed it
	return s
}

// TestGive gives numbers from memory while the state directory is missing. No later
// process gives them again, thanks to a note file or to the clock.
func TestGive(t *testing.T) {
	dir, v := t.TempDir(), tree(t)
	s := besides(t, dir)
	ok(t, s.save(planned(t, v, 1), 20), os.Rename(s.dir, s.dir+".away"))
	if err := s.Commit(planned(t, v, 2)); err == nil || s.PendingErr() == nil || s.Numbers.Last() != 1 {
		t.Fatalf("an epoch was stored nowhere: %v, pending %v", err, s.PendingErr())
	}
	ok(t, s.Numbers.UseWithoutDisk(2), s.Numbers.UseWithoutDisk(3), s.Numbers.UseWithoutDisk(3))
	if s.Numbers.Next() != 4 {
		t.Errorf("the next number is %d", s.Numbers.Next())
	}
	ok(t, s.Close(), os.Rename(s.dir+".away", s.dir))
	s = besides(t, dir)
	if s.PendingErr() != nil || s.Numbers.Last() != 1 || s.Numbers.Next() <= 3 || s.Numbers.Passed() <= 3 {
		t.Errorf("after numbers up to 3 the next is %d, passed over up to %d, pending %v", s.Numbers.Next(), s.Numbers.Passed(), s.PendingErr())
	}
	first := s.Numbers.Next()
	ok(t, s.save(planned(t, v, first), 20), s.Close())
	s = besides(t, dir)
	if s.Numbers.Next() != first+1 {
		t.Errorf("what is stored comes after what was given, and the next number is %d, not %d", s.Numbers.Next(), first+1)
	}

	// If no note file can be written either, the clock gives the numbers.
	ok(t, os.Remove(filepath.Join(dir, "beside")), os.MkdirAll(filepath.Join(dir, "beside", "x"), 0o755), os.RemoveAll(s.dir))
	n := s.Numbers.Next()
	if err := s.Commit(planned(t, v, n)); err == nil {
		t.Fatal("an epoch was stored nowhere")
	}
	if err := s.Numbers.UseWithoutDisk(n); !errors.Is(err, ErrNumber) || s.Numbers.Last() >= n {
		t.Errorf("number %d is safe: %v", n, err)
	}
	now := uint64(time.Now().UnixMilli())
	n = s.Numbers.Next()
	if n < now || n > now+60_000 {
		t.Errorf("the clock says %d, and the next number is %d", now, n)
	}
	if ok(t, s.Numbers.UseWithoutDisk(n)); s.Numbers.Next() <= n {
		t.Errorf("after %d the next number is %d", n, s.Numbers.Next())
	}
}

// TestGiveAhead gives numbers of the clock while the disk is unwritable for long. The
// note file is not written for each number, and numbers after a crash are above all of
// these.
func TestGiveAhead(t *testing.T) {
	dir, v := t.TempDir(), tree(t)
	beside := filepath.Join(dir, "beside")
	s := besides(t, dir)
	ok(t, s.save(planned(t, v, 1), 20), os.RemoveAll(s.dir), s.Numbers.UseWithoutDisk(2))
	if err := s.Numbers.UseWithoutDisk(s.Numbers.promised + 1); !errors.Is(err, ErrNumber) {
		t.Fatalf("a number that was not promised is safe: %v", err)
	}
	text, err := os.ReadFile(beside)
	ok(t, err, os.Remove(beside))
	last := uint64(0)
	for range 3 {
		last = s.Numbers.Next()
		ok(t, s.Numbers.UseWithoutDisk(last))
		if _, err := os.Stat(beside); err == nil {
			t.Error("the file beside is written for each number")
		}
	}
	ok(t, os.WriteFile(beside, text, 0o644), s.Close())
	if s = besides(t, dir); s.Numbers.Next() <= last {
		t.Errorf("after %d the next number is %d", last, s.Numbers.Next())
	}
}

// TestLostState starts with a state directory that is empty or older than the note file.
// Numbers continue above those in the note file.
func TestLostState(t *testing.T) {
	dir, v := t.TempDir(), tree(t)
	s := besides(t, dir)
	ok(t, s.save(planned(t, v, 1), 20), s.Close(), os.RemoveAll(s.dir))
	s = besides(t, dir)
	if n := s.Numbers.Next(); n <= 1 || s.Numbers.Broken() == nil || s.Numbers.Passed() != n-1 {
		t.Errorf("the next number is %d, and what is wrong %v", n, s.Numbers.Broken())
	}
	ok(t, s.Close())
	for _, text := range []string{"", "{", `{"given": 99999999999999999999}`, `{"given": 9999999999999999}`} {
		ok(t, os.RemoveAll(s.dir), os.WriteFile(filepath.Join(dir, "beside"), []byte(text), 0o644))
		if s = besides(t, dir); s.Numbers.Next() != 1 {
			t.Errorf("beside is %q, and the next number %d", text, s.Numbers.Next())
		}
		ok(t, s.Close())
	}
}

// TestRestore restores the complete state in force in a directory that was emptied, was
// replaced by an older one, or could not be opened.
func TestRestore(t *testing.T) {
	v := tree(t)
	job := func(id, epoch uint64) *Job {
		p := planned(t, v, epoch).Plan.Table()
		p.Job = id
		e, err := NewEpoch(p)
		ok(t, err)
		return &Job{JobInfo: JobInfo{ID: id, Epoch: epoch, Members: []planner.Member{}, Warnings: []planner.Warning{}}, Plan: e.Plan}
	}
	for name, happen := range map[string]func(dir string){
		"nothing": func(string) {},
		"emptied": func(dir string) {
			entries, err := os.ReadDir(dir)
			ok(t, err)
			for _, e := range entries {
				ok(t, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
		},
		"gone":          func(dir string) { ok(t, os.RemoveAll(dir)) },
		"another":       func(dir string) { ok(t, os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755)) },
		"without epoch": func(dir string) { ok(t, os.RemoveAll(filepath.Join(dir, "epochs", "0000000002"))) },
		"without jobs":  func(dir string) { ok(t, os.RemoveAll(filepath.Join(dir, "jobs", "0000000003-0000000003"))) },
		"no base plan":  func(dir string) { ok(t, os.Remove(filepath.Join(dir, planner.BaseBinaryFile))) },
		"no baseline":   func(dir string) { ok(t, os.Remove(filepath.Join(dir, baselineFile))) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			now := State{Baseline: v.Baseline, Epoch: planned(t, v, 2), Base: planned(t, v, 7).Plan, Jobs: []*Job{job(3, 3), job(4, 5)}}
			ok(t, s.SaveBaseline(v.Baseline), s.save(planned(t, v, 1), 20), s.save(now.Epoch, 20), s.SaveBase(now.Base))
			for _, j := range append(slices.Clone(now.Jobs), job(6, 6)) {
				ok(t, s.SaveJobs(j))
			}
			happen(s.dir)
			if s.Look(now); (s.PendingErr() == nil) != (name == "nothing") {
				t.Fatalf("pending: %v", s.PendingErr())
			}
			ok(t, s.Restore(now, 20), s.PendingErr())
			last := s.Numbers.Last()
			if s = reopened(t, s); s.Numbers.Last() != last || last != 7 {
				t.Errorf("the last number was %d, and is %d", last, s.Numbers.Last())
			}
			base, damaged := s.Baseline()
			ok(t, damaged)
			e, damaged := s.Epochs.Current()
			ok(t, damaged)
			jobs, damaged := s.Jobs.All()
			ok(t, damaged)
			onBase, damaged := s.Base()
			ok(t, damaged)
			if string(onBase.Bytes()) != string(now.Base.Bytes()) {
				t.Errorf("plan %d for base LIDs is stored, want %d", onBase.Epoch(), now.Base.Epoch())
			}
			if diff := cmp.Diff(now.Baseline, base); diff != "" || e.Epoch != 2 || string(e.Plan.Bytes()) != string(now.Epoch.Plan.Bytes()) || len(jobs) != 2 {
				t.Errorf("epoch %d, %d jobs, baseline %s", e.Epoch, len(jobs), diff)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o644))
	s, err := Open(filepath.Join(file, "state"))
	ok(t, err)
	if s.PendingErr() == nil || s.Numbers.Next() < 1<<40 {
		t.Errorf("below a file: pending %v, next number %d", s.PendingErr(), s.Numbers.Next())
	}
	if err := s.Restore(State{}, 20); err == nil {
		t.Error("stored below a file")
	}
	n := s.Numbers.Next()
	e := planned(t, v, n)
	e.PublishedAt = time.Now()
	ok(t, s.Numbers.UseWithoutDisk(n), os.Remove(file), s.Restore(State{Epoch: e}, 20), s.PendingErr())
	if s = reopened(t, s); s.Numbers.Last() != n {
		t.Errorf("the last number is %d, not %d", s.Numbers.Last(), n)
	}
}

// TestBaselineCopy damages the baseline, and then its copy too.
func TestBaselineCopy(t *testing.T) {
	v := tree(t)
	damages := map[string]func(path string) error{
		"removed": os.Remove,
		"cut off": func(path string) error { return os.Truncate(path, 99) },
		"one character": func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, []byte(strings.Replace(string(text), `"lanes": 4`, `"lanes": 5`, 1)), 0o644))
		},
		"flipped": func(path string) error {
			text, err := os.ReadFile(path)
			text[len(text)/2] ^= 1
			return errors.Join(err, os.WriteFile(path, text, 0o644))
		},
	}
	for name, damage := range damages {
		s := newStore(t)
		ok(t, s.SaveBaseline(v.Baseline), s.save(planned(t, v, 1), 20))
		path := filepath.Join(s.dir, baselineFile)
		before, err := os.ReadFile(path)
		ok(t, err, damage(path))
		if after, _ := os.ReadFile(path); string(after) == string(before) {
			continue // the damage does not apply to this file
		}
		if b, damaged := s.Baseline(); damaged == nil || !cmp.Equal(b, v.Baseline) {
			t.Errorf("%s: the copy is not used: %v", name, damaged)
		}
		ok(t, damage(filepath.Join(s.dir, baselineCopy)))
		if b, damaged := s.Baseline(); damaged == nil || b != nil {
			t.Errorf("%s: there is a baseline: %v", name, damaged)
		}
	}
	s := newStore(t) // written by a version without checksums
	ok(t, os.WriteFile(filepath.Join(s.dir, baselineFile), v.Baseline.Encode(), 0o644))
	if b, damaged := s.Baseline(); damaged != nil || !cmp.Equal(b, v.Baseline) {
		t.Errorf("a baseline without a checksum: %v", damaged)
	}
}

// TestSealedEpoch changes a digit, and the name of a field, in the description of an
// epoch.
func TestSealedEpoch(t *testing.T) {
	v := tree(t)
	for _, change := range [][2]string{{`"phases": `, `"phases": 1`}, {`"lower_bound"`, `"lower_bgund"`}} {
		for _, old := range []bool{false, true} {
			s := newStore(t)
			ok(t, s.save(planned(t, v, 1), 20))
			path := filepath.Join(s.Epochs.path(1), epochInfo)
			text, err := os.ReadFile(path)
			ok(t, err)
			if old { // as written by versions without checksums
				text = append(text[:strings.LastIndex(string(text), ",\n \"checksum\"")], "\n}\n"...)
				ok(t, os.WriteFile(path, text, 0o644))
				_, err := s.Epochs.Load(1)
				ok(t, err)
			}
			bad := strings.Replace(string(text), change[0], change[1], 1)
			if bad == string(text) {
				t.Fatalf("no %q in %s", change[0], text)
			}
			ok(t, os.WriteFile(path, []byte(bad), 0o644))
			if e, err := s.Epochs.Load(1); err == nil && (!old || e.Report.LowerBound == 0) {
				t.Errorf("%q for %q passes", change[1], change[0])
			}
		}
	}
}
