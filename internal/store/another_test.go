package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/planner"
)

// TestAnother replaces the locked state directory with another one, or removes it.
// Nothing is stored there until Restore locks the new directory and releases the old one.
func TestAnother(t *testing.T) {
	w := newWorld(t)
	template := w.template(t)
	for what, d := range w.deeds {
		if what == "all" {
			continue
		}
		s := copied(t, template)
		old := s.dir + ".old"
		ok(t, os.Rename(s.dir, old))
		for why, place := range map[string]func(){"has vanished": func() {}, "is another one": func() { ok(t, os.CopyFS(s.dir, os.DirFS(template))) }} {
			place()
			if err := d.do(s); err == nil || s.PendingErr() == nil || !strings.Contains(err.Error(), s.dir+" "+why) && why != "has vanished" || why == "has vanished" && !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, pending %v, want %q", what, err, s.PendingErr(), why)
			}
			if why == "is another one" {
				for _, path := range below(t, s.dir) {
					if text, err := os.ReadFile(path); err == nil {
						before, err := os.ReadFile(strings.Replace(path, s.dir, template, 1))
						if ok(t, err); !bytes.Equal(before, text) {
							t.Errorf("%s: %s has been written", what, path)
						}
					}
				}
			}
			ok(t, os.RemoveAll(s.dir))
		}
		pending := s.PendingErr()
		if s.Look(w.now); !errors.Is(s.PendingErr(), pending) {
			t.Errorf("%s: %v was pending, and now %v", what, pending, s.PendingErr())
		}
		ok(t, os.WriteFile(s.dir, nil, 0o644))
		if err := s.Restore(w.now, 20); err == nil || s.PendingErr() == nil {
			t.Errorf("%s: restored in a file: %v", what, err)
		}
		ok(t, os.Remove(s.dir), os.Rename(old, s.dir), d.do(s)) // the old directory is still locked
		ok(t, os.Rename(s.dir, old), s.Restore(w.now, 20))
		other, err := Open(old)
		ok(t, err, other.Close(), w.found(reopened(t, s)))
	}
	file := filepath.Join(inMemory(t), "file")
	ok(t, os.WriteFile(file, nil, 0o644))
	s, err := Open(filepath.Join(file, "state"))
	ok(t, err)
	for what, d := range w.deeds {
		if err := d.do(s); what != "all" && (err == nil || !strings.Contains(err.Error(), s.dir+" cannot be opened")) {
			t.Errorf("%s below a file: %v", what, err)
		}
	}
	s = copied(t, template)
	ok(t, s.Close())
	if err := w.deeds["baseline"].do(s); err == nil {
		t.Error("stored by a store that is closed")
	}
}

