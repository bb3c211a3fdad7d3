package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// podFailures are a cable of a leaf, one of a top, and a top of the 8-ary tree, with the
// largest number of phases of the plan for base LIDs.
var podFailures = []struct {
	what   string
	cables []ibsim.Port // none for the switch
	phases int
}{
	{"Leaf001/5", []ibsim.Port{{Node: "Leaf001", Port: 5}}, 184},
	{"Mid003/6", []ibsim.Port{{Node: "Mid003", Port: 6}}, 144},
	{"Top001", nil, 148},
}

// fail pulls a part, or puts it back.
func (x *test) fail(what string, cables []ibsim.Port, back bool) {
	x.Helper()
	switch {
	case cables == nil && back:
		x.ok(x.Sim.RelinkNode(x.ctx, what))
	case cables == nil:
		x.ok(x.Sim.UnlinkNode(x.ctx, what))
	case back:
		x.ok(x.Sim.RelinkAll(x.ctx, cables))
	default:
		x.ok(x.Sim.UnlinkAll(x.ctx, cables))
	}
}

// TestThreeLevelsBase pulls parts of the 8-ary tree under a real OpenSM, by its plugin with
// four LIDs a host and by files with one: base LIDs have a plan when forsd is at rest, a
// linear shift by base LIDs takes at most two phase times a step on the tables in the
// switches, and neither it nor the busiest cable is worse than with OpenSM's dfsssp.
func TestThreeLevelsBase(t *testing.T) {
	t.Parallel()
	type cost struct{ shift, busiest int }
	costs, spec := map[string]map[string]cost{}, fabgen.KAry(8)
	whole, err := topology.Recognise(fabgen.GenerateTree(spec))
	if err != nil {
		t.Fatal(err)
	}
	note := func(x *test, by, what string) cost {
		sight, err := x.LookBy(x.ctx, whole)
		x.ok(err)
		shift, err := sim.Run(sight.Pods.Fabric, sight.Tables, sim.HostShift(sight.Pods.Fabric.ConnectedHosts()))
		x.ok(err)
		c := cost{shift.Duration(), sight.Tables.Busiest(sight.Tree).Transfers}
		if shift.Lost > 0 {
			x.Errorf("%s, %s: %s", by, what, shift.FirstLost)
		}
		if costs[what] == nil {
			costs[what] = map[string]cost{}
		}
		costs[what][by] = c
		x.Logf("%s, %s: the linear shift takes %d phase times, the busiest cable carries %d", by, what, c.shift, c.busiest)
		return c
	}
	for _, lmc := range []uint8{2, 0} {
		by := "by files"
		o := Options{Fabric: fabgen.GenerateTree(spec), LMC: lmc, Config: steady}
		if lmc == 2 {
			by, o = "by plugin", byPlugin(t, o)
		}
		x := newSite(t, 5*time.Minute, o)
		x.ok(x.Start(x.ctx))
		x.settled(nil)
		for _, one := range podFailures {
			x.fail(one.what, one.cables, false)
			st := x.settled(func(top *api.Topology) error { return missing(top, one.cables == nil) })
			x.check()
			base, err := x.Client.BaseTable(x.ctx)
			x.ok(err)
			if n := base.Phases(); n > one.phases {
				x.Errorf("%s, %s: base LIDs have a plan of %d phases", by, one.what, n)
			}
			if e := st.LastEvent; e != nil {
				x.Logf("%s, %s: %d phases, base LIDs %d; plan in force %.0f ms and tables read back %.0f ms after the first sign", by, one.what, st.Phases, base.Phases(), 1e3*e.PublishedSeconds, 1e3*e.ReadBackSeconds)
			}
			if c := note(x, by, one.what); c.shift > 2*127 || c.busiest < 127 {
				x.Errorf("%s, %s: %+v", by, one.what, c)
			}
			x.fail(one.what, one.cables, true)
			x.settled(func(top *api.Topology) error {
				if missing(top, one.cables == nil) == nil {
					return fmt.Errorf("%s is not back", one.what)
				}
				return nil
			})
		}
		x.noRoutingErrors()
	}
	x := newSite(t, 5*time.Minute, Options{Fabric: fabgen.GenerateTree(spec), Engine: "dfsssp"})
	x.ok(x.StartOpenSM(x.ctx))
	_, _, err = x.SM.WaitLog(x.ctx, ibsim.SubnetUp, 0)
	x.ok(err)
	for _, one := range podFailures {
		for _, back := range []bool{false, true} {
			from := x.SM.LogSize()
			x.fail(one.what, one.cables, back)
			_, _, err := x.SM.WaitLog(x.ctx, ibsim.SubnetUp, from)
			x.ok(err)
			if !back {
				note(x, "dfsssp", one.what)
			}
		}
		c := costs[one.what]
		for _, by := range []string{"by plugin", "by files"} {
			if c[by].shift > c["dfsssp"].shift || c[by].busiest > c["dfsssp"].busiest {
				x.Errorf("%s: %s %+v, dfsssp %+v", one.what, by, c[by], c["dfsssp"])
			}
		}
	}
}

// missing is an error unless one cable is missing, or those of a top.
func missing(top *api.Topology, all bool) error {
	n := 0
	for _, l := range top.Leaves {
		for _, c := range l.Cables {
			if c == "missing" {
				n++
			}
		}
	}
	for _, m := range top.Mids {
		for _, c := range m.Cables {
			if c == "missing" {
				n++
			}
		}
	}
	if want := map[bool]int{false: 1, true: 8}[all]; n != want {
		return fmt.Errorf("%d cables are missing: want %d", n, want)
	}
	return nil
}
