package store

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tree returns a small fat tree with LIDs for each of its lanes.
func tree(t *testing.T) *topology.FatTree { return treeOf(t, 4, 3) }

func treeOf(t *testing.T, spines, leaves int) *topology.FatTree {
	t.Helper()
	return fabgen.Damaged(t, fabgen.Spec{Spines: spines, Leaves: leaves, LMC: 2})
}

// planned returns an epoch with a verified plan.
func planned(t *testing.T, v *topology.FatTree, n uint64) *Epoch {
	t.Helper()
	r, err := planner.Make(context.Background(), v, planner.Settings{})
	ok(t, err)
	e, err := NewEpoch(r.Table(n))
	ok(t, err)
	e.PublishedAt, e.Fabric, e.What, e.Report = time.Unix(int64(n), 0).UTC(), v.Fabric.Hash(), []string{"a test"}, r.Report()
	return e
}

// reopened closes the store and opens it again, as a new process does.
func reopened(t *testing.T, s *Store) *Store {
	t.Helper()
	ok(t, s.Close())
	fresh, err := Open(s.dir)
	ok(t, err)
	t.Cleanup(func() { _ = fresh.Close() }) // no effect if the test has closed it
	return fresh
}

// inMemory returns a directory in memory if the machine has one, so that tests do not
// wait for a disk.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "store-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(inMemory(t), "state"))
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() }) // no effect if the test has closed it
	return s
}

func TestStoreKeepsEpochs(t *testing.T) {
	s, v := newStore(t), tree(t)
	if e, damaged := s.Epochs.Current(); e != nil || damaged != nil {
		t.Fatalf("an empty store has epoch %v, %v", e, damaged)
	}
	var last *Epoch
	for n := range uint64(7) {
		last = planned(t, v, n+1)
		ok(t, s.save(last, 3))
	}
	if got, want := s.Epochs.kept(), []uint64{5, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("epochs %v are kept, not %v", got, want)
	}
	s = reopened(t, s)
	e, damaged := s.Epochs.Current()
	ok(t, damaged)
	if diff := cmp.Diff(last.EpochInfo, e.EpochInfo); diff != "" || string(e.Plan.Bytes()) != string(last.Plan.Bytes()) {
		t.Errorf("epoch 7 came back different (-want +got):\n%s", diff)
	}
	listed := s.Epochs.List()
	if len(listed) != 3 || listed[0].Epoch != 5 || !cmp.Equal(listed[2], last.EpochInfo) {
		t.Errorf("the epochs that are kept are listed as %+v", listed)
	}
	if s.Numbers.Last() != 7 {
		t.Errorf("the last number is %d", s.Numbers.Last())
	}
	for _, n := range []uint64{0, 4, 8} {
		if _, err := s.Epochs.Load(n); err == nil || !strings.Contains(err.Error(), "not kept") {
			t.Errorf("epoch %d: %v", n, err)
		}
	}
}

// TestStoreAfterCrash opens a store with the leftovers of a crash during save: an unnamed
// directory with none, some or all of its files.
func TestStoreAfterCrash(t *testing.T) {
	s, v := newStore(t), tree(t)
	ok(t, s.save(planned(t, v, 1), 20))
	lost := planned(t, v, 2)
	temp := filepath.Join(string(s.Epochs), tempPrefix+"2")
	for _, leave := range []func(){
		func() {},
		func() { ok(t, os.WriteFile(filepath.Join(temp, planFile), nil, 0o644)) },
		func() { ok(t, os.WriteFile(filepath.Join(temp, planFile), lost.Plan.Bytes()[:99], 0o644)) },
		func() {
			ok(t, os.WriteFile(filepath.Join(temp, planFile), lost.Plan.Bytes(), 0o644),
				os.WriteFile(filepath.Join(temp, epochInfo), []byte("{"), 0o644))
		},
	} {
		ok(t, os.Mkdir(temp, 0o755))
		leave()
		s = reopened(t, s)
		e, damaged := s.Epochs.Current()
		if damaged != nil || e == nil || e.Epoch != 1 || s.Numbers.Last() != 1 {
			t.Errorf("epoch %v, last number %d, %v", e, s.Numbers.Last(), damaged)
		}
		if _, err := os.Stat(temp); err == nil {
			t.Error("the leftovers are still there")
		}
	}
	ok(t, s.save(lost, 20))
}

// TestStoreStages stages plans ahead. They are invisible until they are saved, and a
// dropped plan leaves no trace in a saved one.
func TestStoreStages(t *testing.T) {
	s, v := newStore(t), tree(t)
	ok(t, s.save(planned(t, v, 1), 20))
	dropped, wanted := planned(t, treeOf(t, 2, 2), 2), planned(t, v, 2)
	ok(t, s.Stage(dropped))
	if got := s.Epochs.kept(); !slices.Equal(got, []uint64{1}) {
		t.Errorf("epochs %v are in sight before epoch 2 was saved", got)
	}
	ok(t, s.Stage(wanted), s.save(wanted, 20)) // saved as staged
	third := planned(t, v, 3)
	ok(t, s.Stage(dropped), s.save(third, 20)) // saved in place of the staged one
	for _, want := range []*Epoch{wanted, third} {
		got, err := s.Epochs.Load(want.Epoch)
		ok(t, err)
		if diff := cmp.Diff(want.EpochInfo, got.EpochInfo); diff != "" || string(got.Plan.Bytes()) != string(want.Plan.Bytes()) {
			t.Errorf("epoch %d came back different (-want +got):\n%s", want.Epoch, diff)
		}
	}
	if _, err := os.Stat(s.Epochs.temp(2)); err == nil {
		t.Error("what was staged and never saved is kept beside what was")
	}
	ok(t, s.Stage(planned(t, v, 4)))
	if _, err := os.Stat(s.Epochs.temp(4)); err != nil {
		t.Fatal(err)
	}
	s = reopened(t, s)
	if _, err := os.Stat(s.Epochs.temp(4)); err == nil {
		t.Error("what was staged and never saved outlives a start")
	}
}

