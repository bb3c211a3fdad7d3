package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/lab/baseline"
	"github.com/forsd/forsd/lab/fast"
)

// gpuRows are the clusters that goals are stated for.
var gpuRows = []struct {
	gpu.Cluster
	goal float64 // milliseconds; 0: no goal
}{
	{gpu.Cluster{Servers: 8, GPUs: 8}, .05},
	{gpu.Cluster{Servers: 32, GPUs: 8}, 0},
	{gpu.Cluster{Servers: 40, GPUs: 8}, 1},
	{gpu.Cluster{Servers: 128, GPUs: 8}, 12},
}

// benchGPU times the stages of servers for uniform random traffic of up to 1 MiB for
// each pair of GPUs, and the baselines on the same traffic: the padded matrix of servers
// with matchings from scratch, and, on small clusters, the matrix of NICs without
// hierarchy, in packets of 64 KiB for König's.
func benchGPU(out io.Writer, unit time.Duration) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nGPU clusters, median of %d (baselines above 1 s: one run); the last columns are ratios to the padded scheme, and to the unit\n", runs)
	fmt.Fprintln(w, "cluster\tstages of\tmade by\tms\tgoal\tallocs\tstages\tlength/bound\tto padded\tratio\t")
	for _, r := range gpuRows {
		benchCluster(w, r.Cluster, r.goal, unit)
	}
	w.Flush()
}

func benchCluster(w io.Writer, c gpu.Cluster, goal float64, unit time.Duration) {
	rng := rand.New(rand.NewPCG(uint64(c.Servers), 0))
	t := must(gpu.NewTraffic(c))
	for at := range t.Bytes {
		if at/c.Ranks()/c.GPUs != at%c.Ranks()/c.GPUs {
			t.Bytes[at] = rng.Int64N(1 << 20)
		}
	}
	bound, shares := t.Bound(), baseline.Servers(t)
	var stages, length int64
	count := func(weights []int64) {
		stages, length = int64(len(weights)), 0
		for _, v := range weights {
			length += v
		}
	}
	padded := patient(func() { count(baseline.Padded(c.Servers, shares).Weights) })
	row := func(of, by, goal string, m cost) {
		fmt.Fprintf(w, "%d×%d\t%s\t%s\t%.3f\t%s\t%d\t%d\t%.3f\t%.4f\t%.3f\t\n", c.Servers, c.GPUs, of, by, ms(m.time), goal, m.allocs,
			stages, float64(length)/float64(bound), float64(m.time)/float64(padded.time), float64(m.time)/float64(unit))
	}
	row("servers", "matchings from scratch (padded)", "", padded)
	var p gpu.Planner
	for _, x := range []struct {
		by   string
		o    gpu.Options
		goal float64
	}{{"warm matchings", gpu.Options{}, goal}, {"warm, fewest", gpu.Options{Fewest: true}, 0}, {"warm, stretch 1.05", gpu.Options{MaxStretch: 1.05}, 0}} {
		text := ""
		if x.goal > 0 {
			text = fmt.Sprintf("%.2f", x.goal)
		}
		row("servers", x.by, text, median(func() {
			weights, _, err := p.ServerStages(context.Background(), t, x.o)
			check(err)
			count(weights)
		}))
	}
	var plan *gpu.Plan
	row("exchange", "whole plan, stretch 1.05", "", patient(func() {
		plan = must(p.Plan(context.Background(), t, gpu.Options{Mode: gpu.Bytes, MaxStretch: 1.05}))
		stages, length = int64(len(plan.Stages)), plan.Length
	}))
	row("exchange", "replay", "", patient(func() { check(gpu.Verify(context.Background(), t, plan)) }))
	for _, o := range []gpu.Options{{Mode: gpu.Bytes}, {Mode: gpu.Bytes, MaxStretch: 1.05}} {
		row("exchange", fmt.Sprintf("one rank's own program, stretch %v", max(1, o.MaxStretch)), map[int]string{8: "0.15", 128: "10"}[c.Servers], median(func() {
			own := must(p.Own(context.Background(), t, 3, o))
			count(own.Lengths)
		}))
	}
	if c.Servers > 8 {
		return
	}
	row("NICs", "flat BvN", "", patient(func() { count(baseline.FlatBvN(t).Weights) }))
	packets := must(gpu.NewTraffic(c))
	for at, v := range t.Bytes {
		packets.Bytes[at] = (v + 1<<16 - 1) >> 16
	}
	bound = packets.Bound()
	row("NICs", "flat König, 64 KiB", "", patient(func() { count(must(baseline.FlatKoenig(packets, 1<<20)).Weights) }))
	row("NICs", "rails, 64 KiB", "", median(func() {
		plan := must(p.Plan(context.Background(), packets, gpu.Options{Mode: gpu.Rails}))
		stages, length = int64(len(plan.Stages)), plan.Length
	}))
}

// patient is median for bodies that may take seconds: these run once.
func patient(body func()) cost {
	start := time.Now()
	body()
	if once := time.Since(start); once > time.Second {
		return cost{time: once}
	}
	return median(body)
}

// benchFAST compares the times of exchanges by our plans with those by FAST's, as its paper
// describes them, by one model of time. Exchanges are carried out byte by byte first.
func benchFAST(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "\nGPU exchanges compared with FAST (from its paper, not its program), predicted milliseconds by the model of docs/gpu.md")
	fmt.Fprintln(w, "exchange\tbound\tforsd\twithout overlap\tFAST\tFAST/forsd\tstages\tFAST's\tplanned in\tFAST's\tNIC buffer, MB\twithout overlap\t")
	slower := 0
	for _, r := range fast.Rows(128) {
		c := must(r.Compare(context.Background()))
		if c.Seconds > c.FAST {
			slower++
		}
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t\n", r.Name, 1e3*c.Bound, 1e3*c.Seconds, 1e3*c.Sequential, 1e3*c.FAST, c.FAST/c.Seconds,
			c.Stages, c.FASTStages, ms(c.Planned), ms(c.FASTPlanned), float64(c.Buffer)/1e6, float64(c.Whole)/1e6)
	}
	w.Flush()
	fmt.Fprintf(out, "slower than FAST: %d rows\n", slower)
}
