package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
)

// TestDisk fills the disk of the state directory, and then makes it read-only, while cables are
// pulled: plans and tables follow as usual, by files and by the plugin, and everything is
// stored when the disk accepts it. The disk of the table file may be full too, and by the
// plugin read-only.
func TestDisk(t *testing.T) {
	t.Parallel()
	site := small
	if long {
		site = lhcb
	}
	t.Run("files", func(t *testing.T) { disks(t, site()) })
	t.Run("plugin", func(t *testing.T) { disks(t, byPlugin(t, site())) })
}

func disks(t *testing.T, o Options) {
	t.Parallel()
	x := newSite(t, 8*time.Minute, o)
	state, tables := x.StateDir(), filepath.Dir(x.TableFile())
	for _, dir := range []string{state, tables} {
		x.ok(os.MkdirAll(dir, 0o755))
		if err := syscall.Mount("fors", dir, "tmpfs", 0, "size=32m"); err != nil {
			t.Fatalf("this test mounts a file system: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	}
	x.ok(x.Start(x.ctx))
	x.settled(nil)
	healthy := x.check()
	const leaf = 2
	at := healthy.Tree.Leaves[leaf]
	pull := func(lane int) { x.ok(x.Sim.Unlink(x.ctx, at.Name, int(at.Cables[lane].LeafPort))) }

	pull(0)
	st := x.settled(Cable(leaf, 0, "missing"))
	t.Logf("a good disk: published after %.1f ms, tables after %.1f", 1e3*st.LastEvent.PublishedSeconds, 1e3*st.LastEvent.ProgrammedSeconds)
	x.check()

	x.fill(state)
	pull(1)
	st = x.settled(Cable(leaf, 1, "missing"))
	t.Logf("a full disk: published after %.1f ms, tables after %.1f", 1e3*st.LastEvent.PublishedSeconds, 1e3*st.LastEvent.ProgrammedSeconds)
	x.fromMemory(st)
	x.ok(os.Remove(filepath.Join(state, "filler")))
	st = x.until("all is stored", func(st *api.Status) bool { return !HasWarning(st, "state-not-durable") })
	x.check()
	x.comesBack(st.Epoch)

	x.readOnly(state)
	x.ok(x.Sim.Relink(x.ctx, at.Name, int(at.Cables[1].LeafPort)))
	st = x.settled(Cable(leaf, 1, "full"))
	x.fromMemory(st)
	x.ok(x.KillForsd(x.ctx), x.StartForsd()) // a plan published from memory keeps its number
	last := st.Epoch
	st = x.settled(Cable(leaf, 1, "full"))
	x.ok(x.judge(x.ctx))
	if st.Epoch <= last {
		t.Errorf("after epoch %d, which was not stored, epoch %d is in force", last, st.Epoch)
	}
	x.ok(syscall.Unmount(state, syscall.MNT_DETACH))
	st = x.until("all is stored", func(st *api.Status) bool { return !HasWarning(st, "state-not-durable") })
	x.check()
	x.comesBack(st.Epoch)

	x.fill(state)
	x.fill(tables)
	for lane := 1; lane < 3; lane++ { // room is kept for the next table file
		pull(lane)
		st = x.settled(Cable(leaf, lane, "missing"))
		t.Logf("full disks: published after %.1f ms, tables after %.1f", 1e3*st.LastEvent.PublishedSeconds, 1e3*st.LastEvent.ProgrammedSeconds)
		x.fromMemory(st)
	}
	x.ok(os.Remove(filepath.Join(tables, "filler")), os.Remove(filepath.Join(state, "filler")))
	stored := func(st *api.Status) bool {
		return !HasWarning(st, "state-not-durable") && !HasWarning(st, "tables-failed")
	}
	st = x.until("all is stored", stored)
	x.check()

	if o.Plugin == "" {
		return
	}
	x.readOnly(tables)
	last = st.Epoch
	other := healthy.Tree.Leaves[0]
	x.ok(x.Sim.Unlink(x.ctx, other.Name, int(other.Cables[1].LeafPort)))
	st = x.until("the plugin has the tables", func(st *api.Status) bool {
		return HasWarning(st, "tables-failed") && st.OpenSM.TablesMatch && st.Epoch > last
	})
	t.Logf("no table file: published after %.1f ms, tables after %.1f", 1e3*st.LastEvent.PublishedSeconds, 1e3*st.LastEvent.ProgrammedSeconds)
	x.inSwitches()
	x.ok(syscall.Unmount(tables, syscall.MNT_DETACH))
	x.settled(Cable(0, 1, "missing"))
	x.until("all is stored", stored)
	x.check()
}

// readOnly makes a directory read-only until it is unmounted: the same file system is mounted
// over it for reading. (A file system with a file open for writing, as the history's is, cannot
// be remounted for reading.)
func (x *test) readOnly(dir string) {
	x.Helper()
	x.ok(syscall.Mount(dir, dir, "", syscall.MS_BIND, ""), syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	x.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// fill fills a file system up.
func (x *test) fill(dir string) {
	x.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	x.ok(err)
	for _, n := range []int{1 << 20, 1 << 12, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			x.Fatal(err)
		}
	}
	x.ok(f.Close())
}

// fromMemory checks a site whose plan could not be stored: all readers get it, it holds on the
// tables of the switches, and only the disk has a fault.
func (x *test) fromMemory(st *api.Status) {
	x.Helper()
	if !HasWarning(st, "state-not-durable") || !st.OpenSM.TablesMatch {
		x.Errorf("tables match: %v, warnings %v", st.OpenSM.TablesMatch, st.Warnings)
	}
	for _, code := range []string{"publish-failed", "tables-failed", "plan-failed"} {
		if HasWarning(st, code) {
			x.Errorf("%s: %v", code, st.Warnings)
		}
	}
	stored, err := x.Stored()
	x.ok(err)
	if stored.Epoch() == st.Epoch {
		x.Error("the epoch in force is stored, and the disk takes nothing")
	}
	x.inSwitches()
}

// inSwitches checks the plan in force and the tables of the switches against the fabric.
func (x *test) inSwitches() {
	x.Helper()
	x.ok(x.judge(x.ctx))
	s, err := x.Look(x.ctx)
	x.ok(err)
	x.ok(s.Reachable())
}

// comesBack kills forsd, which comes back to the epoch.
func (x *test) comesBack(epoch uint64) {
	x.Helper()
	x.ok(x.KillForsd(x.ctx), x.StartForsd())
	if st := x.settled(nil); st.Epoch != epoch {
		x.Errorf("epoch %d was in force, and after a restart %d is", epoch, st.Epoch)
	}
}
