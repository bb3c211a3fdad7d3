package figures

import (
	"context"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/scenario"
)

// forsPhases is the number of phases over the bandwidth reduction f for the fat
// trees of the FORS paper's Fig. 7.
var forsPhases = chart.Set{
	Name:    "fors-phases",
	Measure: measurePhases,
	Figures: []chart.Figure{{Name: "fors-fig7", Width: 9.6 * vg.Inch, Height: 4.2 * vg.Inch, Draw: drawFig7}},
}

// fig7 are the fat trees of the figure. The curves of the two with 16 spines are
// the same: one is dashed, and its discs lie in the other's rings.
var fig7 = []struct {
	tree   scenario.Tree
	colour color.Color
	dash   []vg.Length
	glyph  draw.GlyphStyle
}{
	{scenario.Tree{Spines: 8, Leaves: 16}, chart.Orange, nil, draw.GlyphStyle{Color: chart.Orange, Radius: 3, Shape: chart.Disc{}}},
	{scenario.Tree{Spines: 16, Leaves: 16}, chart.Green, nil, draw.GlyphStyle{Color: chart.Green, Radius: 4.6, Shape: chart.Ring{}}},
	{scenario.Tree{Spines: 16, Leaves: 32}, chart.Purple, []vg.Length{4, 4}, draw.GlyphStyle{Color: chart.Purple, Radius: 2.6, Shape: chart.Disc{}}},
	{scenario.LHCb, chart.Blue, nil, draw.GlyphStyle{Color: chart.Blue, Radius: 3, Shape: chart.Disc{}}},
	{scenario.Tree{Spines: 32, Leaves: 32}, chart.Vermilion, nil, draw.GlyphStyle{Color: chart.Vermilion, Radius: 3, Shape: chart.Disc{}}},
}

// measurePhases plans the exchange on each tree.
func measurePhases(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable("tree", "spines", "leaves", "f", "p_f", "phases", "lower_bound")
	for i := range fig7 {
		step(i, len(fig7), "plan "+fig7[i].tree.String())
		if err := addPhases(ctx, t, fig7[i].tree); err != nil {
			return nil, fmt.Errorf("%s: %w", fig7[i].tree, err)
		}
	}
	return t, nil
}

// addPhases adds rows for a tree with f cables of one leaf dead, for every f that
// leaves the leaf a cable.
func addPhases(ctx context.Context, t *chart.Table, tree scenario.Tree) error {
	s := scenario.Scenario{}
	for f := range tree.Spines {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		made, err := scenario.Plan(ctx, tree, &s)
		if err != nil {
			return fmt.Errorf("f = %d: %w", f, err)
		}
		t.Add(tree, tree.Spines, tree.Leaves, f, interLeaf(tree, f), made.Plan.Phases, made.Plan.LowerBound)
		s.Cables = append(s.Cables, scenario.Cable{Leaf: 0, Spine: f})
	}
	return nil
}

// interLeaf is the paper's P_f = ⌈M0(P−M0)/(M0−f)⌉ (section 4), the phases of the
// transfers between leaves.
func interLeaf(t scenario.Tree, f int) int {
	left := t.Spines - f
	return (t.Spines*(t.Servers()-t.Spines) + left - 1) / left
}

// drawFig7 draws two panels: up to the loss of half the bandwidth, and all.
func drawFig7(c draw.Canvas, t *chart.Table) error {
	points := make([]plotter.XYs, len(fig7))
	for i := range t.Len() {
		r := t.Row(i)
		tree, f, phases := r.Text("tree"), r.Number("f"), r.Number("phases")
		if r.Err != nil {
			return r.Err
		}
		if k := slices.IndexFunc(names7(), func(name string) bool { return name == tree }); k >= 0 {
			points[k] = append(points[k], plotter.XY{X: f, Y: phases / float64(interLeaf(fig7[k].tree, 0))})
		}
	}
	var keys []chart.Key
	for i := range fig7 {
		keys = append(keys, chart.Key{Text: fig7[i].tree.String(), Sample: curve(i)})
	}
	keys = append(keys, chart.Key{Text: "paper's formula", Sample: chart.Sample{Style: draw.LineStyle{Color: chart.Ink, Width: 1.4}}}, chart.Key{Text: "forsd's plans", Sample: &chart.Marks{Style: draw.GlyphStyle{Color: chart.Ink, Radius: 3, Shape: chart.Disc{}}}})
	c = chart.Legend(c, keys...)
	half := (c.Max.X - c.Min.X) / 2
	panel7(points, 16, []float64{1, 1.2, 1.4, 1.6, 1.8, 2}, plot.LinearScale{}).Draw(draw.Crop(c, 0, -half-8, 0, 0))
	all := panel7(points, 31, []float64{1, 2, 4, 8, 16, 32}, plot.LogScale{})
	all.Add(chart.Note{X: 16.4, Y: 1.15, Text: "dotted: half the bandwidth is lost"})
	all.Draw(draw.Crop(c, half+8, 0, 0, 0))
	return nil
}

// names7 are the trees' names.
func names7() []string {
	list := make([]string, len(fig7))
	for i := range fig7 {
		list[i] = fig7[i].tree.String()
	}
	return list
}

// curve is the formula P_f/P_0 of a tree, without rounding.
func curve(i int) *plotter.Function {
	m0 := float64(fig7[i].tree.Spines)
	f := plotter.NewFunction(func(f float64) float64 { return m0 / (m0 - f) })
	f.XMin, f.XMax, f.Samples = 0, m0-1, 100
	f.LineStyle = draw.LineStyle{Color: fig7[i].colour, Width: 1.4, Dashes: fig7[i].dash}
	return f
}

// panel7 is a panel with curves and points up to f = last and the highest of the ticks, and
// the lines where half of a tree's bandwidth is lost.
func panel7(points []plotter.XYs, last int, at []float64, scale plot.Normalizer) *plot.Plot {
	p := chart.NewPlot("bandwidth reduction f, dead cables of a leaf", "phases / P₀")
	p.Add(chart.Rules())
	top := at[len(at)-1]
	p.X.Min, p.X.Max = 0, float64(last)
	p.Y.Min, p.Y.Max, p.Y.Scale = 1, top, scale
	p.X.Tick.Marker = plot.ConstantTicks(chart.Ticks(0, last, 4))
	labels := make([]plot.Tick, len(at))
	for i, v := range at {
		labels[i] = plot.Tick{Value: v, Label: fmt.Sprint(v)}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(labels)
	for i := range fig7 {
		m0 := fig7[i].tree.Spines
		f := curve(i)
		for f.XMax > float64(last) || f.F(f.XMax) > top {
			f.XMax -= 0.5
		}
		dots := &chart.Marks{Style: fig7[i].glyph}
		for _, xy := range points[i] {
			if xy.X <= f.XMax {
				dots.List = append(dots.List, chart.Mark{X: xy.X, Y: xy.Y})
			}
		}
		p.Add(&upright{float64(m0) / 2, fig7[i].colour}, f, dots)
	}
	return p
}

// upright is a dotted vertical line up to the value 2.
type upright struct {
	x      float64
	colour color.Color
}

// Plot draws the line.
func (u *upright) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	c.StrokeLine2(draw.LineStyle{Color: u.colour, Width: 1, Dashes: []vg.Length{1.5, 2.5}}, x(u.x), y(1), x(u.x), y(2))
}
