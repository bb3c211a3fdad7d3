package chart

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Palette are the colours of curves, in the order in which they are taken.
var Palette = []color.Color{Blue, Vermilion, Green, Orange, Purple, SkyBlue, Ink}

// Line is a curve through points, or the points alone.
type Line struct {
	Name   string // in the legend, unless it is empty
	Points plotter.XYs
	Colour color.Color // nil takes the next of the palette
	Dashes []vg.Length // nil: a solid line
	Dots   bool        // discs at the points
	Bare   bool        // no curve
}

// Lines is a panel of curves over two axes.
type Lines struct {
	X, Y       string // the axes' labels, with units
	LogX, LogY bool
	MinY, MaxY float64 // both 0: what the points need
	Lines      []Line
}

// Draw draws the panel with a legend above it.
func (l *Lines) Draw(c draw.Canvas) error {
	p, keys, err := l.Plot()
	if err != nil {
		return err
	}
	p.Draw(Legend(c, keys...))
	return nil
}

// Plot is the panel without its legend, whose keys it returns.
func (l *Lines) Plot() (*plot.Plot, []Key, error) {
	p := NewPlot(l.X, l.Y)
	p.Add(Rules())
	var keys []Key
	for i, line := range l.Lines {
		if line.Colour == nil {
			line.Colour = Palette[i%len(Palette)]
		}
		key, err := line.add(p)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", line.Name, err)
		}
		if line.Name != "" {
			keys = append(keys, Key{line.Name, key})
		}
	}
	if l.MinY != 0 || l.MaxY != 0 {
		p.Y.Min, p.Y.Max = l.MinY, l.MaxY
	}
	if l.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if l.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	return p, keys, nil
}

// add puts the curve into a plot and returns its sample for the legend.
func (l *Line) add(p *plot.Plot) (plot.Thumbnailer, error) {
	dots := &Marks{Style: draw.GlyphStyle{Color: l.Colour, Radius: 2.6, Shape: Disc{}}}
	for _, xy := range l.Points {
		dots.List = append(dots.List, Mark{X: xy.X, Y: xy.Y})
	}
	// The curve gives the axes their ranges, even if it is not drawn.
	curve, err := plotter.NewLine(l.Points)
	if err != nil {
		return nil, err
	}
	curve.LineStyle = draw.LineStyle{Color: l.Colour, Width: 1.4, Dashes: l.Dashes}
	if l.Bare {
		curve.Width = 0
	}
	p.Add(curve)
	if l.Dots || l.Bare {
		p.Add(dots)
	}
	if l.Bare {
		return dots, nil
	}
	return Sample{curve.LineStyle}, nil
}

// Sample is the sample of a curve for a legend.
type Sample struct{ Style draw.LineStyle }

// Thumbnail draws the sample.
func (s Sample) Thumbnail(c *draw.Canvas) {
	y := c.Center().Y
	c.StrokeLine2(s.Style, c.Min.X, y, c.Max.X, y)
}
