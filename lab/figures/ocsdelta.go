package figures

import (
	"context"
	"fmt"
	"image/color"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/optical/ocs"
)

// ocsDelta is the makespan of every method against δ, for the three workloads of
// the Spectra paper and two numbers of switches: its Figs. 6, 7 and 9.
var ocsDelta = chart.Set{
	Name:    "ocs-delta",
	Measure: measureDelta,
	Figures: []chart.Figure{
		{Name: "ocs-fig6", Width: 9.6 * vg.Inch, Height: 7.6 * vg.Inch, Draw: drawDelta(ocsCurves, "gpt", "moe")},
		{Name: "ocs-fig7", Width: 9.6 * vg.Inch, Height: 7.6 * vg.Inch, Draw: drawDelta(equalizeCurves, "gpt", "moe")},
		{Name: "ocs-fig9", Width: 9.6 * vg.Inch, Height: 4.2 * vg.Inch, Draw: drawDelta(ocsCurves, "benchmark")},
	},
}

// ocsNoise is the makespan of Spectra and its variant by Eclipse with noise of 0.3 % and
// 1 %, the paper's Fig. 8.
var ocsNoise = chart.Set{
	Name:    "ocs-noise",
	Measure: measureNoise,
	Figures: []chart.Figure{{Name: "ocs-fig8", Width: 9.6 * vg.Inch, Height: 7.6 * vg.Inch, Draw: drawDelta(noiseCurves, "gpt", "moe")}},
}

// ocsFlows is the same against the number of flows of the benchmark workload: the
// paper's Fig. 10.
var ocsFlows = chart.Set{
	Name:    "ocs-flows",
	Measure: measureFlows,
	Figures: []chart.Figure{{Name: "ocs-fig10", Width: 9.6 * vg.Inch, Height: 4.2 * vg.Inch, Draw: drawFlows}},
}

const (
	ocsMatrices   = 10
	ocsSteps      = 20_000 // of method best
	ocsFlowsDelta = .04
)

var (
	ocsDeltas       = []float64{.001, .002, .005, .01, .02, .04, .07, .1}
	ocsSwitches     = []int{2, 4}
	ocsFlowSwitches = []int{4, 8}
	ocsFlowNumbers  = []int{4, 8, 12, 16, 20, 24, 28, 32}
)

// ocsWays are the ways to schedule, by column.
var ocsWays = []struct {
	column  string
	options ocs.Options
}{
	{"fast", ocs.Options{Method: ocs.Fast}},
	{"fast_not_equalized", ocs.Options{Method: ocs.Fast, NoEqualize: true}},
	{"eclipse", ocs.Options{Method: ocs.Eclipse, Levels: papers.ReferenceLevels}},
	{"less", ocs.Options{Method: papers.Less}},
	{"best", ocs.Options{Method: ocs.Best, Steps: ocsSteps}},
}

// ocsCurve is a column of makespans as a curve.
type ocsCurve struct {
	column, name string
	colour       color.Color
	dashes       []vg.Length
}

var (
	ocsCurves = []ocsCurve{
		{"sharp_bound", "lower bound", chart.Ink, []vg.Length{3, 3}},
		{"fast", "Spectra (fast)", chart.Palette[0], nil},
		{"eclipse", "Spectra (Eclipse)", chart.Palette[3], nil},
		{"less", "baseline (LESS)", chart.Palette[1], nil},
		{"best", "best", chart.Palette[2], nil},
	}
	equalizeCurves = []ocsCurve{
		{"paper_bound", "lower bound", chart.Ink, []vg.Length{3, 3}},
		{"fast", "Spectra", chart.Palette[0], nil},
		{"fast_not_equalized", "without Equalize", chart.Palette[1], nil},
	}
	noiseCurves = []ocsCurve{
		{"fast_0.003", "Spectra, 0.3 %", chart.Palette[0], []vg.Length{3, 3}},
		{"fast_0.01", "Spectra, 1 %", chart.Palette[0], nil},
		{"eclipse_0.003", "Eclipse, 0.3 %", chart.Palette[3], []vg.Length{3, 3}},
		{"eclipse_0.01", "Eclipse, 1 %", chart.Palette[3], nil},
	}
)

