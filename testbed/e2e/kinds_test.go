package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
)

// TestKindsOfFabrics rewires a tree under OpenSM into a ring of its leaves, and back.
// In each it requests everything that changes a plan, restarts OpenSM, and kills
// forsd: every plan holds on the tables and the fabric of its time.
func TestKindsOfFabrics(t *testing.T) {
	t.Parallel()
	const spines, leaves = 3, 4
	o := byPlugin(t, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: leaves}), LMC: 2, Engine: "fors,dfsssp",
		Config: steady + "planning: {other_fabrics: liquid}\nsafety: {confirm: 1s}\n"})
	x := newSite(t, 8*time.Minute, o)
	x.ok(x.Start(x.ctx))
	leaf := func(l int) string { return fmt.Sprintf("Leaf%03d", l%leaves) }
	// rewire pulls the cables out of the leaves' ports to switches, and plugs others in
	// when OpenSM knows that they are gone: a switch whose cables are moved while OpenSM
	// 3.3.23 discovers it may crash it.
	rewire := func(plug func(l int) error) {
		var ports []ibsim.Port
		for l := range leaves {
			for k := range spines {
				ports = append(ports, ibsim.Port{Node: leaf(l), Port: spines + 1 + k})
			}
		}
		_ = x.Sim.UnlinkAll(x.ctx, ports) // some have none
		x.ok(x.SM.Sweep(x.ctx))
		for l := range leaves {
			x.ok(plug(l))
		}
	}
	for round, kind := range []string{"fat-tree", "own-routes", "fat-tree", "own-routes"} {
		switch {
		case kind == "own-routes":
			rewire(func(l int) error { return x.Sim.Link(x.ctx, leaf(l), spines+1, leaf(l+1), spines+2) })
		case round > 0:
			rewire(func(l int) error {
				for k := range spines {
					if err := x.Sim.Link(x.ctx, leaf(l), spines+1+k, fmt.Sprintf("Spine%03d", k), l+1); err != nil {
						return err
					}
				}
				return nil
			})
		}
		x.requests(kind, leaves*spines, fmt.Sprintf("job%d", round))
	}
}

// requests sends all requests that change a plan, or may, with a fabric of a kind.
func (x *test) requests(kind string, hosts int, job string) {
	x.Helper()
	holds := func(after string) *api.Status {
		x.Helper()
		st := x.settled(func(top *api.Topology) error {
			if top.Kind != kind || len(top.Hosts) != hosts {
				return fmt.Errorf("the fabric is %s with %d hosts, not %s with %d: %s", top.Kind, len(top.Hosts), kind, hosts, top.Why)
			}
			return nil
		})
		x.Logf("%s: after %s: epoch %d, engine %s", kind, after, st.Epoch, st.Engine)
		jobs, err := x.Client.Jobs(x.ctx)
		x.ok(err)
		if kind == "own-routes" {
			x.onSwitches(hosts * (hosts - 1))
		} else {
			x.check()
		}
		for _, j := range jobs {
			plan, err := x.Client.WaitJob(x.ctx, fmt.Sprint(j.ID), 0)
			x.ok(err)
			if kind == "own-routes" {
				x.ok(x.walked(plan, plan.Servers()*(plan.Servers()-1)))
			} else {
				x.checkJob(&j, plan.Servers())
			}
		}
		return st
	}
	first := holds("the change")
	_, err := x.Client.Reroute(x.ctx)
	x.ok(err)
	holds("a reroute")

	epochs, err := x.Client.Epochs(x.ctx)
	x.ok(err)
	back := 0
	for _, e := range epochs {
		if _, err := x.Client.Rollback(x.ctx, e.Epoch); err == nil {
			back++
			holds(fmt.Sprintf("a rollback to epoch %d", e.Epoch))
		}
	}
	if back == 0 {
		x.Errorf("%s: no epoch of %d could be rolled back to", kind, len(epochs))
	}
	_, err = x.Client.Reroute(x.ctx)
	x.ok(err)
	holds("a reroute after rollbacks")

	if forecast, err := x.Client.WhatIf(x.ctx, api.WhatIf{Fail: []string{"Leaf000/4"}}); (err == nil) != (kind == "fat-tree") {
		x.Errorf("%s: what-if ends with %v, %v", kind, forecast, err)
	}
	x.createJob(job, "Hca0000", "Hca0003", "Hca0007")
	holds("a job")

	x.ok(x.SM.Restart(x.ctx))
	x.restartedManager()
	holds("a restart of OpenSM")
	x.ok(x.KillForsd(x.ctx), x.StartForsd())
	if st := holds("a restart of forsd"); st.Epoch < first.Epoch {
		x.Errorf("epoch %d after %d", st.Epoch, first.Epoch)
	}
}

// restartedManager waits until forsd has the plugin and the process of an OpenSM that
// was restarted.
func (x *test) restartedManager() {
	x.Helper()
	x.until("OpenSM is back", func(st *api.Status) bool { return st.OpenSM.Plugin != nil && st.OpenSM.PID == x.SM.PID() })
}
