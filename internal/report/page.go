package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"time"
)

//go:embed page.html
var pageText string

// mostRows limits the rows of a table on the page. The JSON has all.
const mostRows = 200

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"at":       func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") },
	"percent":  func(share float64) string { return fmt.Sprintf("%.4f %%", 100*share) },
	"ms":       func(seconds float64) string { return fmt.Sprintf("%.1f", 1e3*seconds) },
	"matrix":   drawMatrix,
	"bars":     drawBars,
	"phases":   drawPhases,
	"faults":   drawFaults,
	"down":     downtime,
	"outages":  outages,
	"mostRows": func() int { return mostRows },
}).Parse(pageText))

// WriteHTML writes the report as a single page that loads no other resources.
func (r *Report) WriteHTML(out io.Writer) error { return page.Execute(out, r) }

// outages returns the cables that were down.
func outages(all []Available) (out []Available) {
	for i := range all {
		if all[i].Faults > 0 && len(out) < mostRows {
			out = append(out, all[i])
		}
	}
	return out
}

// downtime returns how long a cable was down.
func downtime(x Available) time.Duration {
	var sum time.Duration
	for _, s := range x.Down {
		sum += s.To.Sub(s.From)
	}
	return sum.Round(time.Millisecond)
}

// Box is a labelled rectangle in a picture.
type Box struct {
	X, Y, W, H float64
	Class      string
	Title      string
}

// Label is a text in a picture.
type Label struct {
	X, Y float64
	Text string
}

// Picture is a drawing on the page.
type Picture struct {
	W, H   float64
	About  string
	Boxes  []Box
	Labels []Label
	Lines  []Line
}

// Line is a polyline.
type Line struct{ Points, Class string }

// drawMatrix draws a cell for each cable, by switch and lane.
func drawMatrix(m *Matrix) Picture {
	const cell, left, top = 11.0, 130.0, 14.0
	p := Picture{About: "the cables upwards of each switch, by lane"}
	most, names := 0, 0
	for y, row := range m.Rows {
		for x, state := range row.Cables {
			if state != "none" {
				p.Boxes = append(p.Boxes, Box{left + float64(x)*cell, top + float64(y)*cell, cell - 1, cell - 1, state, fmt.Sprintf("%s, cable %d: %s", row.Name, x, state)})
			}
		}
		most, names = max(most, len(row.Cables)), max(names, len(row.Name))
		p.Labels = append(p.Labels, Label{2, top + float64(y)*cell + cell - 2, row.Name})
	}
	for x := 0; x < most; x += 8 {
		p.Labels = append(p.Labels, Label{left + float64(x)*cell, top - 4, fmt.Sprint(x)})
	}
	p.W, p.H = left+float64(most)*cell+2, top+float64(len(m.Rows))*cell+2
	return p
}

const wide, margin = 860.0, 40.0

// place returns the position of a time in a picture.
func (s Span) place(t time.Time) float64 {
	return margin + (wide-2*margin)*t.Sub(s.From).Seconds()/s.To.Sub(s.From).Seconds()
}

// axis adds the first and last time to a picture.
func (p *Picture) axis(s Span) {
	p.W = wide
	p.Labels = append(p.Labels, Label{margin, p.H - 3, s.From.Local().Format("2006-01-02 15:04")}, Label{wide - margin - 90, p.H - 3, s.To.Local().Format("2006-01-02 15:04")})
}

// drawBars draws the times when the worst cables were down.
func drawBars(r *Report) Picture {
	const each, most = 16.0, 30
	p := Picture{About: "when the cables with the most downtime were down"}
	for _, x := range outages(r.Cables)[:min(most, len(outages(r.Cables)))] {
		y := p.H + 12
		p.Labels = append(p.Labels, Label{margin, y - 2, x.Cable})
		p.Boxes = append(p.Boxes, Box{margin, y, wide - 2*margin, 5, "full", x.Cable + ": up"})
		for _, s := range x.Down {
			from := r.Period.place(s.From)
			p.Boxes = append(p.Boxes, Box{from, y, max(1, r.Period.place(s.To)-from), 5, "missing", fmt.Sprintf("%s: down from %s for %v", x.Cable, s.From.Local().Format(time.DateTime), s.To.Sub(s.From).Round(time.Millisecond))})
		}
		p.H += each + 4
	}
	p.H += 16
	p.axis(r.Period)
	return p
}

// drawPhases draws the phases of the plan in force over the period, and their bound.
func drawPhases(r *Report) Picture {
	const high = 150.0
	p := Picture{H: high + 30, About: "phases of the plan in force, and their lower bound"}
	least, most := math.MaxInt, 0
	for i := range r.Plans {
		least, most = min(least, r.Plans[i].LowerBound), max(most, r.Plans[i].Phases)
	}
	scale := func(n int) float64 { return 10 + high*(1-float64(n-least)/float64(max(1, most-least))) }
	for _, kind := range []string{"bound", "phases"} {
		text := ""
		for i := range r.Plans {
			n, until := r.Plans[i].Phases, r.Period.To
			if kind == "bound" {
				n = r.Plans[i].LowerBound
			}
			if i+1 < len(r.Plans) {
				until = r.Plans[i+1].PublishedAt
			}
			from := max(margin, r.Period.place(r.Plans[i].PublishedAt))
			text += fmt.Sprintf("%.1f,%.1f %.1f,%.1f ", from, scale(n), max(from, r.Period.place(until)), scale(n))
		}
		p.Lines = append(p.Lines, Line{text, kind})
	}
	if len(r.Plans) > 0 {
		p.Labels = append(p.Labels, Label{2, scale(most) + 4, fmt.Sprint(most)}, Label{2, scale(least) + 4, fmt.Sprint(least)})
	}
	p.axis(r.Period)
	return p
}

// drawFaults draws a histogram of the times from fault to plan, with intervals that double.
func drawFaults(r *Report) Picture {
	const steps, high, each = 15, 120.0, 52.0
	p := Picture{W: wide, H: high + 34, About: "how many faults took how long until a plan was published"}
	var counts [steps]int
	for i := range r.Plans {
		if r.Plans[i].Fault {
			counts[min(steps-1, max(0, int(math.Ceil(math.Log2(max(1, 1e3*r.Plans[i].AfterSeconds))))))]++
		}
	}
	most := 1
	for _, n := range counts {
		most = max(most, n)
	}
	for i, n := range counts {
		h := high * float64(n) / float64(most)
		x := margin + float64(i)*each
		p.Boxes = append(p.Boxes, Box{x, 14 + high - h, each - 6, h, "bar", fmt.Sprintf("%d up to %d ms", n, 1<<i)})
		p.Labels = append(p.Labels, Label{x, high + 28, fmt.Sprintf("≤%d ms", 1<<i)})
		if n > 0 {
			p.Labels = append(p.Labels, Label{x + 14, 10 + high - h, fmt.Sprint(n)})
		}
	}
	return p
}
