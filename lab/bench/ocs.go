package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/optical/ocs"
)

// ocsRows are the demands and methods that are timed, on the benchmark workload of
// 16 flows a rack, four switches, δ = 0.01.
var ocsRows = []struct {
	racks int
	o     ocs.Options
	goal  float64 // milliseconds; 0: no goal
}{
	{100, ocs.Options{Method: papers.Less}, 0},
	{100, ocs.Options{Method: ocs.Fast}, 3},
	{100, ocs.Options{Method: ocs.Fast, LP: true}, 0},
	{100, ocs.Options{Method: ocs.Eclipse}, 0},
	{100, ocs.Options{Method: ocs.Best}, 0},
	{512, ocs.Options{Method: papers.Less}, 0},
	{512, ocs.Options{Method: ocs.Fast}, 100},
	{512, ocs.Options{Method: ocs.Best}, 0},
}

// benchOCS times whole pipelines, from the matrix in memory to the schedule, and
// replay and bound.
func benchOCS(out io.Writer, unit time.Duration) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nparallel circuit switches, median of %d (above 1 s: one run); the last columns are ratios to the baseline LESS, and to the unit\n", runs)
	fmt.Fprintln(w, "racks\tmethod\tms\tgoal\tallocs\tKiB\tmakespan/bound\tto baseline\tratio\t")
	var baseline cost
	for _, r := range ocsRows {
		d := must(ocs.Workload("benchmark", r.racks, 16, 1))
		r.o.Switches, r.o.Delta = 4, .01
		var s *ocs.Schedule
		m := patient(func() { s = must(papers.Schedule(context.Background(), d, r.o)) })
		name, goal := string(r.o.Method), ""
		switch {
		case r.o.Method == papers.Less:
			baseline = m
		case r.o.LP:
			name += ", LP"
		}
		if r.goal > 0 {
			goal = fmt.Sprintf("%.0f", r.goal)
		}
		row := func(name, goal, quality string, m cost) {
			fmt.Fprintf(w, "%d\t%s\t%.2f\t%s\t%d\t%d\t%s\t%.3f\t%.3f\t\n", r.racks, name, ms(m.time), goal, m.allocs, m.bytes>>10, quality,
				float64(m.time)/float64(baseline.time), float64(m.time)/float64(unit))
		}
		row(name, goal, fmt.Sprintf("%.4f", s.Makespan()/ocs.Bound(d, 4, .01).Paper), m)
		if r.o.Method == ocs.Best {
			row("replay", "", "", median(func() { check(ocs.Replay(d, s)) }))
			row("bounds", "", "", median(func() { ocs.Bound(d, 4, .01) }))
		}
	}
	w.Flush()
}
