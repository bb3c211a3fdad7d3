package forsplan

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// chart has rows of bars from 0 to End.
type chart struct {
	Title string
	Desc  string // text alternative
	X     string // title of the axis, with its unit
	End   float64
	Kinds []string // meanings of the colours; see bar.Kind
	Rows  []row
}

// row is a line of bars that do not overlap.
type row struct {
	Label string
	Bars  []bar
}

// bar is a stretch of a row.
type bar struct {
	From, To float64
	Kind     int     // number of chart.Kinds
	Shade    float64 // saturation of the colour, up to 1; 0: full, with an edge and a label
	Label    string  // in the bar, if it fits
	Tip      string  // tooltip
}

// colours is the number of kinds with a distinct colour.
const colours = len(style)

// style has the colours of kinds, from M. Okabe and K. Ito, "Color Universal Design" (2008),
// and of the text in them.
var style = [...][2]string{{"#777777", "#ffffff"}, {"#0072b2", "#ffffff"}, {"#e69f00", "#000000"}, {"#009e73", "#000000"}, {"#cc79a7", "#000000"}, {"#d55e00", "#000000"}}

// The measures, in pixels.
const (
	width     = 960.0
	most      = 900.0 // height of all rows together
	tall      = 26.0  // of a row
	line      = 15.0  // of text
	letter    = 6.9   // at most: the average width over a word in the font of size 12
	margin    = 10.0
	mostLabel = 36 // maximum length of a row's label
	mostTitle = 100
	tickEvery = 90.0
)

// Encode writes the chart as SVG.
func (c *chart) Encode() []byte {
	d := &drawing{chart: c, left: margin, row: min(tall, most/float64(max(1, len(c.Rows))))}
	for _, r := range c.Rows {
		d.left = max(d.left, 2*margin+letter*float64(letters(shorten(r.Label))))
	}
	d.top = 3*margin + 2*line
	d.head()
	for i := range c.Rows {
		d.bars(i)
	}
	d.axis()
	d.text.WriteString("</svg>\n")
	return d.text.Bytes()
}

// drawing is a chart that is being written.
type drawing struct {
	*chart
	text      bytes.Buffer
	left, top float64 // of the first row
	row       float64 // height
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.text, format, args...) }

// length returns the length of v on the axis. It divides first, because the reciprocal of End
// may be infinite.
func (d *drawing) length(v float64) float64 {
	if d.End > 0 {
		v /= d.End
	}
	return v * (width - margin - d.left)
}

// bottom returns the lower edge of the rows.
func (d *drawing) bottom() float64 { return d.top + d.row*float64(len(d.Rows)) }

// head writes the text alternative, the style, the title, and the legend.
func (d *drawing) head() {
	height := d.bottom() + 2*line + 2*margin
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" aria-labelledby="title desc">`+"\n",
		number(width), number(height), number(width), number(height))
	d.printf("<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n<style>\n", escape(d.Title), escape(d.Desc))
	d.printf(".page { fill: #fff }\ntext { font: 12px sans-serif; fill: #222 }\n.title { font-size: 14px; font-weight: bold }\n" +
		".end { text-anchor: end }\n.mid { text-anchor: middle }\n.rule { stroke: #ccc }\n.bar { stroke: #fff; stroke-width: .5 }\n")
	for i, s := range style {
		d.printf(".k%d { fill: %s }\n.in%d { fill: %s; text-anchor: middle; pointer-events: none }\n", i, s[0], i, s[1])
	}
	d.printf("@media (prefers-color-scheme: dark) {\n.page { fill: #16181c }\ntext { fill: #e4e4e4 }\n.rule { stroke: #444 }\n.bar { stroke: #16181c }\n}\n</style>\n")
	d.printf(`<rect class="page" width="%s" height="%s"/>`+"\n", number(width), number(height))
	d.label(margin, margin+line*.8, "title", cut(d.Title, mostTitle))
	at := margin
	for i, k := range d.Kinds {
		if at+line+letter*float64(letters(k)) > width-margin {
			break
		}
		d.printf(`<rect class="k%d" x="%s" y="%s" width="12" height="12"/>`+"\n", i%colours, number(at), number(2*margin+line))
		d.label(at+line+2, 2*margin+line+10.5, "", k)
		at += line + letter*float64(letters(k)) + 2*margin
	}
}

// label writes text with its baseline at y.
func (d *drawing) label(x, y float64, class, text string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	d.printf("<text%s x=\"%s\" y=\"%s\">%s</text>\n", class, number(x), number(y), escape(text))
}

// bars draws a row, and its label if the row has room for one.
func (d *drawing) bars(i int) {
	r, y := &d.Rows[i], d.top+d.row*float64(i)
	if every := int(math.Ceil(line / d.row)); i%every == 0 {
		d.label(d.left-margin/2, y+d.row/2+4, "end", shorten(r.Label))
	}
	gap := min(1.5, d.row/8)
	for _, b := range r.Bars {
		x, w := d.left+d.length(b.From), d.length(b.To-b.From)
		class, shade := "bar", ""
		if b.Shade > 0 {
			class, shade = "cell", ` fill-opacity="`+number(b.Shade)+`"`
		}
		d.printf(`<rect class="%s k%d"%s x="%s" y="%s" width="%s" height="%s"`, class, b.Kind%colours, shade, number(x), number(y+gap), number(w), number(d.row-2*gap))
		if b.Tip == "" {
			d.printf("/>\n")
		} else {
			d.printf("><title>%s</title></rect>\n", escape(b.Tip))
		}
		if b.Label != "" && shade == "" && d.row >= line && letter*float64(letters(b.Label))+8 <= w {
			d.label(x+w/2, y+d.row/2+4, "in"+strconv.Itoa(b.Kind%colours), b.Label)
		}
	}
}

// axis draws rules with numbers, as far apart as the numbers require.
func (d *drawing) axis() {
	y := d.bottom()
	d.printf(`<path class="rule" d="M%s %sH%s"/>`+"\n", number(d.left), number(y), number(width-margin))
	step := nice(d.End * tickEvery / (width - margin - d.left))
	last := 0.0
	for i := 0; step > 0; i++ {
		at := float64(i) * step
		if at > d.End*(1+1e-9) {
			break
		}
		text := strconv.FormatFloat(at, 'g', 6, 64)
		x, half := d.left+d.length(at), letter*float64(letters(text))/2
		d.printf(`<path class="rule" d="M%s %sv5"/>`+"\n", number(x), number(y))
		if x = min(x, width-2-half); x-half > last {
			d.label(x, y+line+3, "mid", text)
			last = x + half + 4
		}
	}
	d.label((d.left+width-margin)/2, y+2*line+6, "mid", cut(d.X, mostTitle))
}

// nice returns the smallest of 1, 2 and 5 times a power of ten that is at least x, or 0 for 0.
func nice(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 0
	}
	p := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{1, 2, 5} {
		if f*p >= x {
			return f * p
		}
	}
	return 10 * p
}

func letters(text string) int { return utf8.RuneCountInString(text) }

func shorten(label string) string { return cut(label, mostLabel) }

// cut truncates text to a maximum number of letters.
func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// number formats a measure to two decimals.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

func escape(text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text)) // a buffer never fails
	return out.String()
}
