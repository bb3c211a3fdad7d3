package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"

	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// benchPods compares plans on fat trees of three levels with schedules on the tables that
// OpenSM's engines make of the same fabrics, from a cold start each: healthy, and with
// dead cables, of a leaf and of a top in turn. The time is that of planning; for OpenSM's
// tables, of the schedule alone.
func benchPods(out io.Writer) {
	if err := ibsim.Available(); err != nil {
		fmt.Fprintf(out, "\nThree levels and OpenSM's engines: left out: %v\n", err)
		return
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "\nFat trees of three levels; phases on the tables of OpenSM's engines by package liquid")
	fmt.Fprintln(w, "fabric\tdead\tengine\ttables by\tphases\tbound\tms\t")
	for _, s := range []struct {
		name string
		spec fabgen.TreeSpec
	}{
		{"4-ary 3-tree, 64 hosts", fabgen.TreeSpec{Pods: 4, Leaves: 4, Mids: 4, Tops: 4, Hosts: 4}},
		{"2:1 at the mids, 64 hosts", fabgen.TreeSpec{Pods: 4, Leaves: 4, Mids: 4, Tops: 2, Hosts: 4}},
	} {
		fail := s.spec.Draw(rand.New(rand.NewPCG(64, 9)), fabgen.Damage{LeafCables: 5, TopCables: 4})
		for _, dead := range []int{0, 1, 3, 9} {
			damaged := func(lmc uint8) (*topology.Fabric, *topology.PodBaseline) {
				spec := s.spec
				spec.LMC = lmc
				f := fabgen.GenerateTree(spec)
				base := must(topology.NewPodBaseline(f))
				for i := range dead {
					must(f.Fail(fail[i/2+i%2*5])) // of a leaf, of a top, in turn
				}
				return f, base
			}
			for _, engine := range []string{"ftree", "minhop", "dfsssp"} {
				f, _ := damaged(0)
				seen, tables, used, err := e2e.Routed(context.Background(), f, engine)
				check(err)
				routes := must(liquid.Trace(seen, tables, seen.ConnectedHosts(), nil))
				var r *liquid.Result
				m := patient(func() { r = must(liquid.Make(context.Background(), routes.Traffic, liquid.Options{Moves: 50_000})) })
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%.1f\t\n", s.name, dead, engine, used, len(r.Schedule), r.Bound, ms(m.time))
			}
			f, base := damaged(2)
			tree := must(topology.FitPods(f, base, nil))
			var r *podplan.Result
			m := patient(func() { r = must(podplan.Make(context.Background(), tree, podplan.Settings{})) })
			fmt.Fprintf(w, "%s\t%d\tforsd\t%s\t%d\t%d\t%.1f\t\n", s.name, dead, r.Plan.Engine, r.Plan.Phases(), r.Plan.LowerBound, ms(m.time))
		}
	}
	w.Flush()
}
