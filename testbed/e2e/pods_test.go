package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
)

// TestThreeLevels pulls and replaces parts of fat trees of three levels under a real
// OpenSM, by its plugin and by files: a cable of a leaf, one between mid and top, a mid, a
// top, and several at once. At rest the switches hold the tables that belong to the fabric,
// no host is cut off, and the plan holds on them; a restart of forsd changes nothing. The
// small tree has two LIDs a host by the plugin, whose tables follow from the plan, and one
// for each lane by files.
// FORS_LONG=1 has trees of 128 hosts, and one of 1024.
func TestThreeLevels(t *testing.T) {
	t.Parallel()
	halved := fabgen.TreeSpec{Pods: 3, Leaves: 3, Mids: 2, Tops: 2, Hosts: 4}
	trees := map[string]fabgen.TreeSpec{"2 to 1, 36 hosts": halved}
	if long {
		trees = map[string]fabgen.TreeSpec{"8-ary, 128 hosts": fabgen.KAry(8), "2 to 1, 128 hosts": {Pods: 4, Leaves: 4, Mids: 4, Tops: 2, Hosts: 8}}
	}
	for name, spec := range trees {
		for _, way := range []string{"plugin", "files"} {
			t.Run(name+" by "+way, func(t *testing.T) { threeLevels(t, spec, way == "plugin") })
		}
	}
	if long {
		t.Run("16-ary, 1024 hosts by plugin", func(t *testing.T) { threeLevels(t, fabgen.KAry(16), true) })
	}
}

func threeLevels(t *testing.T, spec fabgen.TreeSpec, plugin bool) {
	t.Parallel()
	o := Options{Fabric: fabgen.GenerateTree(spec), LMC: 2, Config: steady}
	if plugin && spec.Mids*spec.Tops <= 4 {
		o.LMC = 1
	}
	if plugin {
		o = byPlugin(t, o)
	}
	x := newSite(t, 10*time.Minute, o)
	x.ok(x.Start(x.ctx))
	downs := func(n int) func(*api.Topology) error {
		return func(top *api.Topology) error {
			missing := 0
			for _, l := range top.Leaves {
				missing += strings.Count(strings.Join(l.Cables, " "), "missing")
			}
			for _, m := range top.Mids {
				missing += strings.Count(strings.Join(m.Cables, " "), "missing")
			}
			if top.Kind != "three-levels" || missing != n {
				return fmt.Errorf("the fabric is %s, %d cables are missing: want %d", top.Kind, missing, n)
			}
			return nil
		}
	}
	rest := func(after string, missing int) *api.Status {
		x.Helper()
		start := time.Now()
		x.settled(downs(missing))
		x.check()
		st := x.settled(downs(missing)) // a new plan may have come after the one at once
		e := st.LastEvent
		x.Logf("%-28s epoch %d, %d phases, bound %d, %s; tables read back %.0f ms and plan in force %.0f ms after the first sign; settled after %.1f s",
			after, st.Epoch, st.Phases, st.LowerBound, st.Engine, 1e3*e.ReadBackSeconds, 1e3*e.PublishedSeconds, time.Since(start).Seconds())
		return st
	}
	whole := rest("the start", 0)
	if whole.Phases != spec.Pods*spec.Leaves*spec.Hosts-1 && whole.Gap != 0 {
		x.Errorf("the whole tree has %d phases, bound %d", whole.Phases, whole.LowerBound)
	}
	leafCable, topCable := ibsim.Port{Node: "Leaf001", Port: spec.Hosts + 1}, ibsim.Port{Node: "Mid003", Port: spec.Leaves + 2}
	mid, top := spec.Leaves+spec.Tops, spec.Pods
	for _, one := range []struct {
		what     string
		missing  int
		pull     func() error
		replace  func() error
		replaced int
	}{
		{"a cable of a leaf", 1, func() error { return x.Sim.UnlinkAll(x.ctx, []ibsim.Port{leafCable}) }, func() error { return x.Sim.RelinkAll(x.ctx, []ibsim.Port{leafCable}) }, 0},
		{"a cable between mid and top", 1, func() error { return x.Sim.UnlinkAll(x.ctx, []ibsim.Port{topCable}) }, func() error { return x.Sim.RelinkAll(x.ctx, []ibsim.Port{topCable}) }, 0},
		{"a mid", mid, func() error { return x.Sim.UnlinkNode(x.ctx, "Mid001") }, func() error { return x.Sim.RelinkNode(x.ctx, "Mid001") }, 0},
		{"a top", top, func() error { return x.Sim.UnlinkNode(x.ctx, "Top001") }, func() error { return x.Sim.RelinkNode(x.ctx, "Top001") }, 0},
		{"both cables", 2, func() error { return x.Sim.UnlinkAll(x.ctx, []ibsim.Port{leafCable, topCable}) }, func() error { return x.Sim.RelinkAll(x.ctx, []ibsim.Port{leafCable}) }, 1},
	} {
		x.ok(one.pull())
		rest(one.what, one.missing)
		x.ok(one.replace())
		rest("... replaced", one.replaced)
	}
	before := rest("at last", 1)
	x.ok(x.KillForsd(x.ctx), x.StartForsd())
	if after := rest("forsd restarted", 1); after.Epoch != before.Epoch {
		x.Errorf("a restart of forsd makes epoch %d of epoch %d", after.Epoch, before.Epoch)
	}
	x.ok(x.Sim.RelinkAll(x.ctx, []ibsim.Port{topCable}))
	if last := rest("whole again", 0); last.Phases != whole.Phases || last.Engine != whole.Engine {
		x.Errorf("in the end %d phases by %s, at first %d by %s", last.Phases, last.Engine, whole.Phases, whole.Engine)
	}
	x.noRoutingErrors()
}

