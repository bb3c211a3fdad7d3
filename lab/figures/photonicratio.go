package figures

import (
	"context"
	"fmt"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/optical/photonic"
)

// photonicRatio is the hop sum over its lower bound, as in Fig. 13 of the paper on
// reconfigurable photonics.
var photonicRatio = chart.Set{
	Name:    "photonic-ratio",
	Measure: measureRatios,
	Figures: []chart.Figure{
		{Name: "photonic-fig13a", Width: 9.6 * vg.Inch, Height: 3.6 * vg.Inch, Draw: drawWorstRatio},
		{Name: "photonic-fig13b", Width: 9.6 * vg.Inch, Height: 4 * vg.Inch, Draw: drawHopSums},
	},
}

// The planned cases: the worst ratio for each number of GPUs, and all hop sums for
// two of them.
var (
	ratioGPUs = []int{4, 6, 8, 12, 16, 24, 32, 48, 63, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4095, 4096}
	shownGPUs = []int{32, 512}
)

// mostCarry is the largest number of topologies of the search with waiting.
const mostCarry = 64

// ratioWays are the ways to choose shifts, with the bound of each.
var ratioWays = []struct {
	name  string
	upTo  int // GPUs
	sums  func(ctx context.Context, n int) ([]int, error)
	bound func(n, d int) int
}{
	{"paper's order", 4096, func(_ context.Context, n int) ([]int, error) {
		return papers.PowerSums(n, papers.PaperShifts(n)), nil
	}, papers.Theorem1},
	{"greedy", 4096, func(_ context.Context, n int) ([]int, error) {
		return papers.PowerSums(n, papers.GreedyShifts(n, n-1)), nil
	}, papers.Theorem1},
	{"carry", 512, func(ctx context.Context, n int) ([]int, error) { return photonic.CarrySums(ctx, n, mostCarry) }, func(n, d int) int { return photonic.HopBound(n, 1, d) }},
}

// measureRatios adds a row for each way, number of GPUs and of topologies; for
// most only the worst ratio.
func measureRatios(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable("way", "gpus", "topologies", "hop_sum", "bound", "ratio", "worst")
	for i, n := range ratioGPUs {
		step(i, len(ratioGPUs), fmt.Sprintf("shifts of %d GPUs", n))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := addRatios(ctx, t, n); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// addRatios adds the rows of a number of GPUs.
func addRatios(ctx context.Context, t *chart.Table, n int) error {
	for _, way := range ratioWays {
		if n > way.upTo {
			continue
		}
		sums, err := way.sums(ctx, n)
		if err != nil {
			return err
		}
		ratio := func(d int) float64 { return float64(sums[d-1]) / float64(way.bound(n, d)) }
		worst := 1
		for d := range sums {
			if ratio(d+1) > ratio(worst) {
				worst = d + 1
			}
		}
		for d := 1; d <= len(sums); d++ {
			if all := n == shownGPUs[0] || n == shownGPUs[1]; all || d == worst {
				t.Add(way.name, n, d, sums[d-1], way.bound(n, d), ratio(d), d == worst)
			}
		}
	}
	return nil
}

// drawWorstRatio draws the worst ratio over n (Fig. 13a).
func drawWorstRatio(c draw.Canvas, t *chart.Table) error {
	panel := chart.Lines{X: "GPUs", Y: "worst hop sum / bound", LogX: true, MinY: 1, MaxY: 9}
	for i, way := range ratioWays {
		line := chart.Line{Name: way.name, Colour: chart.Palette[i], Dots: true}
		for j := range t.Len() {
			r := t.Row(j)
			if r.Text("way") == way.name && r.Text("worst") == "true" {
				line.Points = append(line.Points, plotter.XY{X: r.Number("gpus"), Y: r.Number("ratio")})
			}
			if r.Err != nil {
				return r.Err
			}
		}
		panel.Lines = append(panel.Lines, line)
	}
	return panel.Draw(c)
}

// drawHopSums draws hop sums and bounds over the number of topologies (Fig. 13b).
func drawHopSums(c draw.Canvas, t *chart.Table) error {
	half := (c.Max.X - c.Min.X) / 2
	for i, n := range shownGPUs {
		panel := chart.Lines{X: fmt.Sprintf("reconfigurations d, %d GPUs", n), Y: "hop sum in T", LogX: true, LogY: true}
		for k, way := range ratioWays {
			var sums, bounds plotter.XYs
			for j := range t.Len() {
				r := t.Row(j)
				if r.Text("way") == way.name && r.Number("gpus") == float64(n) {
					d := r.Number("topologies")
					sums, bounds = append(sums, plotter.XY{X: d, Y: r.Number("hop_sum")}), append(bounds, plotter.XY{X: d, Y: r.Number("bound")})
				}
				if r.Err != nil {
					return r.Err
				}
			}
			panel.Lines = append(panel.Lines, chart.Line{Name: way.name, Points: sums, Colour: chart.Palette[k]})
			switch way.name {
			case "greedy":
				panel.Lines = append(panel.Lines, chart.Line{Name: "theorem 1", Points: bounds, Colour: chart.Ink, Dashes: []vg.Length{4, 3}})
			case "carry":
				panel.Lines = append(panel.Lines, chart.Line{Name: "bound with waiting", Points: bounds, Colour: chart.Ink, Dashes: []vg.Length{1.5, 2.5}})
			}
		}
		p, keys, err := panel.Plot()
		if err != nil {
			return err
		}
		rest := chart.Legend(c, keys...)
		if i == 0 {
			p.Draw(draw.Crop(rest, 0, -half-8, 0, 0))
		} else {
			p.Draw(draw.Crop(rest, half+8, 0, 0, 0))
		}
	}
	return nil
}
