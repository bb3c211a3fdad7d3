package plugin

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// TestSweeps goes through the first sweep of the fabric of the FORS paper, a
// pulled and a plugged cable with the real OpenSM: the events and their order,
// the fabric of each against OpenSM's own dump, and the tables in the switches.
func TestSweeps(t *testing.T) {
	s := simulate(t, fabgen.Spec{Spines: 20, Leaves: 18})
	given := make(chan *lft.Tables, 100)
	s.tables = func(ctx context.Context, r Request) (*lft.Tables, error) {
		start := time.Now()
		tables, err := planned(ctx, r)
		t.Logf("request %d: generation %d, tables in %v, %v", r.Number, r.Generation, time.Since(start), err)
		if err == nil {
			given <- tables
		}
		return tables, err
	}
	s.serve()
	s.start(ibsim.OpenSMOptions{LMC: 5})

	c, before := next[Connected](s)
	if len(before) > 0 || c.Peer.PID != s.m.PID() || c.Peer.Deadline != deadline || c.Peer.Version != "OpenSM 3.3.23" {
		t.Errorf("connected: %+v after %v", c, before)
	}
	up := s.up()
	for up.Fabric == nil || len(given) == 0 {
		up = s.up()
	}
	s.same(up, given)

	for _, change := range []struct {
		name string
		do   func(context.Context, string, int) error
	}{{"unlink", s.sim.Unlink}, {"relink", s.sim.Relink}} {
		pulled := time.Now()
		if err := change.do(s.ctx, "Leaf003", 25); err != nil {
			t.Fatal(err)
		}
		trap, _ := next[Trap](s)
		if trap.Number != TrapLinkState || !s.atCable(up.Fabric, trap) {
			t.Errorf("%s: %+v", change.name, trap)
		}
		discovered, _ := next[Discovered](s)
		outcome, _ := next[Outcome](s)
		routed, _ := next[RoutingDone](s)
		after, _ := next[SubnetUp](s)
		t.Logf("%s: trap %.1f ms, discovered %.1f, installed %.1f, routed %.1f, up %.1f", change.name, ms(pulled, trap.At),
			ms(pulled, discovered.At), ms(pulled, outcome.At), ms(pulled, routed.At), ms(pulled, after.At))
		if outcome.Result != Installed || !routed.Own || routed.Engine != "fors" || routed.Reroute {
			t.Errorf("%s: %+v, %+v", change.name, outcome, routed)
		}
		if AfterSweep(discovered.Fabric).Hash() != after.Fabric.Hash() {
			t.Errorf("%s: the fabric at the end of discovery is not that at the end of the sweep", change.name)
		}
		if after.Fabric.Hash() == up.Fabric.Hash() {
			t.Errorf("%s: the fabric has not changed", change.name)
		}
		up = after
		s.same(up, given)
	}
	if said := s.complaints(); len(said) != 1 || said[0] != "forsd's tables are installed" {
		t.Errorf("the plugin says %q", said)
	}
}

// atCable reports whether a trap is of a switch at either end of the changed cable.
func (s *site) atCable(f *topology.Fabric, trap Trap) bool {
	leaf := f.Find(fabgen.LeafGUID + 3)
	for _, node := range []int32{leaf, s.fabric.Nodes[leaf].Ports[25].Peer} {
		if own := &f.Nodes[node].Ports[0]; trap.GUID == own.GUID && trap.LID == own.LID {
			return true
		}
	}
	return false
}

func ms(from, to time.Time) float64 { return float64(to.Sub(from).Microseconds()) / 1000 }

// up waits for the end of a sweep.
func (s *site) up() SubnetUp {
	s.t.Helper()
	up, _ := next[SubnetUp](s)
	if up.Err != nil {
		s.t.Fatal(up.Err)
	}
	return up
}

// same compares the fabric at the end of a sweep with OpenSM's dump of it, and
// the tables given last with those in the switches.
func (s *site) same(up SubnetUp, given <-chan *lft.Tables) {
	s.t.Helper()
	if d := cmp.Diff(s.dump(), up.Fabric); d != "" {
		s.t.Errorf("fabric (-dump +plugin):\n%s", d)
	}
	var last *lft.Tables
	for len(given) > 0 {
		last = <-given
	}
	got := s.readBack()
	lft.FillUnread(got, last)
	if err := lft.Compare(last, got, lft.LIDs(up.Fabric)); err != nil {
		s.t.Error(err)
	}
}
