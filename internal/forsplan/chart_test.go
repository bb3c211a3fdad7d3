package forsplan

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write testdata/small.svg anew")

// TestSmall compares the bytes of a small chart.
func TestSmall(t *testing.T) {
	c := chart{Title: "2 switches", Desc: "Switch 0 carries <all> & ends at 3.", X: "time in ms", End: 3, Kinds: []string{"change", "circuits"},
		Rows: []row{{"switch 0", []bar{{0, 1, 0, 0, "", ""}, {1, 3, 1, 0, "2", "rack 0 to 1"}}}, {"switch 1", []bar{{0, 1.5, 1, .5, "a label that has no room at all in so short a bar, which is half as long as the axis", ""}}}}}
	got := c.Encode()
	if *update {
		if err := os.WriteFile("testdata/small.svg", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/small.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the chart has changed: see it, and go test ./internal/svg -update\n%s", got)
	}
	if drawn := read(t, got); drawn.title != c.Title || drawn.desc != c.Desc {
		t.Errorf("text alternative %q, %q", drawn.title, drawn.desc)
	}
}

// box is the visible area of a text or a bar.
type box struct {
	what                     string
	left, top, right, bottom float64
}

// picture is the visible content of an SVG.
type picture struct {
	title, desc   string
	width, height float64
	texts, bars   []box
}

// read parses an SVG as XML, and estimates the areas of its texts with independent measures.
func read(t interface{ Fatalf(string, ...any) }, data []byte) *picture {
	const wide, upper, lower = 6.7, 10.0, 3.0 // of 12 pixels sans-serif: mean of words, above and below the baseline
	p := &picture{}
	d := xml.NewDecoder(bytes.NewReader(data))
	var path []xml.StartElement
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatalf("the SVG is not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			at := attributes(token)
			x, y, w, h := measure(at["x"]), measure(at["y"]), measure(at["width"]), measure(at["height"])
			switch token.Name.Local {
			case "svg":
				p.width, p.height = w, h
			case "rect":
				if c := at["class"]; strings.HasPrefix(c, "bar") || strings.HasPrefix(c, "cell") {
					p.bars = append(p.bars, box{at["class"], x, y, x + w, y + h})
				}
			}
			path = append(path, token.Copy())
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			if len(path) == 0 {
				continue
			}
			e := path[len(path)-1]
			at := attributes(e)
			switch {
			case at["id"] == "title":
				p.title = string(token)
			case at["id"] == "desc":
				p.desc = string(token)
			case e.Name.Local == "text":
				w := wide * float64(letters(string(token)))
				x, y := measure(at["x"]), measure(at["y"])
				switch class := at["class"]; {
				case class == "title":
					w *= 14.0 / 12
				case class == "end":
					x -= w
				case class == "mid" || strings.HasPrefix(class, "in"):
					x -= w / 2
				}
				p.texts = append(p.texts, box{string(token), x, y - upper, x + w, y + lower})
			}
		}
	}
}

func attributes(e xml.StartElement) map[string]string {
	m := map[string]string{}
	for _, a := range e.Attr {
		m[a.Name.Local] = a.Value
	}
	return m
}

func measure(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64)
	return v
}

// TestNothingOverlaps draws charts of any shape, and checks that they are valid XML, that texts
// do not overlap, that bars of a row do not overlap, and that everything is within the picture.
func TestNothingOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := chart{Title: rapid.StringN(0, 300, -1).Draw(t, "title"), Desc: rapid.String().Draw(t, "desc"), X: rapid.StringN(0, 200, -1).Draw(t, "x")}
		unit := math.Pow(10, rapid.Float64Range(-9, 12).Draw(t, "unit"))
		for range rapid.IntRange(0, 8).Draw(t, "kinds") {
			c.Kinds = append(c.Kinds, rapid.StringN(1, 40, -1).Draw(t, "kind"))
		}
		rows := rapid.SampledFrom([]int{0, 1, 2, 16, 64, 300, 1024}).Draw(t, "rows")
		for i := range rows {
			r := row{Label: fmt.Sprintf("%s %d", strings.Repeat("switch ", i%9), i)}
			at := 0.0
			for range rapid.IntRange(0, 5).Draw(t, "bars") {
				from := at + rapid.Float64Range(0, 1).Draw(t, "from")*unit
				at = from + rapid.Float64Range(0, 2).Draw(t, "long")*unit
				r.Bars = append(r.Bars, bar{From: from, To: at, Kind: i % 8, Shade: rapid.Float64Range(0, 1).Draw(t, "shade"), Label: rapid.StringN(0, 30, -1).Draw(t, "label"), Tip: "<&>"})
			}
			c.Rows, c.End = append(c.Rows, r), max(c.End, at)
		}
		nothingOverlaps(t, &c)
	})
}

// TestExtremes checks that the shortest and the longest possible axis fit into the picture,
// with bars in proportion.
func TestExtremes(t *testing.T) {
	for _, end := range []float64{math.SmallestNonzeroFloat64 * 2, 4e-306, 1e-5, math.MaxFloat64} {
		c := chart{End: end, Rows: []row{{"", []bar{{0, end / 2, 0, 0, "half", ""}, {end / 2, end, 1, 0, "half", ""}}}}}
		if p := nothingOverlaps(t, &c); math.Abs(p.bars[0].right-p.bars[1].left) > 0.02 || p.bars[1].right < p.width-margin-0.02 {
			t.Errorf("an axis to %v has the bars %v", end, p.bars)
		}
	}
}

// nothingOverlaps makes the checks of TestNothingOverlaps on the picture of a chart.
func nothingOverlaps(t interface{ Fatalf(string, ...any) }, c *chart) *picture {
	p := read(t, c.Encode())
	for i, a := range p.texts {
		if a.left < 0 || a.right > p.width || a.top < 0 || a.bottom > p.height {
			t.Fatalf("%v is not within %v × %v", a, p.width, p.height)
		}
		for _, b := range p.texts[i+1:] {
			if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
				t.Fatalf("%v and %v overlap", a, b)
			}
		}
	}
	last := map[float64]float64{}
	for _, b := range p.bars {
		if b.left < 0 || b.right > p.width || b.bottom > p.height || b.left < last[b.top]-0.02 {
			t.Fatalf("%v meets %v, or is not within %v × %v", b, last[b.top], p.width, p.height)
		}
		last[b.top] = b.right
	}
	return p
}
