package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// benchLiquid times schedules on any routes: the exchange of all nodes of the paper's
// test bed by every method, all its sub-topologies, and 360 hosts of FT(2;20,18)
// with three dead cables. The last but one column is a ratio to Dsatur on the same
// traffic.
func benchLiquid(out io.Writer, unit time.Duration) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nLiquid schedules, median of %d; the last columns are ratios to Dsatur, and to the unit\n", runs)
	fmt.Fprintln(w, "traffic\ttransfers\tΛ\tby\tsteps\tms\tallocs\tto Dsatur\tratio\t")
	n := must(liquid.SwissT1())
	all := must(n.AllocatedAllToAll(n.Capacity()))
	benchMethods(w, "Swiss-T1", all, unit, liquid.MethodDsatur, liquid.MethodSearch, liquid.MethodColouring, liquid.MethodRoundRobin)
	benchMethods(w, "FT(2;20,18), 3 dead", deadCables(3), unit, liquid.MethodDsatur, liquid.MethodColouring)
	classes := must(papers.Classes(n))[1:]
	traffics := make([]*liquid.Traffic, len(classes))
	for i, c := range classes {
		traffics[i] = must(n.AllocatedAllToAll(c.Allocation))
	}
	together := func(m liquid.Method) func() {
		return func() {
			for _, t := range traffics {
				must(liquid.Make(context.Background(), t, liquid.Options{Method: m}))
			}
		}
	}
	greedy := patient(together(liquid.MethodDsatur))
	for _, m := range []liquid.Method{liquid.MethodDsatur, liquid.MethodSearch, liquid.MethodAuto} {
		cost := patient(together(m))
		fmt.Fprintf(w, "its %d sub-topologies\t\t\t%s\t\t%.1f\t%d\t%.2f\t%.2f\t\n", len(traffics), m, ms(cost.time), cost.allocs,
			float64(cost.time)/float64(greedy.time), float64(cost.time)/float64(unit))
	}
	w.Flush()
}

// benchMethods times methods on a traffic, the first of which is Dsatur.
func benchMethods(w io.Writer, name string, t *liquid.Traffic, unit time.Duration, methods ...liquid.Method) {
	var greedy cost
	for i, m := range methods {
		var r *liquid.Result
		c := patient(func() { r = must(liquid.Make(context.Background(), t, liquid.Options{Method: m, Moves: 50_000})) })
		if i == 0 {
			greedy = c
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%.1f\t%d\t%.2f\t%.2f\t\n", name, t.Len(), t.Duration(), r.Method, len(r.Schedule), ms(c.time), c.allocs,
			float64(c.time)/float64(greedy.time), float64(c.time)/float64(unit))
	}
}

// deadCables is all to all on FT(2;20,18) without some cables of a leaf, on tables
// of base LIDs.
func deadCables(n int) *liquid.Traffic {
	f := fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18})
	base := must(topology.NewBaseline(f))
	for i := range n {
		f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: uint8(21 + i)})
	}
	tables := must(lft.Build(must(topology.Fit(f, base, nil))))
	return must(liquid.Trace(f, tables, f.ConnectedHosts(), nil)).Traffic
}
