package figures

import (
	"context"
	"image/color"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/scenario"
)

// forsScenarios are the FORS paper's nine failure scenarios on FT(2;20,18) under a
// real OpenSM: its Figs. 3 and 6.
var forsScenarios = chart.Set{
	Name:    "fors-scenarios",
	Measure: measureScenarios,
	Figures: []chart.Figure{
		{Name: "fors-fig3", Width: 9.6 * vg.Inch, Height: 4 * vg.Inch, Draw: drawFig3},
		{Name: "fors-fig6", Width: 9.6 * vg.Inch, Height: 4 * vg.Inch, Draw: drawFig6},
	},
}

// measureScenarios measures the paper's scenarios, and four random ones, which
// only the table has.
func measureScenarios(ctx context.Context, step chart.Step) (*chart.Table, error) {
	t := chart.NewTable("scenario", "dead_cables", "f", "phases", "lower_bound", "engine", "tables_by", "exchange_phases", "duration", "mean_load", "model_gbps", "paper_gbps")
	all := shown()
	for i, s := range all {
		step(i, len(all), "measure "+s.Name)
		if err := addScenario(ctx, t, s); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// shown are the scenarios of the table.
func shown() []scenario.Scenario {
	return append(scenario.Paper(scenario.LHCb), scenario.Random(scenario.LHCb, 4, 1)...)
}

// addScenario adds a row for each engine.
func addScenario(ctx context.Context, t *chart.Table, s scenario.Scenario) error {
	results, err := scenario.Run(ctx, scenario.Options{Tree: scenario.LHCb, Scenarios: []scenario.Scenario{s}, Engines: scenario.Engines})
	if err != nil {
		return err
	}
	r := &results[0]
	for _, x := range r.Exchanges {
		reported := map[string]float64{"ftree": r.Paper.Default, scenario.Forsd: r.Paper.FORS}[x.Engine]
		t.Add(r.Scenario, r.DeadCables, r.BandwidthReduction, r.Phases, r.LowerBound, x.Engine, x.Used, x.Phases, x.Duration, x.Mean, x.Gbps, reported)
	}
	return nil
}

// gbpsAxis is the axis of both figures.
var gbpsAxis = axis{"throughput of a server by the model, Gb/s", 160, 20}

// groups reads the paper's scenarios out of the table.
func groups(t *chart.Table) (list []group, err error) {
	for i := range t.Len() {
		r := t.Row(i)
		name := r.Text("scenario")
		if strings.HasPrefix(name, "R") {
			continue // a random one
		}
		engine := r.Text("engine")
		b := column{height: r.Number("model_gbps"), mark: r.Number("paper_gbps"), refused: r.Text("tables_by") != engine}
		if r.Err != nil {
			return nil, r.Err
		}
		label := strings.Replace(name, " ", "\n", 1)
		if label == name {
			label += "\nno failure" // 0F
		}
		if len(list) == 0 || list[len(list)-1].name != label {
			list = append(list, group{label, map[string]column{}})
		}
		list[len(list)-1].bars[engine] = b
	}
	return list, nil
}

// drawFig3 is the paper's Fig. 3: the throughput that OpenSM's engines leave.
func drawFig3(c draw.Canvas, t *chart.Table) error {
	list, err := groups(t)
	if err != nil {
		return err
	}
	p := newBarChart(list, gbpsAxis, 6, 11)
	for j, s := range []series{
		{"ftree", "ftree", chart.SkyBlue, chart.Ink, false},
		{"minhop", "min-hop", chart.Orange, chart.Ink, false},
		{"updn", "updn", chart.Purple, chart.Ink, false},
		{"dfsssp", "dfsssp", chart.Green, color.White, false},
		{"adaptive", "adaptive, ideal", chart.Vermilion, color.White, false},
		{"adaptive-0.1", "adaptive, 0.1 transfers late", chart.Faint, chart.Ink, false},
	} {
		if err := p.add(j, s); err != nil {
			return err
		}
	}
	p.mark(chart.PaperMark, "ftree", func(b column) int {
		if b.refused {
			return 1 // min-hop
		}
		return 0
	})
	p.keys = append(p.keys, chart.Key{Text: "ftree refuses: min-hop", Sample: &chart.Marks{Style: chart.RefusalMark}},
		chart.Key{Text: "paper, Ftree/Min-Hop", Sample: &chart.Marks{Style: chart.PaperMark}})
	p.Draw(chart.Legend(c, p.keys...))
	return nil
}

// drawFig6 is the paper's Fig. 6: FORS and OpenSM's default.
func drawFig6(c draw.Canvas, t *chart.Table) error {
	list, err := groups(t)
	if err != nil {
		return err
	}
	p := newBarChart(list, gbpsAxis, 3, 20)
	for j, s := range []series{
		{"ftree", "shift on OpenSM's tables (ftree, or min-hop)", chart.Orange, chart.Ink, true},
		{"adaptive-0.1", "adaptive, 0.1 transfers late", chart.Faint, chart.Ink, false},
		{scenario.Forsd, "forsd", chart.Blue, color.White, false},
	} {
		if err := p.add(j, s); err != nil {
			return err
		}
		p.mark(chart.PaperMark, s.of, func(column) int { return j })
	}
	p.keys = append(p.keys, chart.Key{Text: "paper, Ftree/Min-Hop and FORS", Sample: &chart.Marks{Style: chart.PaperMark}})
	p.Draw(chart.Legend(c, p.keys...))
	return nil
}
