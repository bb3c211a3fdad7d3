package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours of M. Okabe and K. Ito, "Color Universal Design" (2008), which
// differ for every kind of colour vision.
var (
	Ink       = color.RGBA{0x22, 0x22, 0x22, 0xff}
	Faint     = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	Orange    = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	SkyBlue   = color.RGBA{0x56, 0xb4, 0xe9, 0xff}
	Green     = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	Blue      = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	Vermilion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	Purple    = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
)

// The sizes of text.
const (
	TextSize  = 11
	SmallSize = 9
)

// DPI is the resolution of the PNGs: twice that of most screens at the width of a
// README.
const DPI = 160

// Formats are the forms in which every figure is drawn.
var Formats = []string{"svg", "png"}

// Typeface is the font that comes with the drawing library, so that a picture is
// the same on every machine.
func Typeface(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// Lettering is the style of text of a size, aligned to a point.
func Lettering(size vg.Length, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{Color: Ink, Font: Typeface(size), XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// Render draws the figure of the table in one of the formats.
func (f *Figure) Render(t *Table, format string) ([]byte, error) {
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch format {
	case "svg":
		canvas = vgsvg.New(f.Width, f.Height)
	case "png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.Width, f.Height), vgimg.UseDPI(DPI))}
	default:
		return nil, fmt.Errorf("unknown format %q", format)
	}
	c := draw.New(canvas)
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	if err := f.Draw(draw.Crop(c, margin, -margin, margin, -margin), t); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// If the font is not installed, one with the same metrics usually is.
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), nil
}

const margin vg.Length = 6

// NewPlot is a plot in the style of all figures, without a legend of its own: see
// Legend.
func NewPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Tick.Label.Font = Typeface(TextSize), Typeface(SmallSize)
		axis.Label.TextStyle.Color, axis.Tick.Label.Color, axis.Color = Ink, Ink, Ink
	}
	p.Y.Padding, p.X.Padding = 0, 0
	return p
}

// Rules are horizontal lines at the ticks of the y axis.
func Rules() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color = nil
	g.Horizontal = draw.LineStyle{Color: Faint, Width: 0.7}
	return g
}

// Key is an entry of a legend: a sample and its meaning.
type Key struct {
	Text   string
	Sample plot.Thumbnailer
}

const (
	sampleWidth vg.Length = 18
	keyHeight   vg.Length = 18
)

// Legend draws the keys in a row along the top of the canvas, above all data, and
// returns the rest of the canvas.
func Legend(c draw.Canvas, keys ...Key) draw.Canvas {
	style := Lettering(10, text.XLeft, text.YCenter)
	x, y := c.Min.X, c.Max.Y-keyHeight/2
	for _, k := range keys {
		width := sampleWidth + 5 + style.Width(k.Text)
		if x > c.Min.X && x+width > c.Max.X {
			x, y = c.Min.X, y-keyHeight
		}
		sample := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: x, Y: y - 5}, Max: vg.Point{X: x + sampleWidth, Y: y + 5}}}
		k.Sample.Thumbnail(&sample)
		c.FillText(style, vg.Point{X: x + sampleWidth + 5, Y: y}, k.Text)
		x += width + 16
	}
	return draw.Crop(c, 0, 0, 0, y-keyHeight/2-4-c.Max.Y)
}
