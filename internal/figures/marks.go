package main

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// refusalMark stands where an engine refuses, paperMark for what a paper reports.
var (
	refusalMark = draw.GlyphStyle{Color: vermilion, Radius: 3.2, Shape: strokes{}}
	paperMark   = draw.GlyphStyle{Color: ink, Radius: 4, Shape: diamond{}}
)

// mark is a glyph at an offset from a point, with a text above it.
type mark struct {
	x, y   float64
	offset vg.Point
	text   string
}

// marks are glyphs of one style. Without a shape only the texts are drawn, from
// the point upwards, in the style's colour.
type marks struct {
	list  []mark
	style draw.GlyphStyle
	size  vg.Length // of the texts
}

// Plot draws the glyphs and texts.
func (m *marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	letters := lettering(m.size, text.XCenter, text.YBottom)
	for _, k := range m.list {
		at := vg.Point{X: x(k.x), Y: y(k.y)}.Add(k.offset)
		if m.style.Shape == nil {
			letters.Color = m.style.Color
		} else {
			c.DrawGlyphNoClip(m.style, at)
			at.Y += m.style.Radius + 2
		}
		if k.text != "" {
			c.FillText(letters, at, k.text)
		}
	}
}

// Thumbnail draws the sample for a legend.
func (m *marks) Thumbnail(c *draw.Canvas) { c.DrawGlyphNoClip(m.style, c.Center()) }

// note is a text at a point, to its right.
type note struct {
	x, y float64
	text string
}

// Plot draws the text.
func (n note) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	c.FillText(lettering(smallSize, text.XLeft, text.YCenter), vg.Point{X: x(n.x), Y: y(n.y)}, n.text)
}

// diamond is a filled diamond with a white edge, so that it shows on bars.
type diamond struct{}

// DrawGlyph draws the diamond.
func (diamond) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	shape := func(r vg.Length) []vg.Point {
		return []vg.Point{{X: at.X - r, Y: at.Y}, {X: at.X, Y: at.Y + r}, {X: at.X + r, Y: at.Y}, {X: at.X, Y: at.Y - r}}
	}
	c.FillPolygon(color.White, shape(style.Radius+1.4))
	c.FillPolygon(style.Color, shape(style.Radius))
}

// disc is a filled circle with a white edge.
type disc struct{}

// DrawGlyph draws the circle.
func (disc) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	draw.CircleGlyph{}.DrawGlyph(c, draw.GlyphStyle{Color: color.White, Radius: style.Radius + 0.7}, at)
	draw.CircleGlyph{}.DrawGlyph(c, style, at)
}

// ring is a circle of a bold stroke.
type ring struct{}

// DrawGlyph draws the circle.
func (ring) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	c.SetLineStyle(draw.LineStyle{Color: style.Color, Width: 1.2})
	var p vg.Path
	p.Move(vg.Point{X: at.X + style.Radius, Y: at.Y})
	p.Arc(at, style.Radius, 0, 2*math.Pi)
	p.Close()
	c.Stroke(p)
}

// strokes is a cross of two bold strokes.
type strokes struct{}

// DrawGlyph draws the cross.
func (strokes) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	r, line := style.Radius, draw.LineStyle{Color: style.Color, Width: 1.6}
	c.StrokeLine2(line, at.X-r, at.Y-r, at.X+r, at.Y+r)
	c.StrokeLine2(line, at.X-r, at.Y+r, at.X+r, at.Y-r)
}

// ticks are labelled ticks from low to high.
func ticks(low, high, step int) (list []plot.Tick) {
	for v := low; v <= high; v += step {
		list = append(list, plot.Tick{Value: float64(v), Label: fmt.Sprint(v)})
	}
	return list
}
