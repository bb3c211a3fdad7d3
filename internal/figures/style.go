package main

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
	ink       = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faint     = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	orange    = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	skyBlue   = color.RGBA{0x56, 0xb4, 0xe9, 0xff}
	green     = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	blue      = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	vermilion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	purple    = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
)

// The sizes of text.
const (
	textSize  = 11
	smallSize = 9
)

// dpi is the resolution of the PNGs: twice that of most screens at the width of a
// README.
const dpi = 160

// formats are the forms in which every figure is drawn.
var formats = []string{"svg", "png"}

// typeface is the font that comes with the drawing library, so that a picture is
// the same on every machine.
func typeface(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// lettering is text of a size, aligned to the point where it is drawn.
func lettering(size vg.Length, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{Color: ink, Font: typeface(size), XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// render draws the figure of the table in one of the formats.
func (f *figure) render(t *table, format string) ([]byte, error) {
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch format {
	case "svg":
		canvas = vgsvg.New(f.width, f.height)
	case "png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.width, f.height), vgimg.UseDPI(dpi))}
	default:
		return nil, fmt.Errorf("there is no format %q", format)
	}
	c := draw.New(canvas)
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	if err := f.draw(draw.Crop(c, margin, -margin, margin, -margin), t); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// Where the font is not installed, one with the same metrics mostly is.
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), nil
}

const margin vg.Length = 6

// newPlot is a plot in the style of all figures, without a legend of its own: see
// legend.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Tick.Label.Font = typeface(textSize), typeface(smallSize)
		axis.Label.TextStyle.Color, axis.Tick.Label.Color, axis.Color = ink, ink, ink
	}
	p.Y.Padding, p.X.Padding = 0, 0
	return p
}

// rules are horizontal lines at the ticks of the y axis.
func rules() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color = nil
	g.Horizontal = draw.LineStyle{Color: faint, Width: 0.7}
	return g
}

// key is an entry of a legend: a sample and its meaning.
type key struct {
	text   string
	sample plot.Thumbnailer
}

const (
	sampleWidth vg.Length = 18
	keyHeight   vg.Length = 18
)

// legend draws the keys in a row along the top of the canvas, above all data, and
// returns what is left below.
func legend(c draw.Canvas, keys ...key) draw.Canvas {
	style := lettering(10, text.XLeft, text.YCenter)
	x, y := c.Min.X, c.Max.Y-keyHeight/2
	for _, k := range keys {
		sample := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: x, Y: y - 5}, Max: vg.Point{X: x + sampleWidth, Y: y + 5}}}
		k.sample.Thumbnail(&sample)
		c.FillText(style, vg.Point{X: x + sampleWidth + 5, Y: y}, k.text)
		x += sampleWidth + 5 + style.Width(k.text) + 16
	}
	return draw.Crop(c, 0, 0, 0, -keyHeight-4)
}
