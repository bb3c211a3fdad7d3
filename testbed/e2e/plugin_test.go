package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/ibsim"
)

// TestPlugin works with the plugin in OpenSM: each sweep loads forsd's tables. A
// dead cable has its plan before its tables, and these in the sweep that finds it;
// a cable that returns has its plan only once the tables were confirmed and read
// back.
func TestPlugin(t *testing.T) {
	x, healthy := up(t, 5*time.Minute, byPlugin(t, small()))
	const leaf, lane = 2, 1
	at := healthy.Tree.Leaves[leaf]
	port := int(at.Cables[lane].LeafPort)
	for range 3 {
		st := x.sweptAfter("missing", leaf, lane, func() error { return x.Sim.Unlink(x.ctx, at.Name, port) })
		if e := st.LastEvent; e.PublishedSeconds <= 0 || e.PublishedSeconds >= e.ProgrammedSeconds {
			t.Errorf("the cable is missing: published after %.1f ms, and the tables were there after %.1f", 1e3*e.PublishedSeconds, 1e3*e.ProgrammedSeconds)
		}
		x.unmoved(healthy, x.check(), lane)
		st = x.sweptAfter("full", leaf, lane, func() error { return x.Sim.Relink(x.ctx, at.Name, port) })
		if e := st.LastEvent; e.ProgrammedSeconds <= 0 || e.ReadBackSeconds < e.ProgrammedSeconds || e.PublishedSeconds < e.ReadBackSeconds {
			t.Errorf("the cable is back: tables after %.1f ms, read back after %.1f, published after %.1f", 1e3*e.ProgrammedSeconds, 1e3*e.ReadBackSeconds, 1e3*e.PublishedSeconds)
		}
		x.unmoved(healthy, x.check())
	}
	log, err := x.SM.Log()
	x.ok(err)
	if n := bytes.Count(log, []byte(" file tables configured")); n > 1 {
		t.Errorf("OpenSM loaded the table file %d times; the first may be, before forsd knew the fabric", n)
	}
}

// TestForsdStopped stops forsd while a cable is pulled, and put back: OpenSM's
// sweep ends with the tables that the plugin held, mended. When forsd goes on its own tables
// are in the switches, by another sweep if the mended ones differ.
func TestForsdStopped(t *testing.T) {
	o := byPlugin(t, small())
	o.Deadline = time.Second
	x, healthy := up(t, 5*time.Minute, o)
	const leaf, lane = 2, 1
	at := healthy.Tree.Leaves[leaf]
	port := int(at.Cables[lane].LeafPort)
	for _, change := range []struct {
		state string
		do    func(context.Context, string, int) error
	}{{"missing", x.Sim.Unlink}, {"full", x.Sim.Relink}} {
		x.ok(syscall.Kill(x.Forsd.PID(), syscall.SIGSTOP))
		from := x.SM.LogSize()
		x.ok(change.do(x.ctx, at.Name, port))
		line, from, err := x.SM.WaitLog(x.ctx, " tables configured on all switches", from)
		x.ok(err)
		if !strings.Contains(line, " fors tables") {
			t.Errorf("the cable is %s, and forsd stopped: %s", change.state, line)
		}
		_, _, err = x.SM.WaitLog(x.ctx, ibsim.SubnetUp, from)
		x.ok(err, syscall.Kill(x.Forsd.PID(), syscall.SIGCONT))
		x.settled(Cable(leaf, lane, change.state))
		x.check()
	}
	log, err := os.ReadFile(filepath.Join(x.Dir(), "forsd.log"))
	x.ok(err)
	if strings.Contains(string(log), "sweep-timeout") {
		t.Errorf("forsd waited for a sweep that was over:\n%s", log)
	}
}

// sweptAfter changes a cable and checks the switches against forsd's promises as
// soon as the first sweep after it has ended. It returns forsd's status at rest.
func (x *test) sweptAfter(state string, leaf, lane int, act func() error) *api.Status {
	x.Helper()
	before, err := x.Client.Status(x.ctx)
	x.ok(err)
	from := x.SM.LogSize()
	x.ok(act())
	line, from, err := x.SM.WaitLog(x.ctx, " tables configured on all switches", from)
	x.ok(err)
	if !strings.Contains(line, " fors tables") {
		x.Errorf("the cable is %s, and the sweep has other tables than forsd's: %s", state, line)
	}
	_, _, err = x.SM.WaitLog(x.ctx, ibsim.SubnetUp, from)
	x.ok(err)
	x.check()
	st := x.settled(Cable(leaf, lane, state))
	if st.Epoch != before.Epoch+1 {
		x.Errorf("the cable is %s: epoch %d was in force, and %d is", state, before.Epoch, st.Epoch)
	}
	return st
}
