package figures

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/papers"
)

// gpuFrames is the mean frame length over the rate r0 of Figs. 2 and 3 of the
// hierarchical decomposition's paper.
var gpuFrames = chart.Set{
	Name:    "gpu-frames",
	Measure: measureFrames,
	Figures: []chart.Figure{
		{Name: "gpu-fig2", Width: 9.6 * vg.Inch, Height: 4.2 * vg.Inch, Draw: drawGPUFig2},
		{Name: "gpu-fig3", Width: 6.4 * vg.Inch, Height: 4.2 * vg.Inch, Draw: drawGPUFig3},
	},
}

// The paper's simulation: (n,m) = (8,2), 10^5 slots, of which 10^4 are warm-up.
var (
	frameCluster = gpu.Cluster{Servers: 8, GPUs: 2}
	frameModels  = []struct {
		name        string
		hotspot     bool
		seed        uint64
		first, last int // of the sweep, thousandths
	}{{"U", false, 0, 5, 70}, {"NU", true, 1, 1, 35}}
	frameSchemes = []gpu.Mode{gpu.None, gpu.Paper, gpu.Rails}
)

const (
	frameSlots  = 100_000
	frameWarmup = 10_000
	frameStep   = 5 // thousandths, after the first of the sweep
)

// frameRates are the rates of a sweep.
func frameRates(first, last int) (rates []float64) {
	for v := first; v <= last; v += frameStep - v%frameStep {
		rates = append(rates, float64(v)/1000)
	}
	return rates
}

// measureFrames simulates the sweeps.
func measureFrames(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable("model", "r0", "scheme", "frames", "mean_frame", "max_frame")
	total, done := 0, 0
	for _, m := range frameModels {
		total += len(frameRates(m.first, m.last)) * len(frameSchemes)
	}
	for i, m := range frameModels {
		for _, rate := range frameRates(m.first, m.last) {
			for _, mode := range frameSchemes {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				step(done, total, fmt.Sprintf("simulate Model %s, r0 = %.3f, %s", m.name, rate, mode))
				done++
				if err := addFrames(t, i, rate, mode); err != nil {
					return nil, err
				}
			}
		}
	}
	return t, nil
}

// addFrames adds the row of one simulation.
func addFrames(t *chart.Table, model int, rate float64, mode gpu.Mode) error {
	m := &frameModels[model]
	s := papers.Simulation{Cluster: frameCluster, Hotspot: m.hotspot, Rate: rate, Mode: mode, Slots: frameSlots, Warmup: frameWarmup, Seed: m.seed}
	f, err := s.Run()
	if err != nil {
		return err
	}
	t.Add(m.name, rate, mode, f.Count, f.Mean, f.Max)
	return nil
}

// frameCurves are the points of a scheme and model.
func frameCurves(t *chart.Table) (map[string]map[gpu.Mode]plotter.XYs, error) {
	curves := map[string]map[gpu.Mode]plotter.XYs{"U": {}, "NU": {}}
	for i := range t.Len() {
		r := t.Row(i)
		model, mode, frames, xy := r.Text("model"), gpu.Mode(r.Text("scheme")), r.Number("frames"), plotter.XY{X: r.Number("r0"), Y: r.Number("mean_frame")}
		if r.Err != nil {
			return nil, r.Err
		}
		if curves[model] == nil {
			return nil, fmt.Errorf("%s: row %d: unknown model %q", t.Name, i+1, model)
		}
		if frames > 0 { // beyond saturation no frame ends
			curves[model][mode] = append(curves[model][mode], xy)
		}
	}
	return curves, nil
}

// drawGPUFig2 draws a panel for each model.
func drawGPUFig2(c draw.Canvas, t *chart.Table) error {
	curves, err := frameCurves(t)
	if err != nil {
		return err
	}
	half := (c.Max.X - c.Min.X) / 2
	for i, m := range frameModels {
		l := chart.Lines{X: fmt.Sprintf("Model %s: r₀, packets a slot and pair of GPUs", m.name), Y: "mean frame length, slots", LogY: true, Lines: []chart.Line{
			{Name: "no balancing", Points: curves[m.name][gpu.None], Colour: chart.Vermilion, Dots: true},
			{Name: "Sec. IV balancing (Eq. 11)", Points: curves[m.name][gpu.Paper], Colour: chart.Blue, Dots: true},
			{Name: "Rails, MinMove (Eq. 26)", Points: curves[m.name][gpu.Rails], Colour: chart.Green, Dots: true},
		}}
		p, keys, err := l.Plot()
		if err != nil {
			return err
		}
		if i == 0 {
			c = chart.Legend(c, keys...)
		}
		p.Y.Min, p.Y.Max = 1, 4000
		left, right := vg.Length(0), -half-8
		if i == 1 {
			left, right = half+8, 0
		}
		p.Draw(draw.Crop(c, left, right, 0, 0))
	}
	return nil
}

// drawGPUFig3 lays the balanced curves of both models over each other.
func drawGPUFig3(c draw.Canvas, t *chart.Table) error {
	curves, err := frameCurves(t)
	if err != nil {
		return err
	}
	common := func(points plotter.XYs) (list plotter.XYs) {
		for _, xy := range points {
			if xy.X >= .005 && xy.X <= .035 {
				list = append(list, xy)
			}
		}
		return list
	}
	dash := []vg.Length{4, 4}
	l := chart.Lines{X: "r₀, packets a slot and pair of GPUs", Y: "mean frame length, slots", Lines: []chart.Line{
		{Name: "U, Eq. 11", Points: common(curves["U"][gpu.Paper]), Colour: chart.Blue},
		{Name: "NU, Eq. 11", Points: common(curves["NU"][gpu.Paper]), Colour: chart.Orange, Dashes: dash, Dots: true},
		{Name: "U, Eq. 26", Points: common(curves["U"][gpu.Rails]), Colour: chart.Green},
		{Name: "NU, Eq. 26", Points: common(curves["NU"][gpu.Rails]), Colour: chart.Purple, Dashes: dash, Dots: true},
	}}
	l.MaxY = math.Nextafter(0, 1)
	for _, line := range l.Lines {
		for _, xy := range line.Points {
			l.MaxY = max(l.MaxY, 1.1*xy.Y)
		}
	}
	return l.Draw(c)
}
