package libforsmpi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
)

// plugin builds libforsosm.so, once for all tests.
var plugin = sync.OnceValues(func() (string, error) { return e2e.BuildPlugin(context.Background(), scratch) })

// upPair brings up two managers with a forsd each on a full fat tree of n leaves and n
// spines; the first one leads, and ranks ask the second.
func upPair(t *testing.T, n int) (x, y *site) {
	t.Helper()
	programs.Needs(t, "opensm")
	library, err := plugin()
	if err != nil {
		t.Fatal(err)
	}
	x = bare(t, e2e.Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: n, Leaves: n, LMC: 3}), Plugin: library, LMC: 3, Pair: true, Conf: map[string]string{"sm_priority": "10"}})
	second, err := x.Second(map[string]string{"sm_priority": "5"})
	x.ok(err)
	t.Cleanup(func() { _ = second.Close() })
	x.table = "unix:" + second.Socket()
	y = &site{t, second, x.ctx, x.table}
	x.ok(y.StartForsd(), x.Start(x.ctx))
	st, _ := x.rest(nil)
	x.ok(y.StartOpenSM(x.ctx))
	_, _, err = y.SM.WaitLog(x.ctx, "Entering STANDBY state", 0)
	x.ok(err)
	y.until("it follows", func(now *api.Status) bool { return now.OpenSM.Standby && now.Ready && now.Epoch == st.Epoch })
	return x, y
}

// TestDrainHandover drains parts of a fabric on which ranks exchange. During the drain the
// leading forsd is killed, and then its whole host is lost. The other forsd leads, is killed,
// too, and keeps to the drains; the drained parts are pulled and put back. No fragment is lost,
// doubled or damaged, and no rank sends over parts that are safe to pull. With FORS_LONG=1 these
// are 36 ranks, the first host comes back and leads again, and a leaf goes the same way.
func TestDrainHandover(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "../../examples/eventbuilder.c")
	n := side()
	x, y := upPair(t, n)
	hosts := make([]string, n*n)
	for r := range hosts {
		hosts[r] = fmt.Sprintf("Hca%04d", r)
	}
	cable := fmt.Sprintf("Leaf001/%d", n+2)
	x.handsOver(y, shim, program, hosts, "Spine002", cable)
	if n < 6 {
		return
	}
	_, err := y.Client.Undrain(x.ctx, "all")
	x.ok(err, x.StartForsd())
	y.until("all is in the plan", func(now *api.Status) bool { return now.State == "idle" && now.Phases == n*n-1 })
	x.ok(x.SM.Restart(x.ctx))
	x.until("the first one leads again", func(now *api.Status) bool { return !now.OpenSM.Standby && now.Phases == n*n-1 && now.State == "idle" })
	y.until("the other one follows", func(now *api.Status) bool { return now.OpenSM.Standby && now.Ready })
	x.handsOver(y, shim, program, append(hosts[:3*n:3*n], hosts[4*n:]...), "Leaf003") // the managers are on other leaves
}

// handsOver drains parts, one after the other, while ranks exchange, and hands over.
func (x *site) handsOver(y *site, shim, program string, hosts []string, parts ...string) {
	x.Helper()
	log := x.TempDir()
	builders, err := job{ranks: len(hosts), command: []string{program, "-b", "2048"}}.with(shim, x.table, "FORS_LOG="+log,
		"FORS_SERVER_MAP="+write(x, "servers", []byte(strings.Join(hosts, "\n")))).start(x.ctx)
	x.ok(err)
	y.grows(log, y.until("it answers", func(*api.Status) bool { return true }).Epoch)
	for i, part := range parts {
		_, err = x.Client.Drain(x.ctx, api.DrainRequest{Parts: []string{part}, Reason: "a test"})
		x.ok(err)
		if i == 0 { // perhaps during the change
			x.ok(x.KillForsd(x.ctx), x.StartForsd())
			x.drainIs("safe after that", func(d *api.Drain) bool { return d.State == "safe" })
		}
	}
	y.until("the other one knows", func(now *api.Status) bool { return len(now.Drains) == len(parts) })
	x.ok(x.KillForsd(x.ctx))
	x.SM.Kill()
	y.until("the other one leads", func(now *api.Status) bool { return !now.OpenSM.Standby })
	seen := y.pulled(log, parts)
	x.ok(builders.interrupt())
	y.unharmed(builders, log, len(hosts), seen)
}