// TestStoreReplaces adopts an epoch of another forsd below stored ones. The stored ones
// are removed, and their numbers are not given again.
func TestStoreReplaces(t *testing.T) {
	s, v := newStore(t), tree(t)
	for n := range uint64(4) {
		ok(t, s.save(planned(t, v, n+1), 20))
	}
	other := planned(t, treeOf(t, 2, 2), 3)
	ok(t, s.ReplaceEpoch(other, 20))
	if e, damaged := s.Epochs.Current(); damaged != nil || e.Epoch != 3 || string(e.Plan.Bytes()) != string(other.Plan.Bytes()) {
		t.Errorf("epoch %v is in force, damage %v", e, damaged)
	}
	if got := s.Epochs.kept(); !slices.Equal(got, []uint64{1, 2, 3}) || s.Numbers.Next() != 5 {
		t.Errorf("epochs %v are kept, the next number is %d", got, s.Numbers.Next())
	}
	s.Numbers.AdvanceTo(9)
	s.Numbers.AdvanceTo(7)
	if s.Numbers.Last() != 9 || s.Numbers.Next() != 10 {
		t.Errorf("where numbers up to 9 were given the last is %d, the next %d", s.Numbers.Last(), s.Numbers.Next())
	}
}

// TestStoreSkipsDamage damages the highest epoch in many ways. The epoch before it is
// then in force, and the number is not given again.
func TestStoreSkipsDamage(t *testing.T) {
	v := tree(t)
	for name, damage := range map[string]func(dir string, e *Epoch) error{
		"a flipped bit": func(dir string, e *Epoch) error {
			bad := slices.Clone(e.Plan.Bytes())
			bad[len(bad)/2] ^= 4
			return os.WriteFile(filepath.Join(dir, planFile), bad, 0o644)
		},
		"cut off":      func(dir string, _ *Epoch) error { return os.Truncate(filepath.Join(dir, planFile), 700) },
		"no table":     func(dir string, _ *Epoch) error { return os.Remove(filepath.Join(dir, planFile)) },
		"no meta file": func(dir string, _ *Epoch) error { return os.Remove(filepath.Join(dir, epochInfo)) },
		"garbage": func(dir string, _ *Epoch) error {
			return os.WriteFile(filepath.Join(dir, epochInfo), []byte("\x00{]"), 0o644)
		},
		"other epoch": func(dir string, _ *Epoch) error {
			return os.WriteFile(filepath.Join(dir, planFile), planned(t, v, 1).Plan.Bytes(), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			ok(t, s.save(planned(t, v, 1), 20), s.save(planned(t, v, 2), 20))
			ok(t, damage(s.Epochs.path(2), planned(t, v, 2)))
			s = reopened(t, s)
			e, damaged := s.Epochs.Current()
			if e == nil || e.Epoch != 1 || damaged == nil || s.Numbers.Last() != 2 {
				t.Errorf("epoch %v is in force, last number %d, damage: %v", e, s.Numbers.Last(), damaged)
			}
			if _, err := s.Epochs.Load(2); err == nil {
				t.Error("the damaged epoch can be loaded")
			}
			ok(t, s.save(planned(t, v, 3), 20))
			if e, _ := s.Epochs.Current(); e.Epoch != 3 {
				t.Errorf("epoch %d is in force", e.Epoch)
			}
		})
	}
}

func TestStoreIsOnesOwn(t *testing.T) {
	s := newStore(t)
	if _, err := Open(s.dir); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Errorf("a second store of the directory: %v", err)
	}
	reopened(t, s)
}

func TestStoreBaseline(t *testing.T) {
	s, v := newStore(t), tree(t)
	if b, err := s.Baseline(); b != nil || err != nil {
		t.Errorf("an empty store has baseline %v, %v", b, err)
	}
	ok(t, s.SaveBaseline(v.Baseline))
	b, err := s.Baseline()
	ok(t, err)
	if diff := cmp.Diff(v.Baseline, b); diff != "" {
		t.Errorf("the baseline came back different (-want +got):\n%s", diff)
	}
	path := filepath.Join(s.dir, baselineFile)
	ok(t, os.WriteFile(path, []byte(`{"version": 1, "leafs": []}`), 0o644))
	if _, err := s.Baseline(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a baseline with an unknown key: %v", err)
	}
	// Other files do not count as epochs.
	ok(t, os.WriteFile(filepath.Join(string(s.Epochs), "README"), nil, 0o644))
	if n := s.Epochs.kept(); len(n) != 0 {
		t.Errorf("epochs %v", n)
	}
}
