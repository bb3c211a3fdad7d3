package chart

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// RefusalMark marks the refusal of an engine, PaperMark a value reported by a paper.
var (
	RefusalMark = draw.GlyphStyle{Color: Vermilion, Radius: 3.2, Shape: Strokes{}}
	PaperMark   = draw.GlyphStyle{Color: Ink, Radius: 4, Shape: Diamond{}}
)

// Mark is a glyph at an offset from a point, with a text above it.
type Mark struct {
	X, Y   float64
	Offset vg.Point
	Text   string
}

// Marks are glyphs of one style. Without a shape only the texts are drawn, from
// the point upwards, in the style's colour.
type Marks struct {
	List  []Mark
	Style draw.GlyphStyle
	Size  vg.Length // of the texts
}

// Plot draws the glyphs and texts.
func (m *Marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	letters := Lettering(m.Size, text.XCenter, text.YBottom)
	for _, k := range m.List {
		at := vg.Point{X: x(k.X), Y: y(k.Y)}.Add(k.Offset)
		if m.Style.Shape == nil {
			letters.Color = m.Style.Color
		} else {
			c.DrawGlyphNoClip(m.Style, at)
			at.Y += m.Style.Radius + 2
		}
		if k.Text != "" {
			c.FillText(letters, at, k.Text)
		}
	}
}

// Thumbnail draws the sample for a legend.
func (m *Marks) Thumbnail(c *draw.Canvas) { c.DrawGlyphNoClip(m.Style, c.Center()) }

// Note is a text at a point, to its right.
type Note struct {
	X, Y float64
	Text string
}

// Plot draws the text.
func (n Note) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	c.FillText(Lettering(SmallSize, text.XLeft, text.YCenter), vg.Point{X: x(n.X), Y: y(n.Y)}, n.Text)
}

// Diamond is a filled diamond with a white edge, so that it shows on bars.
type Diamond struct{}

// DrawGlyph draws the diamond.
func (Diamond) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	shape := func(r vg.Length) []vg.Point {
		return []vg.Point{{X: at.X - r, Y: at.Y}, {X: at.X, Y: at.Y + r}, {X: at.X + r, Y: at.Y}, {X: at.X, Y: at.Y - r}}
	}
	c.FillPolygon(color.White, shape(style.Radius+1.4))
	c.FillPolygon(style.Color, shape(style.Radius))
}

// Disc is a filled circle with a white edge.
type Disc struct{}

// DrawGlyph draws the circle.
func (Disc) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	draw.CircleGlyph{}.DrawGlyph(c, draw.GlyphStyle{Color: color.White, Radius: style.Radius + 0.7}, at)
	draw.CircleGlyph{}.DrawGlyph(c, style, at)
}

// Ring is a circle of a bold stroke.
type Ring struct{}

// DrawGlyph draws the circle.
func (Ring) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	c.SetLineStyle(draw.LineStyle{Color: style.Color, Width: 1.2})
	var p vg.Path
	p.Move(vg.Point{X: at.X + style.Radius, Y: at.Y})
	p.Arc(at, style.Radius, 0, 2*math.Pi)
	p.Close()
	c.Stroke(p)
}

// Strokes is a cross of two bold strokes.
type Strokes struct{}

// DrawGlyph draws the cross.
func (Strokes) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	r, line := style.Radius, draw.LineStyle{Color: style.Color, Width: 1.6}
	c.StrokeLine2(line, at.X-r, at.Y-r, at.X+r, at.Y+r)
	c.StrokeLine2(line, at.X-r, at.Y+r, at.X+r, at.Y-r)
}

// Ticks are labelled ticks from low to high.
func Ticks(low, high, step int) (list []plot.Tick) {
	for v := low; v <= high; v += step {
		list = append(list, plot.Tick{Value: float64(v), Label: fmt.Sprint(v)})
	}
	return list
}