// TestRestoreLeaves checks that Restore does not rewrite intact state in force, so that a
// crash during the call cannot lose it. Numbers continue above all numbers found, and are
// counted up again.
func TestRestoreLeaves(t *testing.T) {
	w := newWorld(t)
	dir := inMemory(t)
	ok(t, os.CopyFS(filepath.Join(dir, "state"), os.DirFS(w.template(t))))
	s := besides(t, dir)
	at := func() (inodes []uint64) {
		for _, path := range []string{s.Epochs.path(2), s.Jobs.path(jobVersion{3, 3}), s.Jobs.path(jobVersion{4, 6})} {
			info, err := os.Stat(path)
			ok(t, err)
			inodes = append(inodes, info.Sys().(*syscall.Stat_t).Ino)
		}
		return inodes
	}
	before := at()
	ok(t, s.Restore(w.now, 20))
	if after := at(); !slices.Equal(before, after) {
		t.Errorf("what was whole was written again: %v, before %v", after, before)
	}
	stale := *w.now.Jobs[0]
	stale.Stale, stale.Epoch = true, 2
	now := w.now
	now.Jobs = []*Job{&stale, w.now.Jobs[1]}
	ok(t, s.Restore(now, 20))
	if after := at(); !slices.Equal(before, after) {
		t.Errorf("the plans of a job that waits for its next plan were touched: %v, before %v", after, before)
	}

	staged := planned(t, tree(t), 9)
	ok(t, s.Stage(staged), os.Rename(s.dir, s.dir+".old"), s.Numbers.UseWithoutDisk(8), s.Restore(w.now, 20))
	text, err := os.ReadFile(filepath.Join(dir, "beside"))
	ok(t, err)
	if want := fmt.Sprintf("{\"promised\":%d,\"given\":0}\n", s.Numbers.promised); string(text) != want {
		t.Errorf("beside is %s, want %s", text, want)
	}
	if _, err := os.Stat(filepath.Join(s.dir, promiseFile)); err != nil {
		t.Error(err)
	}
	ok(t, s.Commit(staged), s.Sync(staged, 20), os.RemoveAll(s.dir+".old"))

	high := newStore(t)
	ok(t, high.save(planned(t, tree(t), 50), 20), high.Close(), os.RemoveAll(s.dir), os.Rename(high.dir, s.dir))
	ended := jobOf(t, tree(t), 6, 6)
	ok(t, s.Restore(w.now, 20))
	if s.Numbers.Next() <= 50 {
		t.Errorf("number 50 was given there, and the next is %d", s.Numbers.Next())
	}
	if e, damaged := s.Epochs.Current(); damaged != nil || e.Epoch != 2 {
		t.Errorf("epoch %v is in force: %v", e, damaged)
	}
	bar := filepath.Join(string(s.Jobs), tempPrefix+"6-6", "x")
	ok(t, s.SaveJobs(ended), os.MkdirAll(bar, 0o755))
	if err := s.Restore(w.now, 20); err == nil || s.PendingErr() == nil {
		t.Errorf("job 6 has ended and cannot be removed: %v, pending %v", err, s.PendingErr())
	}
	ok(t, os.RemoveAll(filepath.Dir(bar)), s.Restore(w.now, 20), w.found(s))
	s.Numbers.clock = milliseconds()
	if ok(t, s.Restore(w.now, 20)); s.Numbers.Next() != s.Numbers.Last()+1 {
		t.Errorf("the state directory takes numbers again, and after %d comes %d", s.Numbers.Last(), s.Numbers.Next())
	}
}

// TestOrder checks that numbers are ordered by value and not by length: the clock gives
// longer ones.
func TestOrder(t *testing.T) {
	s, v := newStore(t), tree(t)
	numbers := []uint64{8, 19, 9_999_999_999, 1_700_000_000_000}
	for _, n := range numbers {
		e, j := planned(t, v, n), jobOf(t, v, 12, n)
		e.PublishedAt, j.PublishedAt = time.Unix(1, 0), time.Unix(1, 0)
		ok(t, s.save(e, 20), s.SaveJobs(j))
	}
	ok(t, os.Mkdir(filepath.Join(string(s.Jobs), "12"), 0o755), os.Mkdir(filepath.Join(string(s.Jobs), "12-x"), 0o755))
	if got := s.Epochs.kept(); !slices.Equal(got, numbers) {
		t.Errorf("epochs %v", got)
	}
	if got := s.Jobs.versions(); !slices.Equal(got, []jobVersion{{12, numbers[2]}, {12, numbers[3]}}) {
		t.Errorf("plans %v", got)
	}
	if s = reopened(t, s); s.Numbers.Last() != numbers[3] {
		t.Errorf("the last number is %d", s.Numbers.Last())
	}
	j := jobOf(t, v, 12, 19)
	j.Lanes, j.Routed = []planner.JobLane{{}}, true
	want := planner.Job{ID: 12, Lanes: j.Lanes, Routed: true}
	for _, m := range j.Members {
		want.Members = append(want.Members, m.GUID)
	}
	ok(t, differs("what planning must know", want, j.Planning()))
}

