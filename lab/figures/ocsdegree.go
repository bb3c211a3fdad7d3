package figures

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/lab/chart"
)

// ocsDegree is the probability that the sum of k random permutations of n racks has degree k,
// drawn and by Eq. 10: the Spectra paper's Fig. 11.
var ocsDegree = chart.Set{
	Name:    "ocs-degree",
	Measure: measureDegrees,
	Figures: []chart.Figure{{Name: "ocs-fig11", Width: 9.6 * vg.Inch, Height: 4.2 * vg.Inch, Draw: drawDegrees}},
}

// degreePanels are Figs. 11a and 11b.
var degreePanels = []struct {
	over   string
	x      []int
	racks  int // 0: x
	weight int // permutations, 0: x
}{
	{"k", []int{4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48}, 100, 0},
	{"n", []int{20, 25, 30, 35, 40, 45, 50, 60, 80, 100}, 0, 16},
}

const degreeMatrices = 1000

func measureDegrees(context.Context, chart.Step) (*chart.Table, error) {
	t := chart.NewTable("over", "n", "k", "matrices", "drawn", "eq10")
	for _, p := range degreePanels {
		for _, x := range p.x {
			n, k := p.racks, p.weight
			if n == 0 {
				n = x
			} else {
				k = x
			}
			t.Add(p.over, n, k, degreeMatrices, drawnDegree(n, k), equation10(n, k))
		}
	}
	return t, nil
}

// equation10 is 1 − (1 − n!/((n−k)!·n^k))^(2n).
func equation10(n, k int) float64 {
	p := 1.0
	for i := range k {
		p *= float64(n-i) / float64(n)
	}
	return 1 - math.Pow(1-p, float64(2*n))
}

// drawnDegree is the share of random sums that have a row or column of k entries.
func drawnDegree(n, k int) float64 {
	full := 0
	for seed := range uint64(degreeMatrices) {
		rng := rand.New(rand.NewPCG(seed, uint64(k)))
		degree, seen := make([]int, 2*n), make([]bool, n*n)
		for range k {
			for i, j := range rng.Perm(n) {
				if !seen[i*n+j] {
					seen[i*n+j] = true
					degree[i]++
					degree[n+j]++
				}
			}
		}
		if slices.Max(degree) == k {
			full++
		}
	}
	return float64(full) / degreeMatrices
}

func drawDegrees(c draw.Canvas, t *chart.Table) error {
	var row []*chart.Lines
	for _, p := range degreePanels {
		l := &chart.Lines{X: p.over, Y: fmt.Sprintf("probability that the degree is k, %d racks", p.racks), Lines: []chart.Line{{Name: "drawn", Dots: true, Bare: true}, {Name: "Eq. 10"}}}
		if p.racks == 0 {
			l.Y = fmt.Sprintf("the same, k = %d", p.weight)
		}
		for i := range t.Len() {
			r := t.Row(i)
			if r.Text("over") != p.over {
				continue
			}
			x := r.Number(p.over)
			l.Lines[0].Points = append(l.Lines[0].Points, plotter.XY{X: x, Y: r.Number("drawn")})
			l.Lines[1].Points = append(l.Lines[1].Points, plotter.XY{X: x, Y: r.Number("eq10")})
			if r.Err != nil {
				return r.Err
			}
		}
		row = append(row, l)
	}
	return drawPanels(c, [][]*chart.Lines{row})
}
