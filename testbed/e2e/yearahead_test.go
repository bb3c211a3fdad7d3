package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestYearAhead kills and restarts forsd at random times after cables of a tree of three levels are
// pulled and put back, by the plugin: each time ranks have a plan at once. Entries that it does not
// use may be stale. FORS_LONG=1 has 60 kills, and forsd's clock a year ahead of OpenSM's.
func TestYearAhead(t *testing.T) {
	t.Parallel()
	kills := many(3, 60)
	forsd, err := steppable()
	if err != nil {
		t.Fatal(err)
	}
	o := byPlugin(t, Options{Fabric: fabgen.GenerateTree(fabgen.KAry(4)), LMC: 2, Forsd: forsd})
	x := newSite(t, time.Hour, o)
	x.ok(x.SetClock(365*24*3600, false))
	x.ok(x.Start(x.ctx))
	x.loaded()
	l, rng := newLosses(x, 9), rand.New(rand.NewPCG(9, 33))
	var worst time.Duration
	for n := range kills {
		c := l.trunk()
		port := int(c.Port)
		node := l.whole.Nodes[c.Node].GUID.String()
		x.ok(x.Sim.Unlink(x.ctx, node, port))
		x.settled(nil)
		x.ok(x.Sim.Relink(x.ctx, node, port))
		after := time.Duration(rng.IntN(200)) * time.Millisecond
		time.Sleep(after)
		x.ok(x.KillForsd(x.ctx), x.StartForsd())
		x.until("it answers", func(*api.Status) bool { return true })
		began := time.Now()
		x.until("ranks have a plan", func(s *api.Status) bool { return s.Ready })
		took := time.Since(began)
		worst = max(worst, took)
		t.Logf("kill %d, %v after a cable came back: ready after %v", n+1, after, took.Round(time.Millisecond))
		x.settled(nil)
		x.check()
	}
	t.Logf("at worst ranks had no plan for %v", worst.Round(time.Millisecond))
	if long && worst > 5*time.Second {
		t.Errorf("ranks had no plan for %v", worst)
	}
}
