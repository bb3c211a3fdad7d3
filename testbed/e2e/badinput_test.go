package e2e

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/opensm"
)

// TestDumpSpoiled overwrites OpenSM's dump with content that no sweep writes: the
// epoch and the tables in force stay, and a warning gives the reason. The next sweep
// repairs the dump.
func TestDumpSpoiled(t *testing.T) {
	t.Parallel()
	x, before := up(t, 5*time.Minute, small())
	whole, err := os.ReadFile(x.SubnetFile())
	x.ok(err)
	half := whole[:len(whole)*2/3]
	half = half[:bytes.LastIndexByte(half, '\n')-10]
	files := x.files()
	epoch := x.settled(nil).Epoch
	for _, c := range []struct {
		name string
		text []byte
		code string
	}{
		{"binary garbage", bytes.Repeat([]byte{0, 0xFF, 0x7F, 0x80, '\n'}, 999), opensm.DumpRefused},
		{"text of another kind", []byte("Unicast lids [0x0-0x10] of switch Lid 4:\n"), opensm.DumpRefused},
		{"two dumps, one into the other", append(append(half[:len(half):len(half)], whole...), whole[len(half):]...), opensm.DumpRefused},
		{"cut off", half, opensm.DumpIncomplete},
		{"empty", nil, opensm.DumpIncomplete},
	} {
		x.ok(os.WriteFile(x.SubnetFile(), c.text, 0o644))
		st := x.until("forsd is at rest, and warns of "+c.name, func(st *api.Status) bool {
			return HasWarning(st, c.code) && st.State == "idle" && st.OpenSM.TablesMatch
		})
		if st.Epoch != epoch {
			t.Errorf("%s: epoch %d became %d", c.name, epoch, st.Epoch)
		}
		x.ok(x.SM.Sweep(x.ctx))
		st = x.until("the warning is over", func(st *api.Status) bool { return !HasWarning(st, c.code) && st.State == "idle" })
		if st.Epoch != epoch {
			t.Errorf("after %s: epoch %d became %d", c.name, epoch, st.Epoch)
		}
	}
	x.unmoved(before, x.check())
	for path, is := range x.files() {
		if is != files[path] {
			t.Errorf("%s was written", path)
		}
	}
}

// TestManagerCutOff pulls the cable of OpenSM's own host. The small fabric that OpenSM still
// sees must not change anything.
func TestManagerCutOff(t *testing.T) {
	t.Parallel()
	x, before := up(t, 5*time.Minute, small())
	files, epoch := x.files(), x.table().Epoch()
	from := x.SM.LogSize()
	x.ok(x.Sim.Unlink(x.ctx, "Leaf000", 1))
	x.ok(x.SM.Signal(syscall.SIGHUP))
	ctx, cancel := x.within()
	defer cancel()
	_, _, err := x.SM.WaitLog(ctx, "SM port is down", from)
	x.ok(err)
	if now := x.table().Epoch(); now != epoch {
		t.Errorf("OpenSM sees nothing, and epoch %d became %d", epoch, now)
	}
	x.ok(x.Sim.Relink(x.ctx, "Leaf000", 1))
	x.ok(x.SM.Sweep(ctx))
	if st := x.settled(Hosts(16)); st.Epoch != epoch {
		t.Errorf("OpenSM sees the fabric again, and epoch %d became %d", epoch, st.Epoch)
	}
	x.unmoved(before, x.check())
	for path, is := range x.files() {
		if is != files[path] {
			t.Errorf("%s was written", path)
		}
	}
}

// TestMassDisappearance pulls the cables of all hosts but two at once: forsd accepts
// that only when it lasts.
func TestMassDisappearance(t *testing.T) {
	t.Parallel()
	o := small()
	o.Config = steady + "safety: {max_loss: 0.5, confirm: 3s}\n"
	x, before := up(t, 5*time.Minute, o)
	epoch := x.settled(nil).Epoch
	for l := range 4 {
		for p := 1; p <= 4; p++ {
			if l > 0 || p > 2 {
				x.ok(x.Sim.Unlink(x.ctx, fmt.Sprintf("Leaf%03d", l), p))
			}
		}
	}
	st := x.warned(controller.FabricIncomplete)
	if st.Epoch != epoch && st.Servers < 8 {
		t.Errorf("epoch %d with %d servers is in force before the loss is confirmed", st.Epoch, st.Servers)
	}
	st = x.until("the loss is believed", func(st *api.Status) bool { return st.Servers == 2 && st.State == "idle" })
	if HasWarning(st, controller.FabricIncomplete) {
		t.Errorf("warnings %v", st.Warnings)
	}
	x.unmoved(before, x.check())
}
