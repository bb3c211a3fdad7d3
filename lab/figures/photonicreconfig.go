package figures

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/optical/photonic"
)

// photonicReconfig is the completion time against the time of a reconfiguration,
// with the number that is chosen, as in Fig. 14 of the paper on reconfigurable
// photonics.
var photonicReconfig = chart.Set{
	Name:    "photonic-reconfig",
	Measure: measureReconfig,
	Figures: []chart.Figure{{Name: "photonic-fig14", Width: 9.6 * vg.Inch, Height: 7 * vg.Inch, Draw: drawReconfig}},
}

// reconfigPanels are the exchanges, with sizes drawn at random around a mean: the
// paper's Figs. 14a, for one and two switches, 14b and 14c.
var reconfigPanels = []struct {
	gpus, degree int
	megabytes    int64
}{{64, 1, 128}, {64, 2, 128}, {64, 1, 64}, {16, 1, 64}}

// reconfigTopologies are the numbers of topologies that are planned.
var reconfigTopologies = []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 32, 63}

// reconfigWays are the published rule, the planner's best, and the alternatives.
var reconfigWays = []string{"paper", "planned", "static", "bvn"}

// reconfigTimes are the R in microseconds: six decades in steps of a quarter.
func reconfigTimes() []float64 {
	var list []float64
	for e := range 25 {
		list = append(list, math.Pow(10, float64(e)/4))
	}
	return list
}

// measureReconfig plans each exchange with every number of topologies.
func measureReconfig(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable("gpus", "degree", "message_mb", "way", "reconfig_us", "reconfigurations", "completion_us")
	steps := len(reconfigPanels) * (len(reconfigTopologies) + 1)
	for i, p := range reconfigPanels {
		n := 0
		err := addReconfig(ctx, t, p.gpus, p.degree, p.megabytes, func(what string) {
			step(i*(len(reconfigTopologies)+1)+n, steps, fmt.Sprintf("%d GPUs, degree %d, %d MB, %s", p.gpus, p.degree, p.megabytes, what))
			n++
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// topologySum is the duration of plans of some topologies without reconfigurations.
type topologySum struct {
	topologies int
	sum        photonic.Time
}

// addReconfig adds the rows of an exchange. The time of the hops does not depend on
// R, so every number of topologies is planned once. The planner's best is that with
// waiting or one of the alternatives.
func addReconfig(ctx context.Context, t *chart.Table, gpus, degree int, megabytes int64, step func(string)) error {
	in := &photonic.Instance{GPUs: gpus, Degree: degree, Link: photonic.DefaultLink, Message: megabytes * 1e6}
	if err := in.Draw("random", 0, 1); err != nil {
		return err
	}
	step("alternatives")
	plans := map[string][]topologySum{}
	baselines, err := photonic.Baselines(ctx, in)
	if err != nil {
		return err
	}
	for _, b := range baselines {
		plans[b.Name] = []topologySum{{len(b.Plan.Topologies), b.Plan.Sum}}
		plans["planned"] = append(plans["planned"], plans[b.Name]...)
	}
	for _, d := range reconfigTopologies {
		step(fmt.Sprintf("d = %d", d))
		if d > (gpus-2+degree)/degree {
			continue
		}
		published, err := papers.Rounds(ctx, in, d, true)
		if err != nil {
			return err
		}
		if published != nil {
			plans["paper"] = append(plans["paper"], topologySum{d, published.Sum})
		}
		p, err := photonic.Make(ctx, in, photonic.Options{Reconfigurations: d, Relabel: true})
		if err != nil {
			return err
		}
		plans["planned"] = append(plans["planned"], topologySum{d, p.Sum})
	}
	for _, way := range reconfigWays {
		for _, us := range reconfigTimes() {
			r := photonic.Micros(us)
			best := plans[way][0]
			for _, p := range plans[way] {
				if photonic.Time(p.topologies)*r+p.sum < photonic.Time(best.topologies)*r+best.sum {
					best = p
				}
			}
			t.Add(gpus, degree, megabytes, way, r.US(), best.topologies, (photonic.Time(best.topologies)*r + best.sum).US())
		}
	}
	return nil
}

// labelledUpTo is the largest number of reconfigurations that is printed below the
// curve: more are too close together.
const labelledUpTo = 8

// drawReconfig draws a panel for each exchange. Numbers below the curve of the planner are the
// numbers of reconfigurations, at their changes.
func drawReconfig(c draw.Canvas, t *chart.Table) error {
	width, height := (c.Max.X-c.Min.X)/2, vg.Length(0)
	for i, at := range reconfigPanels {
		panel := chart.Lines{X: fmt.Sprintf("R in µs; %d GPUs, degree %d, %d MB", at.gpus, at.degree, at.megabytes), Y: "completion in ms", LogX: true, LogY: true}
		low, high := math.Inf(1), 0.0
		chosen := &chart.Marks{Size: 8, Style: draw.GlyphStyle{Color: chart.Vermilion}}
		for k, way := range reconfigWays {
			line := chart.Line{Name: way, Colour: chart.Palette[k], Dots: way == "planned"}
			last := ""
			for j := range t.Len() {
				r := t.Row(j)
				same := r.Number("gpus") == float64(at.gpus) && r.Number("degree") == float64(at.degree) && r.Number("message_mb") == float64(at.megabytes)
				x, y, d := r.Number("reconfig_us"), r.Number("completion_us")/1000, r.Text("reconfigurations")
				if r.Err != nil {
					return r.Err
				}
				if !same || r.Text("way") != way {
					continue
				}
				line.Points = append(line.Points, plotter.XY{X: x, Y: y})
				low, high = min(low, y), max(high, y)
				if n := r.Number("reconfigurations"); way == "planned" && d != last && (last == "" || n <= labelledUpTo) {
					chosen.List = append(chosen.List, chart.Mark{X: x, Y: y, Text: "d=" + d, Offset: vg.Point{Y: -13}})
				}
				last = d
			}
			panel.Lines = append(panel.Lines, line)
		}
		panel.MinY, panel.MaxY = low/2, high
		p, keys, err := panel.Plot()
		if err != nil {
			return err
		}
		p.Add(chosen)
		if i == 0 {
			c = chart.Legend(c, keys...)
			height = (c.Max.Y - c.Min.Y) / 2
		}
		left, top := vg.Length(i%2)*width, vg.Length(i/2)*height
		p.Draw(draw.Crop(c, left+6, left+6-width, height-top+6, -top-6))
	}
	return nil
}
