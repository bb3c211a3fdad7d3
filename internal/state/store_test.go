package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// open returns the store of a directory.
func open(t *testing.T, dir string) *Store {
	t.Helper()
	cfg := config.Default()
	cfg.StateDir, cfg.API.Socket, cfg.OpenSM.LFTsFile = filepath.Join(dir, "state"), filepath.Join(dir, "s"), filepath.Join(dir, "lfts.dump")
	tracker := health.NewTracker([]health.Warnable{{Code: StateNotDurable}, {Code: BaselineLost}, {Code: JobHostsMissing}}, func(health.Warning, bool) {})
	b := New(zap.NewNop(), tracker, published.NewEvents(8, time.Now()))
	v, err := Open(cfg, zap.NewNop(), b)
	ok(t, err)
	t.Cleanup(func() { _ = v.Close() }) // the test may have closed it
	return v
}

// known returns a plan of a tree with the given number of leaves.
func known(t *testing.T, leaves int) Known {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: leaves, LMC: 2})
	fabgen.AssignLIDs(f, 2)
	r, err := planner.Make(t.Context(), fabgen.Fitted(t, f), planner.Settings{})
	ok(t, err)
	plan, err := phasetable.New(r.Table(0))
	ok(t, err)
	return Known{Plan: plan, About: r.Report()}
}

// warned reports whether the store warns that some state is not stored.
func warned(v *Store) bool {
	return slices.ContainsFunc(v.health.List(time.Now()), func(w health.Warning) bool { return w.Code == StateNotDurable })
}

// TestBase checks the numbers of plans for base LIDs: the same plan keeps its number. Another
// plan gets the next number, as does the same plan if a later plan may have been lost.
func TestBase(t *testing.T) {
	v := open(t, t.TempDir())
	small, large := known(t, 3), known(t, 4)
	put := func(k Known, want uint64) *phasetable.View {
		t.Helper()
		ok(t, v.Publish(1, Plan{Proposal: k, Base: true}))
		plan := v.state.Now().Base.Plan
		if plan.Epoch() != want || v.state.Bases.Current().Epoch != want {
			t.Errorf("number %d, want %d", plan.Epoch(), want)
		}
		return plan
	}
	first := put(small, 1)
	if again := put(small, 1); again != first {
		t.Error("the same plan is another one")
	}
	put(large, 2)
	v.state.NoBase(nil)
	put(large, 2)
	v.Disk.Numbers.PassOver(9)
	third := put(large, 10)
	stored, err := v.Disk.Base()
	ok(t, err)
	if stored.Epoch() != 10 || string(stored.Bytes()) != string(third.Bytes()) || v.Disk.Numbers.Last() != 10 {
		t.Errorf("plan %d is stored, and the last number is %d", stored.Epoch(), v.Disk.Numbers.Last())
	}
}

// TestFromMemory removes the state directory, with and without note files. It checks that plans
// are in force in memory, with a warning, that no later process uses their numbers, and that
// everything is stored when the directory is back.
func TestFromMemory(t *testing.T) {
	for _, alone := range []bool{false, true} {
		dir := t.TempDir()
		if alone {
			ok(t, os.MkdirAll(filepath.Join(dir, "s.numbers", "x"), 0o755), os.MkdirAll(filepath.Join(dir, "lfts.dump.numbers", "x"), 0o755))
		}
		v := open(t, dir)
		epoch := func() *store.Epoch {
			ok(t, v.Publish(v.Disk.Numbers.Next(), Plan{Proposal: known(t, 3)}))
			e := v.state.Now().Epoch
			if e.Plan.Epoch() != e.Epoch || v.state.Plans.Current().Epoch != e.Epoch {
				t.Fatalf("epoch %d has the plan of %d", e.Epoch, e.Plan.Epoch())
			}
			return e
		}
		epoch()
		if v.LookAtDisk(); warned(v) {
			t.Fatal("a warning, and all is stored")
		}
		ok(t, os.RemoveAll(filepath.Join(dir, "state")), os.WriteFile(filepath.Join(dir, "state"), nil, 0o600))
		if v.LookAtDisk(); !warned(v) {
			t.Error("the state directory is gone, without a warning")
		}
		second := epoch()
		ok(t, v.Publish(second.Epoch, Plan{Proposal: known(t, 3), Base: true}))
		if v.Restore(time.Now()); !warned(v) || v.RestoreDue().IsZero() {
			t.Error("stored in a file")
		}
		if s := v.inForce(); s.Epoch != second || s.Base != second.Plan {
			t.Errorf("%+v is in force", s)
		}
		ok(t, os.Remove(filepath.Join(dir, "state")))
		if v.Restore(time.Now()); !warned(v) {
			t.Error("tried again before it is due")
		}
		if v.RestoreNow(); warned(v) {
			t.Errorf("not stored: %v", v.Disk.PendingErr())
		}
		ok(t, v.Close())
		v = open(t, dir)
		e, err := v.Disk.Epochs.Current()
		ok(t, err)
		onBase, err := v.Disk.Base()
		ok(t, err)
		if e.Epoch != second.Epoch || onBase.Epoch() != second.Epoch || v.Disk.Numbers.Next() <= second.Epoch || v.Disk.Numbers.Passed() >= second.Epoch {
			t.Errorf("alone %v: epoch %d and base plan %d are stored, want %d; next is %d, passed over up to %d", alone, e.Epoch, onBase.Epoch(), second.Epoch, v.Disk.Numbers.Next(), v.Disk.Numbers.Passed())
		}
	}
}

// TestDecisions checks that decisions survive a restart, and that those of another forsd
// replace them.
func TestDecisions(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	ok(t, v.Decide("drains", []string{"Leaf001"}), v.Decide("cables", 7), v.Decide("cables", nil))
	ok(t, v.Close())
	v = open(t, dir)
	damaged, err := v.Resume()
	ok(t, damaged, err)
	var drains []string
	cables := 3
	ok(t, v.Decision("drains", &drains), v.Decision("cables", &cables))
	if !slices.Equal(drains, []string{"Leaf001"}) || cables != 3 || v.Decisions().Serial() != 3 {
		t.Errorf("%v, %d and %d decisions", drains, cables, v.Decisions().Serial())
	}
	if err := v.Decision("drains", &cables); err == nil {
		t.Error("a list is a number")
	}
	v.TakeDecisions(store.Decisions{"drains": json.RawMessage(`["Leaf002"]`)})
	ok(t, v.Decision("drains", &drains))
	kept, err := v.Disk.Decisions()
	ok(t, err)
	if drains[0] != "Leaf002" || string(kept["drains"]) != `["Leaf002"]` {
		t.Errorf("%v, and stored are %s", drains, kept["drains"])
	}
}

// TestTaken checks that a state directory, or a table file, in use by another process is
// refused.
func TestTaken(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	cfg := config.Default()
	cfg.StateDir, cfg.API.Socket, cfg.OpenSM.LFTsFile = filepath.Join(dir, "other"), filepath.Join(dir, "s"), filepath.Join(dir, "lfts.dump")
	if _, err := Open(cfg, zap.NewNop(), v.state); err == nil {
		t.Error("two have one table file")
	}
	cfg.StateDir, cfg.OpenSM.LFTsFile = filepath.Join(dir, "state"), filepath.Join(dir, "other.dump")
	if _, err := Open(cfg, zap.NewNop(), v.state); err == nil {
		t.Error("two have one state directory")
	}
}
