package figures

import (
	"context"
	"fmt"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/liquid"
)

// liquidSchedules is the throughput of all-to-all exchanges on the 363
// sub-topologies of the Swiss-T1 cluster, as in Figs. 5, 6, 9 and 11 of the paper on
// liquid schedules.
var liquidSchedules = chart.Set{
	Name:    "liquid",
	Measure: measureLiquid,
	Figures: []chart.Figure{
		{Name: "liquid-fig5", Width: 9.6 * vg.Inch, Height: 3.8 * vg.Inch, Draw: drawLiquidNodes},
		{Name: "liquid-fig6", Width: 9.6 * vg.Inch, Height: 3.8 * vg.Inch, Draw: drawLiquidOver("round-robin", "round_robin")},
		{Name: "liquid-fig9", Width: 9.6 * vg.Inch, Height: 3.8 * vg.Inch, Draw: drawLiquidOver("schedule found, verified", "steps")},
		{Name: "liquid-fig11", Width: 9.6 * vg.Inch, Height: 3.8 * vg.Inch, Draw: drawLiquidOver("Dsatur", "dsatur")},
	},
}

// measureLiquid schedules a representative of every class, in the paper's order.
func measureLiquid(ctx context.Context, step chart.Step) (*chart.Table, error) {
	n, err := liquid.SwissT1()
	if err != nil {
		return nil, err
	}
	classes, err := papers.Classes(n)
	if err != nil {
		return nil, err
	}
	t := chart.NewTable("sub_topology", "nodes", "allocation", "transfers", "duration", "steps", "method", "round_robin", "dsatur", "random", "link_mbps")
	for i, c := range classes {
		if i%20 == 0 {
			step(i, len(classes), fmt.Sprintf("schedule sub-topologies of %d nodes", c.Nodes))
		}
		if c.Nodes == 0 {
			continue
		}
		traffic, err := n.AllocatedAllToAll(c.Allocation)
		if err != nil {
			return nil, err
		}
		r, err := liquid.Make(ctx, traffic, liquid.Options{})
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		others, err := liquid.Others(ctx, traffic, 0)
		if err != nil {
			return nil, err
		}
		t.Add(i, c.Nodes, strings.Trim(fmt.Sprint(c.Allocation), "[]"), traffic.Len(), c.Duration, len(r.Schedule), r.Method,
			others[liquid.MethodRoundRobin], others[liquid.MethodDsatur], others[liquid.MethodRandom], n.Rate)
	}
	return t, nil
}

// mbps is the aggregate throughput of a row in MB/s, with its steps in a
// column.
func mbps(r *chart.Row, column string) float64 {
	return r.Number("transfers") / r.Number(column) * r.Number("link_mbps")
}

// drawLiquidNodes draws the liquid throughput over the nodes (Fig. 5).
func drawLiquidNodes(c draw.Canvas, t *chart.Table) error {
	panel := chart.Lines{X: "nodes", Y: "liquid throughput, MB/s"}
	var points plotter.XYs
	for i := range t.Len() {
		r := t.Row(i)
		points = append(points, plotter.XY{X: r.Number("nodes"), Y: mbps(r, "duration")})
		if r.Err != nil {
			return r.Err
		}
	}
	panel.Lines = []chart.Line{{Name: "a sub-topology", Points: points, Dots: true, Bare: true}}
	return panel.Draw(c)
}

// drawLiquidOver draws the throughput of a method over the sub-topologies, with the
// liquid one (Figs. 6, 9 and 11).
func drawLiquidOver(name, column string) func(draw.Canvas, *chart.Table) error {
	return func(c draw.Canvas, t *chart.Table) error {
		var bound, points plotter.XYs
		for i := range t.Len() {
			r := t.Row(i)
			x := r.Number("sub_topology")
			bound, points = append(bound, plotter.XY{X: x, Y: mbps(r, "duration")}), append(points, plotter.XY{X: x, Y: mbps(r, column)})
			if r.Err != nil {
				return r.Err
			}
		}
		panel := chart.Lines{X: "sub-topologies, by nodes and then by liquid throughput", Y: "throughput, MB/s", Lines: []chart.Line{
			{Name: name, Points: points, Dots: true, Bare: true, Colour: chart.Vermilion},
			{Name: "liquid throughput", Points: bound, Colour: chart.Blue},
		}}
		return panel.Draw(c)
	}
}
