package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestPartlyCovered runs a tree as Quantum switches show it, with two switches in a row
// and a host behind them on a leaf: forsd plans and writes tables for all of it, one
// warning names the parts that the tree does not cover, and a dead cable is routed around.
func TestPartlyCovered(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"plugin", "files"} {
		t.Run(way, func(t *testing.T) {
			f := fabgen.WithAggregation(fabgen.WithChain(fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}), "Leaf002", 2))
			// One is recognized by its device alone.
			an := &f.Nodes[f.Find(fabgen.AggregationGUID+fabgen.LeafGUID)]
			an.Name, an.System = "internal", an.GUID
			o := Options{Fabric: f, LMC: 2, Conf: map[string]string{"honor_guid2lid_file": "TRUE"}}
			if way == "plugin" {
				o = byPlugin(t, o)
			}
			x, healthy := up(t, 3*time.Minute, o)
			named := func(st *api.Status, more ...string) {
				t.Helper()
				got := []string{}
				for _, w := range st.Warnings {
					got = append(got, w.Code)
					if w.Code == topology.PartlyCovered && (!strings.Contains(w.Text, "2 switches (Odd900000 (0x0000000000900000); Odd900010 (0x0000000000900010))") ||
						!strings.Contains(w.Text, "1 host port (behind port 1 is behind switch Odd900010 (0x0000000000900010))")) {
						t.Errorf("the warning is %s", w.Text)
					}
				}
				want := append([]string{topology.PartlyCovered}, more...)
				slices.Sort(want)
				if slices.Sort(got); !slices.Equal(got, want) || st.Servers != 16 || st.Phases > 16 {
					t.Errorf("%d servers, %d phases, warnings %v, want %v", st.Servers, st.Phases, got, want)
				}
			}
			named(x.settled(nil))
			if n := len(healthy.Tree.Routed); n != 8 {
				t.Errorf("%d aggregation nodes on leaves and spines", n)
			}
			x.ok(x.Sim.Unlink(x.ctx, "Leaf002", 5))
			named(x.settled(Cable(2, 0, "missing")), topology.CableDown)
			x.check()
			x.ok(x.Sim.Relink(x.ctx, "Leaf002", 5))
			named(x.settled(Cable(2, 0, "full")))
			x.check()
			x.noRoutingErrors()
		})
	}
}
