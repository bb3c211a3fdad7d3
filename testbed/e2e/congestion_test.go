package e2e

import (
	"regexp"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	health "github.com/forsd/forsd/internal/cables"
)

// TestPlanCongested makes all cables count the data of an exchange by the plan, and one of them
// other traffic as well, for which data waits: the warning names that cable and the direction,
// and the amount; and it ends with that traffic.
func TestPlanCongested(t *testing.T) {
	o := small()
	o.Config = steady + "cables: {every: 2s}\n"
	x, healthy := up(t, 4*time.Minute, o)
	x.read()
	all, err := x.Client.Cables(x.ctx)
	x.ok(err)
	busy := healthy.Tree.Leaves[2].Name
	data, more, wait := uint64(0), uint64(0), uint64(0)
	send := func(met bool) {
		x.Helper()
		data += 1 << 20
		if met {
			more, wait = more+2<<20, wait+1<<20
		}
		for _, c := range all.Cables {
			for _, e := range []api.CableEnd{c.Leaf, c.Spine} {
				n := data
				if e.Name == busy && c.Lane == 1 {
					n += more
					x.count(e.Name, e.Port, "PortCounters.PortXmitWait", wait)
				}
				x.count(e.Name, e.Port, "PortCountersExtended.PortXmitData", n)
			}
		}
	}
	until := func(what string, met bool, good func(*api.Status) bool) {
		x.Helper()
		for began := time.Now(); ; send(met) {
			st, err := x.Client.Status(x.ctx)
			x.ok(err)
			if good(st) {
				return
			}
			if time.Since(began) > patience {
				x.Fatalf("%s: %v", what, st.Warnings)
			}
		}
	}
	told := regexp.MustCompile(`Leaf002 port 6 to Spine001 port 3: data waited for .* times its part of the exchange, so other traffic of some`)
	until("other traffic is told of", true, func(st *api.Status) bool { // a round may find counters that are not all set
		for _, w := range st.Warnings {
			if w.Code == health.PlanCongested && told.MatchString(w.Text) {
				return true
			}
		}
		return false
	})
	until("the warning ends", false, func(st *api.Status) bool { return !HasWarning(st, health.PlanCongested) })
}