// TestThreeLevelsTimes times, with FORS_LONG=1, the reaction to a pulled and a replaced
// cable on a tree of 128 hosts: OpenSM by its own engines, and with forsd by the plugin, in
// one run, in turns.
func TestThreeLevelsTimes(t *testing.T) {
	if !long {
		t.Skip("it takes minutes, and fails on nothing")
	}
	spec := fabgen.KAry(8)
	sites := map[string]*test{}
	for _, engine := range []string{"forsd", "ftree", "minhop"} {
		o := Options{Fabric: fabgen.GenerateTree(spec), Config: steady}
		if engine == "forsd" {
			o.LMC = 2
			o = byPlugin(t, o)
		} else {
			o.Engine = engine
		}
		x := newSite(t, 8*time.Minute, o)
		if sites[engine] = x; engine == "forsd" {
			x.ok(x.Start(x.ctx))
			x.settled(nil)
			continue
		}
		x.ok(x.StartOpenSM(x.ctx))
		_, _, err := x.SM.WaitLog(x.ctx, ibsim.SubnetUp, 0)
		x.ok(err)
	}
	const rounds = 5
	times := map[string][]time.Duration{}
	for range rounds {
		for _, engine := range []string{"forsd", "ftree", "minhop"} {
			x := sites[engine]
			for what, cable := range map[string]ibsim.Port{"leaf cable": {Node: "Leaf001", Port: spec.Hosts + 1}, "top cable": {Node: "Mid003", Port: spec.Leaves + 2}} {
				for _, verb := range []string{"pulled", "replaced"} {
					from, start := x.SM.LogSize(), time.Now()
					if verb == "pulled" {
						x.ok(x.Sim.Unlink(x.ctx, cable.Node, cable.Port))
					} else {
						x.ok(x.Sim.Relink(x.ctx, cable.Node, cable.Port))
					}
					_, _, err := x.SM.WaitLog(x.ctx, ibsim.SubnetUp, from)
					x.ok(err)
					times[engine+" "+what+" "+verb] = append(times[engine+" "+what+" "+verb], time.Since(start))
					if engine == "forsd" {
						x.settled(nil)
					}
				}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(times)) {
		slices.Sort(times[what])
		t.Logf("%-32s SUBNET UP after %v (median of %d)", what, times[what][rounds/2].Round(time.Millisecond), rounds)
	}
}
