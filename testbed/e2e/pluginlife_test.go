package e2e

import (
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/linkstate/probe"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestForsdKilledBesidePlugin is TestForsdKilled with tables in OpenSM's sweeps:
// forsd also dies while a sweep waits for it.
func TestForsdKilledBesidePlugin(t *testing.T) {
	o := byPlugin(t, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 8, Leaves: 6}), LMC: 3, Config: steady})
	crashes(t, 15, o)
}

// TestOpenSMKilledWithPlugin kills OpenSM and starts it again, with and without a change of the
// fabric in between. forsd notices by the connection, not by its look at the processes every two
// seconds.
func TestOpenSMKilledWithPlugin(t *testing.T) {
	t.Parallel()
	x, s := up(t, 5*time.Minute, byPlugin(t, small()))
	x.managerKilled(s, x.restarted, func(st *api.Status) bool {
		return st.OpenSM.Plugin == nil && st.OpenSM.Source != api.SourcePlugin
	})
	broken := true
	x.toggle(s, 2, 1, &broken)
	x.settled(Cable(2, 1, "full"))
	x.unmoved(s, x.check())
	x.noRoutingErrors()
}

// restarted starts OpenSM again and waits until forsd has its plugin, and its process.
func (x *test) restarted() {
	x.Helper()
	x.ok(x.SM.Restart(x.ctx))
	began := time.Now()
	x.until("the plugin is back", func(st *api.Status) bool { return st.OpenSM.Plugin != nil })
	x.Logf("OpenSM was picked up %v after its start", time.Since(began).Round(time.Millisecond))
	x.until("OpenSM is found", func(st *api.Status) bool { return st.OpenSM.PID == x.SM.PID() })
}

// TestOpenSMAway leaves forsd without OpenSM until it resorts to a subscription for
// traps, and starts OpenSM again, several times: forsd stays up, and follows.
func TestOpenSMAway(t *testing.T) {
	t.Parallel()
	x, s := up(t, 5*time.Minute, byPlugin(t, small()))
	broken := false
	for range 2 {
		x.SM.Kill()
		x.until("forsd looks for traps elsewhere", func(st *api.Status) bool {
			return st.OpenSM.Source != api.SourcePlugin && HasWarning(st, probe.TrapsMissing)
		})
		x.restarted()
		state := x.toggle(s, 2, 1, &broken)
		x.settled(Cable(2, 1, state))
		x.until("the plugin brings traps", func(st *api.Status) bool { return !HasWarning(st, probe.TrapsMissing) })
	}
	x.noRoutingErrors()
}
