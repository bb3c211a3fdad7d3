package figures

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/lab/chart"
)

// column is the bar of one series in a group.
type column struct {
	height, mark float64 // mark 0: no mark
	refused      bool    // an engine refused; this is its fallback
}

// group is a group of bars, by series.
type group struct {
	name string // lines of text
	bars map[string]column
}

// series are the bars of one name over all groups.
type series struct {
	of, key        string
	colour, number color.Color
	fallback       bool // if it was refused, show the fallback, not a cross
}

// axis is a vertical axis from 0.
type axis struct {
	label     string
	top, step int
}

// barChart is a bar chart: n bars of a width in each group.
type barChart struct {
	*plot.Plot
	groups []group
	width  vg.Length
	n      int
	keys   []chart.Key
}

// newBarChart is a chart with axes and without bars.
func newBarChart(list []group, y axis, n int, width vg.Length) *barChart {
	p := chart.NewPlot("", y.label)
	p.Add(chart.Rules())
	p.Y.Min, p.Y.Max = 0, float64(y.top)
	p.Y.Tick.Marker = plot.ConstantTicks(chart.Ticks(0, y.top, y.step))
	p.X.Tick.Length, p.X.Width = 0, 0
	p.X.Min, p.X.Max = -0.5, float64(len(list))-0.5
	names := make([]plot.Tick, len(list))
	for i, g := range list {
		names[i] = plot.Tick{Value: float64(i), Label: g.name}
	}
	p.X.Tick.Marker = plot.ConstantTicks(names)
	return &barChart{Plot: p, groups: list, width: width, n: n}
}

// place is the offset of bar j from the middle of its group.
func (c *barChart) place(j int) vg.Length {
	return c.width * (vg.Length(j) - vg.Length(c.n-1)/2)
}

// add draws the bars of a series as the j-th of each group that has it. The values are at
// the feet of the bars, away from the marks.
func (c *barChart) add(j int, s series) error {
	values := make(plotter.Values, len(c.groups))
	feet := &chart.Marks{Style: draw.GlyphStyle{Color: s.number}, Size: min(chart.SmallSize, c.width/2)}
	refusals := &chart.Marks{Style: chart.RefusalMark}
	for i, g := range c.groups {
		b, there := g.bars[s.of]
		if !there {
			continue
		}
		at := chart.Mark{X: float64(i), Offset: vg.Point{X: c.place(j), Y: 3}}
		if b.refused && !s.fallback {
			at.Offset.Y = 6
			refusals.List = append(refusals.List, at)
			continue
		}
		values[i] = b.height
		at.Text = fmt.Sprintf("%.0f", b.height)
		feet.List = append(feet.List, at)
	}
	bars, err := plotter.NewBarChart(values, c.width-1)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width, bars.Offset = s.colour, 0, c.place(j)
	c.Add(bars, feet, refusals)
	c.keys = append(c.keys, chart.Key{Text: s.key, Sample: bars})
	return nil
}

// mark draws the marks of a series; at returns the place in the group.
func (c *barChart) mark(style draw.GlyphStyle, of string, at func(column) int) {
	marks := &chart.Marks{Style: style, Size: chart.SmallSize}
	for i, g := range c.groups {
		if b := g.bars[of]; b.mark > 0 {
			marks.List = append(marks.List, chart.Mark{X: float64(i), Y: b.mark, Offset: vg.Point{X: c.place(at(b))}, Text: fmt.Sprintf("%.0f", b.mark)})
		}
	}
	c.Add(marks)
}
