package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
)

// benchBase measures exchanges on base LIDs on FT(2;20,18): their duration by the plan and
// by a linear shift, in phases of one undisturbed transfer; how evenly base LIDs are spread
// over cables; how many of their 6120 entries have moved; and the planning time.
func benchBase(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nbase LIDs on FT(2;20,18), median of %d\n", runs)
	fmt.Fprintln(w, "LMC\tdead\tby the plan\tbound\tlinear shift\tbusiest cable, fair shares\tentries moved\tplan and tables ms\t")
	for _, lmc := range []uint8{5, 3, 0} {
		for _, d := range []struct {
			name   string
			cables [][2]int
		}{{"nothing", nil}, {"a cable", [][2]int{{7, 10}}}, {"two of a leaf", [][2]int{{7, 10}, {7, 13}}}, {"nine of make demo", demoCables()}} {
			tree := must(fabgen.Spec{Spines: 20, Leaves: 18, LMC: lmc}.Fit(d.cables...))
			made := must(planner.Make(context.Background(), tree, planner.Settings{}))
			shift := must(sim.Run(tree.Fabric, made.Tables, sim.LinearShift(tree)))
			moved := 0
			if b := made.Report().Base; b != nil {
				moved = b.Moved
			}
			spent := median(func() { must(planner.Route(context.Background(), tree, planner.Settings{})) })
			fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%.2f\t%d\t%.1f\t\n", lmc, d.name, made.Base.Plan.Phases, made.Base.Plan.LowerBound, shift.Duration(), float64(made.Load.BusiestCable)/float64(made.Load.FairShare), moved, ms(spent.time))
		}
	}
	w.Flush()
}

// demoCables are the nine cables that make demo pulls.
func demoCables() (cables [][2]int) {
	rng := rand.New(rand.NewPCG(9, 2021))
	for len(cables) < 9 {
		if c := [2]int{rng.IntN(18), rng.IntN(20)}; !slices.Contains(cables, c) {
			cables = append(cables, c)
		}
	}
	return cables
}

// jobRows are jobs on base LIDs, whose lanes their own plan chooses.
func jobRows() []exactRow {
	return []exactRow{
		{"300 random hosts 0F", some(fullTree(20, 18), 300), 0},
		{"300 random hosts 1F", some(cut(fullTree(20, 18), 7, 10), 300), 100},
		{"300 random hosts 9F", some(cutAtRandom(fullTree(20, 18), 9), 300), 0},
		{"36 random hosts 9F", some(cutAtRandom(fullTree(20, 18), 9), 36), 0},
	}
}

// some draws servers of a tree.
func some(t *fors.Tree, servers int) *fors.Tree {
	job := &fors.Tree{Lanes: t.Lanes, Up: t.Up, Slots: make([][]int, len(t.Slots))}
	drawn := rand.New(rand.NewPCG(300, 2021)).Perm(20 * 18)[:servers]
	slices.Sort(drawn)
	for _, s := range drawn {
		job.Slots[s/20] = append(job.Slots[s/20], s%20)
	}
	return job
}