// TestBeside checks the limits of the numbers in note files and in the promise, and that
// a number from the clock waits until the note file is on disk.
func TestBeside(t *testing.T) {
	dir := inMemory(t)
	beside := filepath.Join(dir, "beside")
	for text, next := range map[string]uint64{
		fmt.Sprintf(`{"given": %d}`, uint64(HighestNumber)):      HighestNumber + 1,
		fmt.Sprintf(`{"given": %d}`, uint64(HighestNumber+1)):    1,
		fmt.Sprintf(`{"promised": %d}`, uint64(HighestNumber)):   HighestNumber + 1,
		fmt.Sprintf(`{"promised": %d}`, uint64(HighestNumber)+1): 1,
	} {
		ok(t, os.RemoveAll(filepath.Join(dir, "state")), os.WriteFile(beside, []byte(text), 0o644))
		s := besides(t, dir)
		if s.Numbers.Next() != next {
			t.Errorf("beside is %s, and the next number %d", text, s.Numbers.Next())
		}
		ok(t, s.Close(), os.Remove(beside))
	}
	for n, broken := range map[uint64]bool{HighestNumber: false, HighestNumber + 1: true} {
		ok(t, os.WriteFile(filepath.Join(dir, "state", promiseFile), fmt.Appendf(nil, `{"epoch": %d}`, n), 0o644))
		s := besides(t, dir)
		if (s.Numbers.Broken() != nil) != broken {
			t.Errorf("promised up to %d: %v", n, s.Numbers.Broken())
		}
		ok(t, s.Close(), os.Remove(filepath.Join(dir, "state", promiseFile)))
	}
	s := besides(t, dir)
	if s.Numbers.PassOver(20); s.Numbers.Passed() != 20 {
		t.Errorf("passed over %d", s.Numbers.Passed())
	}
	if s.Numbers.AdvanceTo(20); s.Numbers.Passed() != 20 {
		t.Errorf("another forsd has given 20, and %d are passed over", s.Numbers.Passed())
	}
	plain, synced := SyncPath, false
	t.Cleanup(func() { SyncPath = plain })
	SyncPath = func(path string) error {
		if path == beside {
			time.Sleep(20 * time.Millisecond)
			synced = true
		}
		return plain(path)
	}
	ok(t, os.RemoveAll(s.dir))
	s.Numbers.clock = milliseconds()
	if ok(t, s.Numbers.UseWithoutDisk(s.Numbers.Next())); !synced {
		t.Error("a number of the clock is given before the file beside is on disk")
	}
	ok(t, os.Remove(beside), os.MkdirAll(filepath.Join(beside, "x"), 0o755))
	s.Numbers.noted = note{}
	_ = s.Numbers.UseWithoutDisk(s.Numbers.Next())
	if _, err := os.Stat(beside + ".new"); err == nil {
		t.Error("what could not take the place of the file beside is left there")
	}
}

// TestPrune checks that as many epochs as requested are kept, but at least one.
func TestPrune(t *testing.T) {
	s, v := newStore(t), tree(t)
	for n := range uint64(5) {
		ok(t, s.save(planned(t, v, n+1), 20))
	}
	for i, c := range []struct {
		keep int
		want []uint64
	}{{3, []uint64{4, 5, 6}}, {2, []uint64{6, 7}}, {1, []uint64{8}}, {0, []uint64{9}}} {
		ok(t, s.save(planned(t, v, uint64(i)+6), c.keep))
		if got := s.Epochs.kept(); !slices.Equal(got, c.want) {
			t.Errorf("of %d to keep, epochs %v are kept, want %v", c.keep, got, c.want)
		}
	}
}

// TestAhead checks that numbers are promised before they are needed, and that the note
// file drops the numbers given from memory only after a higher one is stored.
func TestAhead(t *testing.T) {
	dir, v := inMemory(t), tree(t)
	beside := filepath.Join(dir, "beside")
	s := besides(t, dir)
	ok(t, s.save(planned(t, v, 1), 20))
	if ok(t, s.save(planned(t, v, s.Numbers.promised), 20)); s.Numbers.promised <= s.Numbers.Last() {
		t.Errorf("numbers up to %d are promised, and %d is given", s.Numbers.promised, s.Numbers.Last())
	}
	ok(t, os.Remove(beside))
	if ok(t, s.save(planned(t, v, s.Numbers.Next()), 20)); s.Numbers.noted.Given != 0 {
		t.Errorf("numbers up to %d were given from memory", s.Numbers.noted.Given)
	}
	if _, err := os.Stat(beside); err == nil {
		t.Error("the file beside is written where it has nothing new to say")
	}
	ok(t, s.Close(), os.WriteFile(beside, fmt.Appendf(nil, `{"promised": %d, "given": %d}`, s.Numbers.promised, s.Numbers.promised), 0o644))
	s = besides(t, dir)
	first := s.Numbers.Next()
	ok(t, s.Commit(planned(t, v, first)))
	if text, err := os.ReadFile(beside); err != nil || strings.Contains(string(text), `"given":0`) {
		t.Errorf("before %d is on disk, beside is %s, %v", first, text, err)
	}
	ok(t, s.Sync(planned(t, v, first), 20))
	if text, err := os.ReadFile(beside); err != nil || !strings.Contains(string(text), `"given":0`) {
		t.Errorf("after %d is on disk, beside is %s, %v", first, text, err)
	}
}

