package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forsd/internal/fabgen"
	"forsd/phasetable"
	"forsd/planner"
	"forsd/topology"
)

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tree is a small fat tree with LIDs for each of its lanes.
func tree(t *testing.T) *view {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	base, err := topology.NewBaseline(f)
	ok(t, err)
	v, err := newView(f, base, nil)
	ok(t, err)
	return v
}

// planned makes an epoch of a verified plan.
func planned(t *testing.T, v *view, n uint64) *epoch {
	t.Helper()
	r, err := planner.Make(v.tree, planner.Settings{})
	ok(t, err)
	e := &epoch{epochFile: epochFile{Epoch: n, PublishedAt: time.Unix(int64(n), 0).UTC(), Fabric: v.id, What: []string{"a test"}, Report: r.Report()}}
	e.table, err = phasetable.Encode(r.Table(n))
	ok(t, err)
	e.view, err = phasetable.Decode(e.table)
	ok(t, err)
	return e
}

// reopened is a store of the directory as a new process finds it.
func reopened(t *testing.T, s *store) *store {
	t.Helper()
	ok(t, s.close())
	fresh, err := openStore(s.dir)
	ok(t, err)
	t.Cleanup(func() { _ = fresh.close() }) // again where the test did
	return fresh
}

func newStore(t *testing.T) *store {
	t.Helper()
	s, err := openStore(filepath.Join(t.TempDir(), "state"))
	ok(t, err)
	t.Cleanup(func() { _ = s.close() }) // again where the test did
	return s
}

func TestStoreKeepsEpochs(t *testing.T) {
	s, v := newStore(t), tree(t)
	if e, damaged := s.current(); e != nil || damaged != nil {
		t.Fatalf("an empty store has epoch %v, %v", e, damaged)
	}
	var last *epoch
	for n := range uint64(7) {
		last = planned(t, v, n+1)
		ok(t, s.save(last, 3))
	}
	if got, want := s.numbers(), []uint64{5, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("epochs %v are kept, not %v", got, want)
	}
	s = reopened(t, s)
	e, damaged := s.current()
	ok(t, damaged)
	if diff := cmp.Diff(last.epochFile, e.epochFile); diff != "" || string(e.table) != string(last.table) {
		t.Errorf("epoch 7 came back different (-want +got):\n%s", diff)
	}
	if s.last != 7 {
		t.Errorf("the last number is %d", s.last)
	}
	for _, n := range []uint64{0, 4, 8} {
		if _, err := s.load(n); err == nil || !strings.Contains(err.Error(), "not kept") {
			t.Errorf("epoch %d: %v", n, err)
		}
	}
}

// TestStoreAfterCrash leaves behind what a crash at any instruction of save can:
// an unnamed directory with none, some or all of its files.
func TestStoreAfterCrash(t *testing.T) {
	s, v := newStore(t), tree(t)
	ok(t, s.save(planned(t, v, 1), 20))
	lost := planned(t, v, 2)
	temp := filepath.Join(s.dir, epochsDir, tempPrefix+"2")
	for _, leave := range []func(){
		func() {},
		func() { ok(t, os.WriteFile(filepath.Join(temp, epochTable), nil, 0o644)) },
		func() { ok(t, os.WriteFile(filepath.Join(temp, epochTable), lost.table[:99], 0o644)) },
		func() {
			ok(t, os.WriteFile(filepath.Join(temp, epochTable), lost.table, 0o644),
				os.WriteFile(filepath.Join(temp, epochMeta), []byte("{"), 0o644))
		},
	} {
		ok(t, os.Mkdir(temp, 0o755))
		leave()
		s = reopened(t, s)
		e, damaged := s.current()
		if damaged != nil || e == nil || e.Epoch != 1 || s.last != 1 {
			t.Errorf("epoch %v, last number %d, %v", e, s.last, damaged)
		}
		if _, err := os.Stat(temp); err == nil {
			t.Error("the leftovers are still there")
		}
	}
	ok(t, s.save(lost, 20))
}

