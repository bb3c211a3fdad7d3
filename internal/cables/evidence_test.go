package cables

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// plan returns the plan of the site's tree, with an epoch number.
func (x *site) plan(t *topology.FatTree, epoch uint64) *phasetable.View {
	x.Helper()
	r, err := planner.Make(context.Background(), t, planner.Settings{})
	if err != nil {
		x.Fatal(err)
	}
	v, err := phasetable.New(r.Table(epoch))
	if err != nil {
		x.Fatal(err)
	}
	return v
}

// TestTraffic compares two rounds within one plan. Additional traffic over a cable is reported
// with the cable's ends, in the direction of the traffic. Another plan, or none, starts again.
// An end that was reset counts from 0.
func TestTraffic(t *testing.T) {
	x := newSite(t, cablehealth.Report)
	tree := x.tree(x.fabric)
	first, second := x.plan(tree, 1), x.plan(tree, 2)
	counts := map[ib.End]umad.PortCounters{}
	exchange := func(plan *phasetable.View, busy *ib.End) string {
		for _, s := range Want(tree) {
			for _, p := range s.Ports {
				end := ib.End{GUID: s.GUID, Port: p}
				c := counts[end]
				c.DataSent += 10 << 20
				if busy != nil && end == *busy {
					c.DataSent += 20 << 20
					c.Wait += 10 << 20
				}
				counts[end] = c
			}
		}
		x.Traffic(tree, plan, Round{Ports: counts})
		for _, w := range x.Health.List(time.Now()) {
			if w.Code == PlanCongested {
				return w.Text
			}
		}
		return ""
	}
	spine := ib.End{GUID: tree.Spines[2].GUID, Port: 2} // to Leaf001
	leaf := ib.End{GUID: tree.Leaves[0].GUID, Port: 5}  // to Spine000
	for i, step := range []struct {
		plan *phasetable.View
		busy *ib.End
		want string
	}{
		{first, &spine, ""}, // the first round has nothing to compare
		{first, nil, ""},
		{first, &spine, "Spine002 port 2 to Leaf001 port 7: data waited for 25 % of the time"},
		{first, &leaf, "Leaf000 port 5 to Spine000 port 1: data waited for 25 %"},
		{first, nil, ""},
		{first, &leaf, "it has sent 3.0 times its part of the exchange, so other traffic of some 80 MB was there"},
		{second, nil, "it has sent 3.0 times"}, // stays until there are two rounds of the new plan
		{second, nil, ""},
		{second, &leaf, "Leaf000 port 5"},
		{nil, &leaf, ""},
		{second, &leaf, ""},
	} {
		if got := exchange(step.plan, step.busy); !strings.Contains(got, step.want) || step.want == "" && got != "" {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	counts[leaf] = umad.PortCounters{DataSent: 1 << 20}
	if got := exchange(second, nil); got != "" {
		t.Errorf("after a reset: %q", got)
	}
}
