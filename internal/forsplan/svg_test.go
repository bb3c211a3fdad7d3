package forsplan

import (
	"context"
	"testing"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/optical/ocs"
	"github.com/forsd/forsd/optical/photonic"
)

// checkChart checks that bars follow each other within the axis, and returns the total length
// of each kind of bar, weighted by its shade.
func checkChart(t *testing.T, c *chart) map[int]float64 {
	t.Helper()
	sum := map[int]float64{}
	if c.Title == "" || c.Desc == "" || c.X == "" || len(c.Rows) == 0 {
		t.Errorf("%q: it has no text alternative, axis or rows", c.Title)
	}
	for _, r := range c.Rows {
		last := 0.0
		for _, b := range r.Bars {
			if b.From < last-1e-9*c.End || b.To < b.From || b.To > c.End*(1+1e-9) || b.Shade < 0 || b.Shade > 1+1e-9 || b.Kind >= len(c.Kinds) {
				t.Errorf("%s, %s: bar %+v after %v, on an axis to %v", c.Title, r.Label, b, last, c.End)
			}
			last = b.To
			full := 1.0
			if b.Shade > 0 {
				full = b.Shade
			}
			sum[b.Kind] += full * (b.To - b.From)
		}
	}
	return sum
}

func near(a, b float64) bool { return a >= b*0.99-1e-9 && a <= b*1.01+1e-9 }

// TestCharts draws schedules of all tiers, and checks that the bars add up to the schedule's
// figures.
func TestCharts(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(4) {
		d, err := ocs.Workload("benchmark", 20, 6, seed)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ocs.Make(ctx, d, ocs.Options{Switches: 3, Delta: 0.01, Method: ocs.Fast})
		if err != nil {
			t.Fatal(err)
		}
		r, err := ocs.NewReport(d, s, ocs.Fast)
		if err != nil {
			t.Fatal(err)
		}
		stands := 0.0
		for _, sw := range r.Switches {
			for _, c := range sw.Configs {
				stands += c.Weight
			}
		}
		if sum := checkChart(t, ocsChart(r)); !near(sum[1], stands) || !near(sum[0], 0.01*float64(r.Configurations)) {
			t.Errorf("circuits stand for %v, and switches change for %v: %v", stands, 0.01*float64(r.Configurations), sum)
		}
	}
	for _, c := range []struct {
		gpus, degree int
		sizes        string
	}{{16, 1, "uniform"}, {16, 2, "uniform"}, {12, 2, "zipf"}, {2, 1, "random"}} {
		in := &photonic.Instance{GPUs: c.gpus, Degree: c.degree, Reconfig: photonic.Micros(300), Link: photonic.DefaultLink, Message: photonic.DefaultMessage}
		if err := in.Draw(c.sizes, photonic.ZipfFactor, 1); err != nil {
			t.Fatal(err)
		}
		p, err := photonic.Make(ctx, in, photonic.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sum := checkChart(t, photonicChart(in, p))
		if !near(sum[1], float64(c.degree)*p.Sum.US()/1000) || !near(sum[0], float64(c.degree*len(p.Topologies))*0.3) {
			t.Errorf("%+v: topologies are kept for %v ms: %v", c, p.Sum.US()/1000, sum)
		}
	}
	n, err := liquid.SwissT1()
	if err != nil {
		t.Fatal(err)
	}
	for _, alloc := range [][]int{n.Capacity(), {1, 1, 0, 0, 0, 0, 0, 0}, {4, 4, 0, 3, 1, 4, 2, 4}} {
		traffic, err := n.AllocatedAllToAll(alloc)
		if err != nil {
			t.Fatal(err)
		}
		for _, method := range []liquid.Method{liquid.MethodAuto, liquid.MethodRandom} {
			r, err := liquid.Make(ctx, traffic, liquid.Options{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			of := &transfers{traffic: traffic, network: n}
			c := liquidChart(traffic, liquid.NewReport(traffic, r), r.Schedule, of.linkName)
			want := float64(traffic.Duration() * len(traffic.Bottlenecks()))
			if sum := checkChart(t, c); len(traffic.Bottlenecks()) <= mostRows && !near(sum[1], want) {
				t.Errorf("%v: bottlenecks are in use for %v steps, want %v", alloc, sum[1], want)
			}
		}
	}
	for _, servers := range []int{2, 5, 20} {
		traffic, err := gpu.Generate(gpu.Cluster{Servers: servers, GPUs: 4}, gpu.MoE, 1<<20, 0.7, 1)
		if err != nil {
			t.Fatal(err)
		}
		var planner gpu.Planner
		p, err := planner.Plan(ctx, traffic, gpu.Options{Mode: gpu.Bytes})
		if err != nil {
			t.Fatal(err)
		}
		if sum, stages := checkChart(t, gpuChart(p, gpu.DefaultModel)), gpu.DefaultModel.Predict(p).Stages*1000; !near(sum[1], stages) || sum[2] > stages*float64(p.Ranks())*1.01 {
			t.Errorf("%d servers: stages take %v ms: %v", servers, stages, sum)
		}
	}
}