// TestTake checks that only one process can lock a file, that Take waits for a process
// that is just ending, and that it does without a lock if the file cannot exist.
func TestTake(t *testing.T) {
	path := filepath.Join(inMemory(t), "file")
	first, err := Take(path, "a file")
	if ok(t, err); first == nil {
		t.Fatal("it is not taken")
	}
	if second, err := Take(path, "a file"); second != nil || err == nil || !strings.Contains(err.Error(), "lock a file: another process") {
		t.Errorf("taken twice: %v, %v", second, err)
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		_ = first.Close()
	}()
	second, err := Take(path, "a file")
	if ok(t, err); second == nil {
		t.Fatal("it is not taken after it was let go")
	}
	ok(t, second.Close())
	if none, err := Take(filepath.Join(path, "below"), "a file"); none != nil || err != nil {
		t.Errorf("below a file: %v, %v", none, err)
	}
}

// TestStageFails checks that staging reports an error, and that the plan is stored later
// nevertheless.
func TestStageFails(t *testing.T) {
	s, v := newStore(t), tree(t)
	e := planned(t, v, 1)
	ok(t, os.RemoveAll(string(s.Epochs)))
	if err := s.Stage(e); err == nil {
		t.Error("staged without a directory of epochs")
	}
	ok(t, os.Mkdir(string(s.Epochs), 0o755), s.save(e, 20), os.Rename(s.dir, s.dir+".old"))
	if err := s.Stage(planned(t, v, 2)); err == nil {
		t.Error("staged without a state directory")
	}
	ok(t, os.Rename(s.dir+".old", s.dir), hasEpoch(reopened(t, s), e))
}

// TestCounted checks that decisions are counted one by one, and that only a missing or
// different copy of the baseline is written.
func TestCounted(t *testing.T) {
	d := Decisions{}
	for n := range uint64(12) {
		if d.Serial() != n {
			t.Errorf("after %d decisions the serial number is %d", n, d.Serial())
		}
		d.Count()
	}
	s, v := newStore(t), tree(t)
	ok(t, s.SaveBaseline(v.Baseline))
	path := filepath.Join(s.dir, baselineCopy)
	whole, err := os.ReadFile(path)
	ok(t, err)
	for name, spoil := range map[string]func() error{"none": func() error { return os.Remove(path) }, "another": func() error { return os.WriteFile(path, []byte("{}"), 0o644) }} {
		ok(t, spoil())
		_, damaged := s.Baseline()
		ok(t, damaged)
		if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, whole) {
			t.Errorf("where there is %s, the copy is %q, %v", name, text, err)
		}
	}
	before, err := os.Stat(path)
	ok(t, err)
	_, damaged := s.Baseline()
	ok(t, damaged)
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("a copy that is right is written again: %v", err)
	}
}

// TestPassedOutlasts checks that numbers which may have been given to lost plans are passed over
// by later processes, too, until a plan above them is stored.
func TestPassedOutlasts(t *testing.T) {
	dir, beside := t.TempDir(), filepath.Join(t.TempDir(), "numbers")
	reopen := func() *Store {
		s, err := Open(dir, beside)
		ok(t, err)
		t.Cleanup(func() { _ = s.Close() })
		if s.Numbers.Passed() != 64 {
			t.Fatalf("numbers up to %d are passed over, want 64", s.Numbers.Passed())
		}
		return s
	}
	ok(t, os.WriteFile(filepath.Join(dir, promiseFile), []byte(`{"epoch":64,"boot":"another"}`), 0o644))
	s := reopen()
	ok(t, s.Numbers.promise(s.Numbers.Next())) // for a plan that it has not stored when it is killed
	ok(t, s.Close())
	s = reopen()
	ok(t, s.Restore(State{}, 1))
	ok(t, s.Close())
	reopen()
}
