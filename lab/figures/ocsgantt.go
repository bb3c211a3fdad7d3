package figures

import (
	"context"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/optical/ocs"
)

// ocsGantt is the Spectra paper's example of two switches, its Fig. 4, before and
// after Equalize.
var ocsGantt = chart.Set{
	Name:    "ocs-gantt",
	Measure: measureGantt,
	Figures: []chart.Figure{{Name: "ocs-fig4", Width: 9.6 * vg.Inch, Height: 3 * vg.Inch, Draw: drawGantt}},
}

// ganttStages are the schedules of the example.
var ganttStages = []struct {
	name    string
	options ocs.Options
}{
	{"(a) Schedule", ocs.Options{Method: ocs.Fast, NoEqualize: true}},
	{"(b) Equalize", ocs.Options{Method: ocs.Fast}},
}

// ganttWeights are those of the example's three permutations.
var ganttWeights = []float64{.61, .3, .1}

// measureGantt schedules a matrix of four racks that is the example's three
// permutations: rack i to i+1, to i+2 and to i+3.
func measureGantt(ctx context.Context, _ chart.Step) (*chart.Table, error) {
	const racks = 4
	entries := make([]float64, racks*racks)
	for i := range racks {
		for p, weight := range ganttWeights {
			entries[i*racks+(i+p+1)%racks] = weight
		}
	}
	d, err := ocs.NewDemand(racks, entries)
	if err != nil {
		return nil, err
	}
	t := chart.NewTable("schedule", "switch", "permutation", "start", "weight", "delta", "makespan")
	for _, stage := range ganttStages {
		o := stage.options
		o.Switches, o.Delta = 2, .01
		s, err := ocs.Make(ctx, d, o)
		if err == nil {
			err = ocs.Replay(d, s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", stage.name, err)
		}
		for h, sw := range s.Switches {
			for _, c := range sw.Configs {
				t.Add(stage.name, h+1, c.Permutation[0], c.Start, c.Weight, s.Delta, s.Makespan())
			}
		}
	}
	return t, nil
}

// bar is a configuration of a switch in a panel.
type bar struct {
	row           float64
	start, weight float64
	delta         float64
	permutation   int
}

// bars draws configurations, each after the dark stripe of its reconfiguration.
type bars []bar

// Plot draws them.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	letters := chart.Lettering(chart.SmallSize, text.XCenter, text.YCenter)
	letters.Color = color.White
	for _, k := range b {
		box := func(from, to float64, fill color.Color) {
			c.FillPolygon(fill, []vg.Point{{X: x(from), Y: y(k.row - .3)}, {X: x(to), Y: y(k.row - .3)}, {X: x(to), Y: y(k.row + .3)}, {X: x(from), Y: y(k.row + .3)}})
		}
		box(k.start-k.delta, k.start, chart.Ink)
		box(k.start, k.start+k.weight, chart.Palette[k.permutation-1])
		if k.weight > .05 { // else the text has no room
			c.FillText(letters, vg.Point{X: x(k.start + k.weight/2), Y: y(k.row)}, fmt.Sprintf("P%d %.3g", k.permutation, k.weight))
		}
	}
}

// drawGantt draws a panel for each schedule.
func drawGantt(c draw.Canvas, t *chart.Table) error {
	width := (c.Max.X - c.Min.X) / vg.Length(len(ganttStages))
	for i, stage := range ganttStages {
		var list bars
		makespan := 0.0
		for k := range t.Len() {
			r := t.Row(k)
			if r.Text("schedule") == stage.name {
				list = append(list, bar{3 - r.Number("switch"), r.Number("start"), r.Number("weight"), r.Number("delta"), int(r.Number("permutation"))})
				makespan = r.Number("makespan")
			}
			if r.Err != nil {
				return r.Err
			}
		}
		p := chart.NewPlot(fmt.Sprintf("time; %s: makespan %.4g", stage.name, makespan), "switch")
		p.Add(list)
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, .65, .4, 2.6
		p.Y.Tick.Marker = plot.ConstantTicks([]plot.Tick{{Value: 2, Label: "1"}, {Value: 1, Label: "2"}})
		left := vg.Length(i) * width
		p.Draw(draw.Crop(c, left+4, left+width-(c.Max.X-c.Min.X)-4, 0, 0))
	}
	return nil
}
