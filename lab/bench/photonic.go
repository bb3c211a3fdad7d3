package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/optical/photonic"
)

// photonicRows are the exchanges that goals are stated for, and some more.
var photonicRows = []struct {
	gpus, degree int
	sizes        string
	paper        bool    // by the published method
	us           float64 // R
	goal         float64 // milliseconds; 0: no goal
}{
	{64, 1, "uniform", true, 1000, 0},
	{64, 1, "uniform", false, 1000, 1000},
	{64, 2, "uniform", true, 1000, 0},
	{64, 2, "uniform", false, 1000, 1000},
	{64, 1, "zipf", true, 1000, 0},
	{64, 1, "zipf", false, 1000, 0},
	{256, 2, "uniform", false, 10_000, 0},
	{512, 1, "uniform", false, 10_000, 0},
	{4096, 1, "uniform", false, 10_000, 10_000},
}

// benchPhotonic times the choice among all numbers of topologies, with the replay of the plan,
// and the published method on some of the exchanges. It compares the costs of the plans with the
// best of static topology and direct links.
func benchPhotonic(out io.Writer, unit time.Duration) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nGPUs on optical switches, any number of reconfigurations, plan and replay, median of %d (above 1 s: one run); the last columns are ratios to the published method, and to the unit\n", runs)
	fmt.Fprintln(w, "GPUs\tdegree\tsizes\tmethod\tR in µs\tms\tgoal\tallocs\td\tcost in ms\tto bound\tto baseline\tto paper\tratio\t")
	var paper cost
	for _, r := range photonicRows {
		in := &photonic.Instance{GPUs: r.gpus, Degree: r.degree, Reconfig: photonic.Micros(r.us), Link: photonic.DefaultLink, Message: photonic.DefaultMessage}
		check(in.Draw(r.sizes, photonic.ZipfFactor, 1))
		var plan *photonic.Plan
		m := patient(func() {
			if r.paper {
				plan = must(papers.BestRounds(context.Background(), in, true))
			} else {
				plan = must(photonic.Make(context.Background(), in, photonic.Options{Relabel: true}))
			}
		})
		method := "planner"
		if r.paper {
			paper, method = m, "paper"
		}
		baseline := photonic.Time(0)
		for _, b := range must(photonic.Baselines(context.Background(), in)) {
			if baseline == 0 || b.Plan.Cost < baseline {
				baseline = b.Plan.Cost
			}
		}
		goal, slower := "", "–"
		if !r.paper && paper.time > 0 {
			slower, paper = fmt.Sprintf("%.2f", float64(m.time)/float64(paper.time)), cost{}
		}
		if r.goal > 0 {
			goal = fmt.Sprintf("%.0f", r.goal)
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%.0f\t%.2f\t%s\t%d\t%d\t%.2f\t%.3f\t%.3f\t%s\t%.3f\t\n", r.gpus, r.degree, r.sizes, method, r.us, ms(m.time), goal, m.allocs,
			len(plan.Topologies), plan.Cost.US()/1000, float64(plan.Cost)/float64(in.Bound(0)), float64(plan.Cost)/float64(baseline),
			slower, float64(m.time)/float64(unit))
	}
	w.Flush()
}
