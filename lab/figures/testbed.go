package figures

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/lab/chart"
)

// testbed is the throughput of running programs on the simulated fabric that carries data:
// "make testbed" measures it, and writes its numbers.
var testbed = chart.Set{
	Name:    "testbed",
	Figures: []chart.Figure{{Name: "testbed", Width: 9.6 * vg.Inch, Height: 4 * vg.Inch, Draw: drawTestbed}},
}

// drawTestbed shows the throughput of each exchange in each state, as the FORS paper's
// Fig. 6 does of its network, and the most that the damaged fabric allows.
func drawTestbed(c draw.Canvas, t *chart.Table) error {
	states := map[string]map[string]column{}
	var order []string
	for i := range t.Len() {
		r := t.Row(i)
		state := r.Text("state")
		if states[state] == nil {
			states[state] = map[string]column{}
			order = append(order, state)
		}
		states[state][r.Text("tables")+", "+r.Text("exchange")] = column{height: 100 * r.Number("measured"), mark: 100 * r.Number("bound")}
		if r.Err != nil {
			return r.Err
		}
	}
	var list []group
	for _, state := range order {
		list = append(list, group{strings.Replace(state, "pulled", "pulled\nin the middle", 1), states[state]})
	}
	p := newBarChart(list, axis{"throughput of a host, % of its link", 120, 20}, 4, 27)
	for j, s := range []series{
		{"min-hop, shift in step", "min-hop, linear shift in step", chart.Orange, chart.Ink, true},
		{"min-hop, MPI_Alltoall", "min-hop, MPI_Alltoall", chart.SkyBlue, chart.Ink, true},
		{"forsd, by the plan", "forsd, base LIDs", chart.Blue, color.White, true},
		{"forsd, on lanes", "forsd, lanes", chart.Green, color.White, true},
	} {
		if err := p.add(j, s); err != nil {
			return err
		}
	}
	p.mark(chart.PaperMark, "forsd, on lanes", func(column) int { return 3 })
	p.keys = append(p.keys, chart.Key{Text: "the most that the fabric allows", Sample: &chart.Marks{Style: chart.PaperMark}})
	p.Draw(chart.Legend(c, p.keys...))
	return nil
}