// ocsColumns are the columns of makespans and bounds.
func ocsColumns(first ...string) []string {
	for _, w := range ocsWays {
		first = append(first, w.column)
	}
	return append(first, "paper_bound", "sharp_bound")
}

// measureDelta schedules all.
func measureDelta(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable(ocsColumns("workload", "switches", "delta", "matrices")...)
	done, all := 0, len(ocs.Workloads)*len(ocsSwitches)*len(ocsDeltas)
	for _, w := range ocs.Workloads {
		for _, s := range ocsSwitches {
			for _, δ := range ocsDeltas {
				step(done, all, fmt.Sprintf("schedule %s, %d switches, δ = %g", w.Name, s, δ))
				if err := addMakespans(ctx, t, []any{w.Name, s, δ, ocsMatrices}, w.Name, 0, s, δ); err != nil {
					return nil, err
				}
				done++
			}
		}
	}
	return t, nil
}

// measureFlows schedules the benchmark workload with other numbers of flows.
func measureFlows(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable(ocsColumns("workload", "switches", "flows", "matrices")...)
	for i, s := range ocsFlowSwitches {
		for k, m := range ocsFlowNumbers {
			step(i*len(ocsFlowNumbers)+k, len(ocsFlowSwitches)*len(ocsFlowNumbers), fmt.Sprintf("schedule %d flows, %d switches", m, s))
			if err := addMakespans(ctx, t, []any{"benchmark", s, m, ocsMatrices}, "benchmark", m, s, ocsFlowsDelta); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// addMakespans adds a row of mean makespans. Every schedule is replayed.
func addMakespans(ctx context.Context, t *chart.Table, fields []any, workload string, flows, s int, δ float64) error {
	var of [ocsMatrices][]float64
	if _, err := parallel.Each(ctx, len(of), len(of), func(int) func(int) error {
		return func(seed int) (err error) {
			of[seed], err = makespans(ctx, workload, flows, s, δ, uint64(seed)+1)
			return err
		}
	}); err != nil {
		return err
	}
	sums := make([]float64, len(ocsWays)+2)
	for _, list := range of {
		for i, x := range list {
			sums[i] += x
		}
	}
	for _, x := range sums {
		fields = append(fields, x/ocsMatrices)
	}
	t.Add(fields...)
	return nil
}

// makespans are those of a matrix by all ways, and its bounds.
func makespans(ctx context.Context, workload string, flows, s int, δ float64, seed uint64) ([]float64, error) {
	d, err := ocs.Workload(workload, 0, flows, seed)
	if err != nil {
		return nil, err
	}
	var list []float64
	for _, w := range ocsWays {
		makespan, err := makespanOf(ctx, d, w.options, s, δ)
		if err != nil {
			return nil, fmt.Errorf("%s of seed %d by %s: %w", workload, seed, w.column, err)
		}
		list = append(list, makespan)
	}
	b := ocs.Bound(d, s, δ)
	return append(list, b.Paper, b.Sharp), nil
}

// makespanOf is the makespan of a schedule, which is replayed.
func makespanOf(ctx context.Context, d *ocs.Demand, o ocs.Options, s int, δ float64) (float64, error) {
	o.Switches, o.Delta = s, δ
	made, err := papers.Schedule(ctx, d, o)
	if err != nil {
		return 0, err
	}
	return made.Makespan(), ocs.Replay(d, made)
}

// measureNoise schedules gpt and moe with more noise.
func measureNoise(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable("workload", "switches", "delta", "matrices", "fast_0.003", "eclipse_0.003", "fast_0.01", "eclipse_0.01")
	for i, name := range []string{"gpt", "moe"} {
		step(i, 2, "schedule "+name+" with noise")
		for _, s := range ocsSwitches {
			for _, δ := range ocsDeltas {
				if err := addNoise(ctx, t, name, s, δ); err != nil {
					return nil, err
				}
			}
		}
	}
	return t, nil
}

// addNoise adds a row of mean makespans.
func addNoise(ctx context.Context, t *chart.Table, name string, s int, δ float64) error {
	w, err := ocs.Named(name)
	if err != nil {
		return err
	}
	fields := []any{name, s, δ, ocsMatrices}
	for _, w.Noise = range []float64{.003, .01} {
		for _, way := range []int{0, 2} { // of ocsWays
			mean := 0.0
			for seed := range uint64(ocsMatrices) {
				d, err := w.Demand(seed + 1)
				if err != nil {
					return err
				}
				makespan, err := makespanOf(ctx, d, ocsWays[way].options, s, δ)
				if err != nil {
					return fmt.Errorf("%s of seed %d: %w", name, seed+1, err)
				}
				mean += makespan / ocsMatrices
			}
			fields = append(fields, mean)
		}
	}
	t.Add(fields...)
	return nil
}

// ocsLines are the curves of one workload and number of switches over a column.
func ocsLines(t *chart.Table, curves []ocsCurve, workload string, s int, over string) (*chart.Lines, error) {
	l := &chart.Lines{Y: fmt.Sprintf("makespan, %d switches", s)}
	for _, c := range curves {
		l.Lines = append(l.Lines, chart.Line{Name: c.name, Colour: c.colour, Dashes: c.dashes, Dots: c.dashes == nil})
	}
	for i := range t.Len() {
		r := t.Row(i)
		if r.Text("workload") != workload || r.Number("switches") != float64(s) {
			continue
		}
		for k, c := range curves {
			l.Lines[k].Points = append(l.Lines[k].Points, plotter.XY{X: r.Number(over), Y: r.Number(c.column)})
		}
		if r.Err != nil {
			return nil, r.Err
		}
	}
	return l, nil
}

// drawDelta draws a row of two panels, one for each number of switches, for each
// workload.
func drawDelta(curves []ocsCurve, workloads ...string) func(draw.Canvas, *chart.Table) error {
	return func(c draw.Canvas, t *chart.Table) error {
		rows := make([][]*chart.Lines, len(workloads))
		for i, w := range workloads {
			for _, s := range ocsSwitches {
				l, err := ocsLines(t, curves, w, s, "delta")
				if err != nil {
					return err
				}
				l.X = fmt.Sprintf("δ, workload %s", w)
				rows[i] = append(rows[i], l)
			}
		}
		return drawPanels(c, rows)
	}
}

func drawFlows(c draw.Canvas, t *chart.Table) error {
	var row []*chart.Lines
	for _, s := range ocsFlowSwitches {
		l, err := ocsLines(t, ocsCurves, "benchmark", s, "flows")
		if err != nil {
			return err
		}
		l.X = fmt.Sprintf("flows of a rack, δ = %g", ocsFlowsDelta)
		row = append(row, l)
	}
	return drawPanels(c, [][]*chart.Lines{row})
}

// drawPanels draws panels in rows, under the legend of the first.
func drawPanels(c draw.Canvas, rows [][]*chart.Lines) error {
	for i, row := range rows {
		for k, l := range row {
			p, keys, err := l.Plot()
			if err != nil {
				return err
			}
			p.Y.Min = 0
			if i == 0 && k == 0 {
				c = chart.Legend(c, keys...)
			}
			width, height := (c.Max.X-c.Min.X)/vg.Length(len(row)), (c.Max.Y-c.Min.Y)/vg.Length(len(rows))
			left, top := vg.Length(k)*width, vg.Length(i)*height
			p.Draw(draw.Crop(c, left+4, left+width-(c.Max.X-c.Min.X)-4, (c.Max.Y-c.Min.Y)-top-height+4, -top-4))
		}
	}
	return nil
}
