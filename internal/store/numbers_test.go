package store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/forsd/forsd/planner"
)

// TestPromise loses an epoch with the machine. Its number is not given again. After an
// orderly shutdown, or a crash of the process alone, numbers continue where they ended.
func TestPromise(t *testing.T) {
	s, v := newStore(t), tree(t)
	ok(t, s.save(planned(t, v, 1), 20))
	path := filepath.Join(s.dir, promiseFile)
	before, err := os.ReadFile(path)
	ok(t, err)
	s = reopened(t, s)
	if s.Numbers.Last() != 1 {
		t.Errorf("after an orderly end the last number is %d", s.Numbers.Last())
	}
	for n := range uint64(5) {
		ok(t, s.save(planned(t, v, n+2), 20))
	}
	after, err := os.ReadFile(path)
	ok(t, err)
	if string(after) != string(before) {
		t.Error("numbers were promised again before they were used up")
	}

	// Epochs 5 and 6 never reached the disk.
	ok(t, os.RemoveAll(s.Epochs.path(5)), os.RemoveAll(s.Epochs.path(6)))
	var p promise
	ok(t, json.Unmarshal(after, &p))
	p.Boot = "another"
	text, err := json.Marshal(p)
	ok(t, err, os.WriteFile(path, text, 0o644))
	s = reopened(t, s)
	if e, damaged := s.Epochs.Current(); e == nil || e.Epoch != 4 || damaged != nil {
		t.Errorf("epoch %v is in force, damage %v", e, damaged)
	}
	if s.Numbers.Last() != 4 || s.Numbers.Next() <= 6 || s.Numbers.Next() != p.Epoch+1 {
		t.Errorf("the last number is %d, the next %d: epochs up to 6 were published, up to %d promised", s.Numbers.Last(), s.Numbers.Next(), p.Epoch)
	}
	if s.Numbers.Passed() != p.Epoch {
		t.Errorf("numbers up to %d may have been given, and up to %d were promised", s.Numbers.Passed(), p.Epoch)
	}
	ok(t, s.save(planned(t, v, s.Numbers.Next()), 20))
	if s = reopened(t, s); s.Numbers.Last() != p.Epoch+1 {
		t.Errorf("after that the last number is %d", s.Numbers.Last())
	}
	for _, bad := range []string{"", "{", "[]", `{"epoch":18446744073709551615}`} {
		ok(t, os.WriteFile(path, []byte(bad), 0o644))
		if s = reopened(t, s); s.Numbers.Next() != p.Epoch+2 || s.Numbers.Broken() == nil {
			t.Errorf("with the promise %q the next number is %d (%v)", bad, s.Numbers.Next(), s.Numbers.Broken())
		}
	}
	ok(t, os.Remove(path))
	if s = reopened(t, s); s.Numbers.Next() != p.Epoch+2 || s.Numbers.Broken() != nil {
		t.Errorf("without a promise the next number is %d (%v)", s.Numbers.Next(), s.Numbers.Broken())
	}
}

// TestPromiseBroken checks that nothing is published if its number cannot be promised.
func TestPromiseBroken(t *testing.T) {
	s, v := newStore(t), tree(t)
	ok(t, os.Mkdir(filepath.Join(s.dir, promiseFile), 0o755))
	if err := s.Commit(planned(t, v, 1)); err == nil || len(s.Epochs.kept()) != 0 {
		t.Errorf("epoch 1 appeared without a promise: %v", err)
	}
}

// TestOneRow gives numbers to epochs, jobs and plans for base LIDs. A plan shares the
// number of the plan that it is published with, unless an earlier plan of its kind may
// have that number.
func TestOneRow(t *testing.T) {
	s, v := newStore(t), tree(t)
	ok(t, s.save(planned(t, v, 1), 20))
	if n := s.Numbers.After(1, 0); n != 1 {
		t.Errorf("the first plan for base LIDs goes with epoch 1, and has the number %d", n)
	}
	if n := s.Numbers.After(1, 1); n != 2 {
		t.Errorf("the second one has the number %d", n)
	}
	ok(t, s.SaveBase(planned(t, v, 2).Plan))
	if s.Numbers.Next() != 3 {
		t.Errorf("number %d follows 2, which a plan for base LIDs has", s.Numbers.Next())
	}
	for range 2 {
		s = reopened(t, s)
		if n := s.Numbers.After(1, 0); n != 3 || s.Numbers.Next() != 3 {
			t.Errorf("after a restart, number %d may have been given: %d", n, s.Numbers.Next())
		}
		ok(t, os.RemoveAll(filepath.Join(s.dir, planner.BaseBinaryFile)))
	}
	if n := s.Numbers.After(1, 9); n != 10 {
		t.Errorf("number %d follows 9", n)
	}
	s.Numbers.PassOver(20)
	if s.Numbers.Next() != 21 || s.Numbers.Passed() != 20 || s.Numbers.After(20, 2) != 21 || s.Numbers.After(21, 2) != 21 {
		t.Errorf("numbers up to 20 may have been given, and next are %d and %d", s.Numbers.Next(), s.Numbers.After(20, 2))
	}
	if s.Numbers.AdvanceTo(21); s.Numbers.Passed() != 0 || s.Numbers.After(21, 2) != 22 {
		t.Errorf("another forsd has given 21, and up to %d are passed over", s.Numbers.Passed())
	}
}
