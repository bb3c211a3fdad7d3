package store

import (
	"bytes"
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

// TestAnother has another state directory in the place of the one that was taken: nothing is
// stored there until Restore takes it, which lets the other go.
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
			if err := d.do(s); err == nil || s.Owed() == nil || !strings.Contains(err.Error(), s.dir+" "+why) && why != "has vanished" || why == "has vanished" && !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, owed %v, want %q", what, err, s.Owed(), why)
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
		owed := s.Owed()
		if s.Look(w.now); s.Owed() != owed {
			t.Errorf("%s: %v was owed, and now %v", what, owed, s.Owed())
		}
		ok(t, os.WriteFile(s.dir, nil, 0o644))
		if err := s.Restore(w.now, 20); err == nil || s.Owed() == nil {
			t.Errorf("%s: restored in a file: %v", what, err)
		}
		ok(t, os.Remove(s.dir), os.Rename(old, s.dir), d.do(s)) // it is still taken
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

// TestRestoreLeaves leaves in place what is whole and in force, where a crash meanwhile cannot
// lose it, goes on above all numbers that it meets, and counts again.
func TestRestoreLeaves(t *testing.T) {
	w := newWorld(t)
	dir := inMemory(t)
	ok(t, os.CopyFS(filepath.Join(dir, "state"), os.DirFS(w.template(t))))
	s := besides(t, dir)
	at := func() (inodes []uint64) {
		for _, path := range []string{s.epochs.path(2), s.jobs.path(jobVersion{3, 3}), s.jobs.path(jobVersion{4, 6})} {
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
	ok(t, s.Stage(staged), os.Rename(s.dir, s.dir+".old"), s.Give(8), s.Restore(w.now, 20))
	text, err := os.ReadFile(filepath.Join(dir, "beside"))
	ok(t, err)
	if want := fmt.Sprintf("{\"promised\":%d,\"given\":0}\n", s.promised); string(text) != want {
		t.Errorf("beside is %s, want %s", text, want)
	}
	if _, err := os.Stat(filepath.Join(s.dir, promiseFile)); err != nil {
		t.Error(err)
	}
	ok(t, s.Reveal(staged), s.Flush(staged, 20), os.RemoveAll(s.dir+".old"))

	high := newStore(t)
	ok(t, high.save(planned(t, tree(t), 50), 20), high.Close(), os.RemoveAll(s.dir), os.Rename(high.dir, s.dir))
	ended := jobOf(t, tree(t), 6, 6)
	ok(t, s.Restore(w.now, 20))
	if s.Next() <= 50 {
		t.Errorf("number 50 was given there, and the next is %d", s.Next())
	}
	if e, damaged := s.Current(); damaged != nil || e.Epoch != 2 {
		t.Errorf("epoch %v is in force: %v", e, damaged)
	}
	bar := filepath.Join(string(s.jobs), tempPrefix+"6-6", "x")
	ok(t, s.SaveJob(ended), os.MkdirAll(bar, 0o755))
	if err := s.Restore(w.now, 20); err == nil || s.Owed() == nil {
		t.Errorf("job 6 has ended and cannot be removed: %v, owed %v", err, s.Owed())
	}
	ok(t, os.RemoveAll(filepath.Dir(bar)), s.Restore(w.now, 20), w.found(s))
	s.clock = milliseconds()
	if ok(t, s.Restore(w.now, 20)); s.Next() != s.Last()+1 {
		t.Errorf("the state directory takes numbers again, and after %d comes %d", s.Last(), s.Next())
	}
}

// TestOrder holds that numbers are in order whatever their length: the clock gives longer ones.
func TestOrder(t *testing.T) {
	s, v := newStore(t), tree(t)
	numbers := []uint64{8, 19, 9_999_999_999, 1_700_000_000_000}
	for _, n := range numbers {
		e, j := planned(t, v, n), jobOf(t, v, 12, n)
		e.PublishedAt, j.PublishedAt = time.Unix(1, 0), time.Unix(1, 0)
		ok(t, s.save(e, 20), s.SaveJob(j))
	}
	ok(t, os.Mkdir(filepath.Join(string(s.jobs), "12"), 0o755), os.Mkdir(filepath.Join(string(s.jobs), "12-x"), 0o755))
	if got := s.epochs.kept(); !slices.Equal(got, numbers) {
		t.Errorf("epochs %v", got)
	}
	if got := s.jobs.versions(); !slices.Equal(got, []jobVersion{{12, numbers[2]}, {12, numbers[3]}}) {
		t.Errorf("plans %v", got)
	}
	if s = reopened(t, s); s.Last() != numbers[3] {
		t.Errorf("the last number is %d", s.Last())
	}
	j := jobOf(t, v, 12, 19)
	j.Lanes, j.Routed = []planner.JobLane{{}}, true
	want := planner.Job{ID: 12, Lanes: j.Lanes, Routed: true}
	for _, m := range j.Members {
		want.Members = append(want.Members, m.GUID)
	}
	ok(t, differs("what planning must know", want, j.Planning()))
}

// TestBeside holds the edges of what the files beside, and the promise, may say, and that a
// number of the clock waits for the disk of the file beside.
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
		if s.Next() != next {
			t.Errorf("beside is %s, and the next number %d", text, s.Next())
		}
		ok(t, s.Close(), os.Remove(beside))
	}
	for n, broken := range map[uint64]bool{HighestNumber: false, HighestNumber + 1: true} {
		ok(t, os.WriteFile(filepath.Join(dir, "state", promiseFile), fmt.Appendf(nil, `{"epoch": %d}`, n), 0o644))
		s := besides(t, dir)
		if (s.Broken() != nil) != broken {
			t.Errorf("promised up to %d: %v", n, s.Broken())
		}
		ok(t, s.Close(), os.Remove(filepath.Join(dir, "state", promiseFile)))
	}
	s := besides(t, dir)
	if s.PassOver(20); s.Passed() != 20 {
		t.Errorf("passed over %d", s.Passed())
	}
	if s.Raise(20); s.Passed() != 20 {
		t.Errorf("another forsd has given 20, and %d are passed over", s.Passed())
	}
	real, synced := syncPath, false
	t.Cleanup(func() { syncPath = real })
	syncPath = func(path string) error {
		if path == beside {
			time.Sleep(20 * time.Millisecond)
			synced = true
		}
		return real(path)
	}
	ok(t, os.RemoveAll(s.dir))
	s.clock = milliseconds()
	if ok(t, s.Give(s.Next())); !synced {
		t.Error("a number of the clock is given before the file beside is on disk")
	}
	ok(t, os.Remove(beside), os.MkdirAll(filepath.Join(beside, "x"), 0o755))
	s.noted = note{}
	_ = s.Give(s.Next())
	if _, err := os.Stat(beside + ".new"); err == nil {
		t.Error("what could not take the place of the file beside is left there")
	}
}