// TestStoreStages brings tables to disk ahead: they are out of sight until saved,
// and what was not saved leaves no trace in what is.
func TestStoreStages(t *testing.T) {
	s, v := newStore(t), tree(t)
	ok(t, s.save(planned(t, v, 1), 20))
	dropped, wanted := planned(t, v, 2), planned(t, v, 2)
	dropped.table = dropped.table[:99]
	ok(t, s.stage(dropped))
	if got := s.numbers(); !slices.Equal(got, []uint64{1}) {
		t.Errorf("epochs %v are in sight before epoch 2 was saved", got)
	}
	ok(t, s.stage(wanted), s.save(wanted, 20)) // staged and saved
	third := planned(t, v, 3)
	ok(t, s.stage(dropped), s.save(third, 20)) // one staged, another one saved
	for _, want := range []*epoch{wanted, third} {
		got, err := s.load(want.Epoch)
		ok(t, err)
		if diff := cmp.Diff(want.epochFile, got.epochFile); diff != "" || string(got.table) != string(want.table) {
			t.Errorf("epoch %d came back different (-want +got):\n%s", want.Epoch, diff)
		}
	}
	if _, err := os.Stat(s.temp(2)); err == nil {
		t.Error("what was staged and never saved is kept beside what was")
	}
	ok(t, s.stage(planned(t, v, 4)))
	if _, err := os.Stat(s.temp(4)); err != nil {
		t.Fatal(err)
	}
	s = reopened(t, s)
	if _, err := os.Stat(s.temp(4)); err == nil {
		t.Error("what was staged and never saved outlives a start")
	}
}

// TestStoreSkipsDamage damages the highest epoch in many ways; the one before is
// in force then, and the number is not given again.
func TestStoreSkipsDamage(t *testing.T) {
	v := tree(t)
	for name, damage := range map[string]func(dir string, e *epoch) error{
		"a flipped bit": func(dir string, e *epoch) error {
			bad := slices.Clone(e.table)
			bad[len(bad)/2] ^= 4
			return os.WriteFile(filepath.Join(dir, epochTable), bad, 0o644)
		},
		"cut off":      func(dir string, e *epoch) error { return os.Truncate(filepath.Join(dir, epochTable), 700) },
		"no table":     func(dir string, e *epoch) error { return os.Remove(filepath.Join(dir, epochTable)) },
		"no meta file": func(dir string, e *epoch) error { return os.Remove(filepath.Join(dir, epochMeta)) },
		"garbage": func(dir string, e *epoch) error {
			return os.WriteFile(filepath.Join(dir, epochMeta), []byte("\x00{]"), 0o644)
		},
		"other epoch": func(dir string, e *epoch) error {
			return os.WriteFile(filepath.Join(dir, epochTable), planned(t, v, 1).table, 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			ok(t, s.save(planned(t, v, 1), 20), s.save(planned(t, v, 2), 20))
			ok(t, damage(s.path(2), planned(t, v, 2)))
			s = reopened(t, s)
			e, damaged := s.current()
			if e == nil || e.Epoch != 1 || damaged == nil || s.last != 2 {
				t.Errorf("epoch %v is in force, last number %d, damage: %v", e, s.last, damaged)
			}
			if _, err := s.load(2); err == nil {
				t.Error("the damaged epoch can be loaded")
			}
			ok(t, s.save(planned(t, v, 3), 20))
			if e, _ := s.current(); e.Epoch != 3 {
				t.Errorf("epoch %d is in force", e.Epoch)
			}
		})
	}
}

func TestStoreIsOnesOwn(t *testing.T) {
	s := newStore(t)
	if _, err := openStore(s.dir); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Errorf("a second store of the directory: %v", err)
	}
	reopened(t, s)
}

func TestStoreBaseline(t *testing.T) {
	s, v := newStore(t), tree(t)
	if b, err := s.baseline(); b != nil || err != nil {
		t.Errorf("an empty store has baseline %v, %v", b, err)
	}
	ok(t, s.saveBaseline(v.tree.Baseline))
	b, err := s.baseline()
	ok(t, err)
	if diff := cmp.Diff(v.tree.Baseline, b); diff != "" {
		t.Errorf("the baseline came back different (-want +got):\n%s", diff)
	}
	path := filepath.Join(s.dir, baselineFile)
	ok(t, os.WriteFile(path, []byte(`{"version": 1, "leafs": []}`), 0o644))
	if _, err := s.baseline(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a baseline with an unknown key: %v", err)
	}
	// Other files do not count as epochs.
	ok(t, os.WriteFile(filepath.Join(s.dir, epochsDir, "README"), nil, 0o644))
	if n := s.numbers(); len(n) != 0 {
		t.Errorf("epochs %v", n)
	}
}
