package figures

import (
	"context"
	"fmt"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/lab/baseline"
	"github.com/forsd/forsd/lab/chart"
)

// gpuStages is the number of stages of exchanges, and their length, over the number
// of GPUs.
var gpuStages = chart.Set{
	Name:    "gpu-stages",
	Measure: measureStages,
	Figures: []chart.Figure{{Name: "gpu-stages", Width: 9.6 * vg.Inch, Height: 4.2 * vg.Inch, Draw: drawStages}},
}

// The exchanges: uniform random traffic of 1 MiB a pair on average, on servers of 8
// GPUs.
var stageServers = []int{2, 4, 8, 16, 32, 64, 128}

const (
	stageSeeds   = 20
	stageGPUs    = 8
	paddedUpTo   = 32 // servers; the padded scheme takes seconds beyond
	packetBytes  = 1 << 16
	stageMessage = 1 << 20
)

// stageWays are the ways in which stages are made.
var stageWays = []struct {
	name   string
	upTo   int // servers, 0: all
	stages func(ctx context.Context, p *gpu.Planner, t *gpu.Traffic) (stages int, length int64, err error)
}{
	{"flat König, 64 KiB", 16, func(_ context.Context, _ *gpu.Planner, t *gpu.Traffic) (int, int64, error) {
		packets := &gpu.Traffic{Cluster: t.Cluster, Bytes: make([]int64, len(t.Bytes))}
		for at, v := range t.Bytes {
			packets.Bytes[at] = (v + packetBytes - 1) / packetBytes
		}
		s, err := baseline.FlatKoenig(packets, 1<<20)
		if err != nil {
			return 0, 0, err
		}
		return len(s.Weights), s.Length() * packetBytes, nil
	}},
	{"padded, from scratch", paddedUpTo, func(_ context.Context, _ *gpu.Planner, t *gpu.Traffic) (int, int64, error) {
		s := baseline.Padded(t.Servers, baseline.Servers(t))
		return len(s.Weights), s.Length(), nil
	}},
	{"bytes", 0, serverStages(gpu.Options{})},
	{"bytes, fewest", 0, serverStages(gpu.Options{Fewest: true})},
	{"bytes, stretch 1.02", 0, serverStages(gpu.Options{MaxStretch: 1.02})},
	{"bytes, stretch 1.1", 0, serverStages(gpu.Options{MaxStretch: 1.1})},
}

// serverStages counts those of mode bytes.
func serverStages(o gpu.Options) func(context.Context, *gpu.Planner, *gpu.Traffic) (int, int64, error) {
	return func(ctx context.Context, p *gpu.Planner, t *gpu.Traffic) (int, int64, error) {
		weights, _, err := p.ServerStages(ctx, t, o)
		length := int64(0)
		for _, v := range weights {
			length += v
		}
		return len(weights), length, err
	}
}

// measureStages makes stages in all ways.
func measureStages(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable("gpus", "way", "matrices", "stages", "length_over_bound")
	for i, servers := range stageServers {
		step(i, len(stageServers), fmt.Sprintf("plan for %d GPUs", servers*stageGPUs))
		if err := addStages(ctx, t, servers); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// addStages adds the rows of some servers: means over the matrices.
func addStages(ctx context.Context, t *chart.Table, servers int) error {
	var p gpu.Planner
	for _, way := range stageWays {
		if way.upTo > 0 && servers > way.upTo {
			continue
		}
		stages, length := 0.0, 0.0
		for seed := range uint64(stageSeeds) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			traffic, err := gpu.Generate(gpu.Cluster{Servers: servers, GPUs: stageGPUs}, gpu.Uniform, stageMessage, 0, seed)
			if err != nil {
				return err
			}
			n, l, err := way.stages(ctx, &p, traffic)
			if err != nil {
				return err
			}
			stages += float64(n)
			length += float64(l) / float64(traffic.Bound())
		}
		t.Add(servers*stageGPUs, way.name, stageSeeds, stages/stageSeeds, length/stageSeeds)
	}
	return nil
}

// drawStages draws a panel of the stages and one of the lengths.
func drawStages(c draw.Canvas, t *chart.Table) error {
	stages, lengths := map[string]plotter.XYs{}, map[string]plotter.XYs{}
	for i := range t.Len() {
		r := t.Row(i)
		way, gpus := r.Text("way"), r.Number("gpus")
		stages[way] = append(stages[way], plotter.XY{X: gpus, Y: r.Number("stages")})
		lengths[way] = append(lengths[way], plotter.XY{X: gpus, Y: r.Number("length_over_bound")})
		if r.Err != nil {
			return r.Err
		}
	}
	left := chart.Lines{X: "GPUs, 8 a server", Y: "stages", LogX: true, LogY: true}
	right := chart.Lines{X: "GPUs, 8 a server", Y: "length / Eq. 26", LogX: true, MinY: 1, MaxY: 1.3}
	for i, way := range stageWays {
		colour := chart.Palette[i%len(chart.Palette)]
		left.Lines = append(left.Lines, chart.Line{Name: way.name, Points: stages[way.name], Colour: colour, Dots: true})
		right.Lines = append(right.Lines, chart.Line{Name: way.name, Points: lengths[way.name], Colour: colour, Dots: true})
	}
	p, keys, err := left.Plot()
	if err != nil {
		return err
	}
	q, _, err := right.Plot()
	if err != nil {
		return err
	}
	c = chart.Legend(c, keys...)
	half := (c.Max.X - c.Min.X) / 2
	p.Draw(draw.Crop(c, 0, -half-8, 0, 0))
	q.Draw(draw.Crop(c, half+8, 0, 0, 0))
	return nil
}
