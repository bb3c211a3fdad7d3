package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestForsdKilled kills forsd by SIGKILL at random moments after a cable of a
// spine or of a host was pulled or put back, and starts it again: see crashes.
// FORS_LONG=1 has 50 kills.
func TestForsdKilled(t *testing.T) {
	t.Parallel()
	t.Run("FT(2;8,6)", func(t *testing.T) {
		crashes(t, many(12, 45), Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 8, Leaves: 6}), LMC: 3, Config: steady})
	})
	t.Run("FT(2;20,18)", func(t *testing.T) { crashes(t, many(2, 5), lhcb()) })
}

// crashes kills forsd many times. Each time the epoch that it leaves on disk is
// whole and none that was in force is lost, and when it is back, plan and tables
// fit the fabric. Every few times it is killed at rest as well: then it must come
// back to the same epoch and leave the table file alone. It cannot signal OpenSM
// then, because of its configuration.
func crashes(t *testing.T, times int, o Options) {
	t.Parallel()
	x, s := up(t, 10*time.Minute, o)
	rng := rand.New(rand.NewPCG(9, uint64(times)))
	leaves, lanes := len(s.Tree.Leaves), s.Tree.Lanes
	leaf, lane, host, broken := 0, 0, false, false
	began := time.Now()
	x.toggle(s, leaf, lane, &broken)
	epoch := x.settled(Cable(leaf, lane, "missing")).Epoch
	span := time.Since(began) // a whole change takes about this long
	for n := range times {
		if !broken {
			leaf, lane, host = rng.IntN(leaves), rng.IntN(lanes), rng.IntN(4) == 0
		}
		var want func(*api.Topology) error
		if host {
			want = Hosts(x.toggleLast(s, leaf, &broken))
		} else {
			want = Cable(leaf, lane, x.toggle(s, leaf, lane, &broken))
		}
		time.Sleep(time.Duration(rng.Int64N(int64(span)))) // the random moment
		known, err := x.Client.Table(x.ctx)
		x.ok(err)
		x.ok(x.KillForsd(x.ctx))
		stored, err := x.Stored()
		x.ok(err)
		if stored == nil || stored.Epoch() < known.Epoch() || stored.Epoch() < epoch {
			t.Fatalf("epochs %d and %d were in force, and on disk is %v", epoch, known.Epoch(), stored)
		}
		x.ok(x.StartForsd())
		st := x.settled(want)
		x.check()
		if st.Epoch < stored.Epoch() {
			t.Fatalf("epoch %d was in force, and after the restart %d is", stored.Epoch(), st.Epoch)
		}
		epoch = st.Epoch
		if n%5 == 4 {
			x.restartUnchanged(epoch)
		}
	}
	x.noRoutingErrors()
}

// toggle pulls the cable or puts it back, and returns the state that it will
// have.
func (x *test) toggle(s *Sight, leaf, lane int, broken *bool) string {
	x.Helper()
	at := s.Tree.Leaves[leaf]
	*broken = !*broken
	if *broken {
		x.ok(x.Sim.Unlink(x.ctx, at.Name, int(at.Cables[lane].LeafPort)))
		return "missing"
	}
	x.ok(x.Sim.Relink(x.ctx, at.Name, int(at.Cables[lane].LeafPort)))
	return "full"
}

// toggleLast pulls the last host of a leaf or puts it back, and returns how many
// hosts there will be.
func (x *test) toggleLast(s *Sight, leaf int, broken *bool) int {
	x.Helper()
	port := 0
	for i := range s.Tree.Hosts {
		if h := &s.Tree.Hosts[i]; h.Leaf == leaf {
			port = int(h.At.Port)
		}
	}
	*broken = !*broken
	if *broken {
		x.ok(x.Sim.Unlink(x.ctx, s.Tree.Leaves[leaf].Name, port))
		return len(s.Tree.Hosts) - 1
	}
	x.ok(x.Sim.Relink(x.ctx, s.Tree.Leaves[leaf].Name, port))
	return len(s.Tree.Hosts)
}

// restartUnchanged kills forsd at rest and starts it again without the right to signal OpenSM.
// It must still come to rest in the same epoch, and leave every file as it was.
func (x *test) restartUnchanged(epoch uint64) {
	x.Helper()
	before := x.files()
	x.ok(x.KillForsd(x.ctx), x.StartForsdBlind())
	st := x.settled(nil)
	if st.Epoch != epoch {
		x.Errorf("the restart made epoch %d of %d", st.Epoch, epoch)
	}
	after := x.files()
	for path, was := range before {
		if is := after[path]; is != was {
			x.Errorf("the restart touched %s: %+v became %+v", path, was, is)
		}
	}
	if len(after) != len(before) {
		x.Errorf("there were %d files, and there are %d", len(before), len(after))
	}
	x.ok(x.KillForsd(x.ctx), x.StartForsd())
	x.settled(nil)
}

// fileID distinguishes a file from one that was written again.
type fileID struct {
	inode uint64
	mtime syscall.Timespec
	size  int64
}

// files identifies the table file and everything in the state directory.
func (x *test) files() map[string]fileID {
	x.Helper()
	found := map[string]fileID{}
	add := func(path string) {
		info, err := os.Stat(path)
		x.ok(err)
		sys := info.Sys().(*syscall.Stat_t)
		found[path] = fileID{sys.Ino, sys.Mtim, info.Size()}
	}
	add(x.TableFile())
	add(filepath.Join(x.StateDir(), "baseline.json"))
	epochs, err := filepath.Glob(filepath.Join(x.StateDir(), "epochs", "*", "*"))
	x.ok(err)
	for _, path := range epochs {
		add(path)
	}
	return found
}

// TestOpenSMKilled kills OpenSM and starts it again, with and without a change of the fabric in
// between, and then restarts it in good order.
func TestOpenSMKilled(t *testing.T) {
	t.Parallel()
	x, s := up(t, 5*time.Minute, small())
	restart := func() {
		x.ok(x.SM.Restart(x.ctx))
		x.until("OpenSM is found", func(st *api.Status) bool {
			return !HasWarning(st, "opensm-not-running") && st.OpenSM.PID == x.SM.PID()
		})
	}
	x.managerKilled(s, restart, func(st *api.Status) bool {
		return HasWarning(st, "opensm-not-running") && !st.OpenSM.Running
	})
	restart()
	broken := true
	x.toggle(s, 2, 1, &broken)
	x.settled(Cable(2, 1, "full"))
	x.unmoved(s, x.check())
	x.noRoutingErrors()
}

// managerKilled kills OpenSM and restarts it when forsd has noticed: the plan stays. Then it
// does the same and pulls the cable of leaf 2 for lane 1 in between, which stays out.
func (x *test) managerKilled(s *Sight, restart func(), missed func(*api.Status) bool) {
	x.Helper()
	first := x.table()
	x.SM.Kill()
	x.until("OpenSM is missed", missed)
	restart()
	st := x.settled(nil)
	x.unmoved(s, x.check())
	if st.Epoch != first.Epoch() {
		x.Errorf("the plan changed from epoch %d to %d", first.Epoch(), st.Epoch)
	}

	x.SM.Kill()
	broken := false
	x.toggle(s, 2, 1, &broken)
	restart()
	st = x.settled(Cable(2, 1, "missing"))
	x.unmoved(s, x.check(), 1)
	if st.Epoch <= first.Epoch() {
		x.Errorf("the cable is missing, and epoch %d is in force", st.Epoch)
	}
}
