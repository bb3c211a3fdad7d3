package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestPromise loses an epoch with the machine: its number is not given again. After an
// orderly end, or a crash of the process alone, numbers go on where they were.
func TestPromise(t *testing.T) {
	s, v := newStore(t), tree(t)
	ok(t, s.save(planned(t, v, 1), 20))
	path := filepath.Join(s.dir, promiseFile)
	before, err := os.ReadFile(path)
	ok(t, err)
	s = reopened(t, s)
	if s.last != 1 {
		t.Errorf("after an orderly end the last number is %d", s.last)
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
	ok(t, os.RemoveAll(s.path(5)), os.RemoveAll(s.path(6)))
	var p promise
	ok(t, json.Unmarshal(after, &p))
	p.Boot = "another"
	text, err := json.Marshal(p)
	ok(t, err, os.WriteFile(path, text, 0o644))
	s = reopened(t, s)
	if e, damaged := s.current(); e == nil || e.Epoch != 4 || damaged != nil {
		t.Errorf("epoch %v is in force, damage %v", e, damaged)
	}
	if s.last != 4 || s.next() <= 6 || s.next() != p.Epoch+1 {
		t.Errorf("the last number is %d, the next %d: epochs up to 6 were published, up to %d promised", s.last, s.next(), p.Epoch)
	}
	ok(t, s.save(planned(t, v, s.next()), 20))
	if s = reopened(t, s); s.last != p.Epoch+1 {
		t.Errorf("after that the last number is %d", s.last)
	}
	for _, bad := range []string{"", "{", "[]", `{"epoch":18446744073709551615}`} {
		ok(t, os.WriteFile(path, []byte(bad), 0o644))
		if s = reopened(t, s); s.next() != p.Epoch+2 || s.broken == nil {
			t.Errorf("with the promise %q the next number is %d (%v)", bad, s.next(), s.broken)
		}
	}
	ok(t, os.Remove(path))
	if s = reopened(t, s); s.next() != p.Epoch+2 || s.broken != nil {
		t.Errorf("without a promise the next number is %d (%v)", s.next(), s.broken)
	}
}

// TestPromiseBroken publishes nothing where the number cannot be promised.
func TestPromiseBroken(t *testing.T) {
	s, v := newStore(t), tree(t)
	ok(t, os.Mkdir(filepath.Join(s.dir, promiseFile), 0o755))
	if err := s.appear(planned(t, v, 1)); err == nil || len(s.numbers()) != 0 {
		t.Errorf("epoch 1 appeared without a promise: %v", err)
	}
}

// TestPlanAfterLoss gives the plan in force a number above all that may have been lost
// with the machine, even where it stays the same; not so what a rollback chose, or
// after a restart of forsd alone.
func TestPlanAfterLoss(t *testing.T) {
	dir, f := t.TempDir(), fabric(4, 4)
	again := func(before *Daemon, boot string) (d *Daemon, promised uint64) {
		t.Helper()
		path := filepath.Join(before.store.dir, promiseFile)
		text, err := os.ReadFile(path)
		ok(t, err, before.store.close())
		var p promise
		ok(t, json.Unmarshal(text, &p))
		if boot != "" {
			p.Boot = boot
		}
		text, err = json.Marshal(p)
		ok(t, err, os.WriteFile(path, text, 0o644))
		d = readable(daemonIn(t, dir))
		d.atRest(t, f)
		return d, p.Epoch
	}
	d := readable(daemonIn(t, dir))
	d.atRest(t, f)
	first := d.current()
	d, _ = again(d, "")
	if n := d.epochNumber(); n != first.Epoch {
		t.Errorf("after a restart epoch %d is in force, %d was", n, first.Epoch)
	}
	d, promised := again(d, "another")
	rows, err := rowsOf(first.view, d.latest().tree)
	ok(t, err)
	if e := d.current(); e.Epoch != promised+1 || !sameRows(e.view, d.latest().tree, rows) {
		t.Errorf("after the machine failed epoch %d is in force, %d were promised", e.Epoch, promised)
	}
	ok(t, d.rollback(first.Epoch))
	chosen := d.epochNumber()
	if d, _ = again(d, "a third"); d.epochNumber() != chosen {
		t.Errorf("epoch %d is in force, and a rollback chose %d", d.epochNumber(), chosen)
	}
}
