package figures

import (
	"context"
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
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

// throughput is the bar of an engine in a scenario.
type throughput struct {
	gbps, paper float64 // paper is 0 where it reports nothing
	refused     bool    // min-hop took over
}

// group is a scenario with its bars by engine.
type group struct {
	name string
	bars map[string]throughput
}

// groups reads the paper's scenarios out of the table.
func groups(t *chart.Table) (list []group, err error) {
	for i := range t.Len() {
		r := t.Row(i)
		name := r.Text("scenario")
		if strings.HasPrefix(name, "R") {
			continue // a random one
		}
		engine := r.Text("engine")
		b := throughput{gbps: r.Number("model_gbps"), paper: r.Number("paper_gbps"), refused: r.Text("tables_by") != engine}
		if r.Err != nil {
			return nil, r.Err
		}
		if len(list) == 0 || list[len(list)-1].name != name {
			list = append(list, group{name, map[string]throughput{}})
		}
		list[len(list)-1].bars[engine] = b
	}
	return list, nil
}

// series are the bars of one engine over all scenarios.
type series struct {
	engine, key    string
	colour, number color.Color
	fallback       bool // where the engine refused, show what took over, not a cross
}

// barChart is a bar chart of throughputs: n bars of a width in each scenario.
type barChart struct {
	*plot.Plot
	groups []group
	width  vg.Length
	n      int
	keys   []chart.Key
}

// newBarChart is a chart with axes and without bars.
func newBarChart(list []group, n int, width vg.Length) *barChart {
	p := chart.NewPlot("", "throughput of a server by the model, Gb/s")
	p.Add(chart.Rules())
	p.Y.Min, p.Y.Max = 0, 160
	p.Y.Tick.Marker = plot.ConstantTicks(chart.Ticks(0, 160, 20))
	p.X.Tick.Length, p.X.Width = 0, 0
	p.X.Min, p.X.Max = -0.5, float64(len(list))-0.5
	names := make([]plot.Tick, len(list))
	for i, g := range list {
		label := strings.Replace(g.name, " ", "\n", 1)
		if !strings.Contains(label, "\n") {
			label += "\nno failure" // 0F
		}
		names[i] = plot.Tick{Value: float64(i), Label: label}
	}
	p.X.Tick.Marker = plot.ConstantTicks(names)
	return &barChart{Plot: p, groups: list, width: width, n: n}
}

// place is where bar j stands beside the middle of its scenario.
func (c *barChart) place(j int) vg.Length {
	return c.width * (vg.Length(j) - vg.Length(c.n-1)/2)
}

// add draws the bars of an engine as the j-th of each scenario. The values are at
// their feet, where no mark of the paper is.
func (c *barChart) add(j int, s series) error {
	values := make(plotter.Values, len(c.groups))
	feet := &chart.Marks{Style: draw.GlyphStyle{Color: s.number}, Size: min(chart.SmallSize, c.width/2)}
	refusals := &chart.Marks{Style: chart.RefusalMark}
	for i, g := range c.groups {
		b := g.bars[s.engine]
		at := chart.Mark{X: float64(i), Offset: vg.Point{X: c.place(j), Y: 3}}
		if b.refused && !s.fallback {
			at.Offset.Y = 6
			refusals.List = append(refusals.List, at)
			continue
		}
		values[i] = b.gbps
		at.Text = fmt.Sprintf("%.0f", b.gbps)
		feet.List = append(feet.List, at)
	}
	bars, err := plotter.NewBarChart(values, c.width-1)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width, bars.Offset = s.colour, 0, c.place(j)
	c.Add(bars, feet, refusals)
	c.keys = append(c.keys, chart.Key{Text: s.key, Sample: bars})
	return nil
}

// paper marks what the paper reports beside an engine; at says at which bar of
// the scenario.
func (c *barChart) paper(engine string, at func(throughput) int) {
	reports := &chart.Marks{Style: chart.PaperMark, Size: chart.SmallSize}
	for i, g := range c.groups {
		if b := g.bars[engine]; b.paper > 0 {
			reports.List = append(reports.List, chart.Mark{X: float64(i), Y: b.paper, Offset: vg.Point{X: c.place(at(b))}, Text: fmt.Sprintf("%.0f", b.paper)})
		}
	}
	c.Add(reports)
}

// drawFig3 is the paper's Fig. 3: what OpenSM's engines leave of the throughput.
func drawFig3(c draw.Canvas, t *chart.Table) error {
	list, err := groups(t)
	if err != nil {
		return err
	}
	p := newBarChart(list, 4, 16)
	for j, s := range []series{
		{"ftree", "ftree", chart.SkyBlue, chart.Ink, false},
		{"minhop", "min-hop", chart.Orange, chart.Ink, false},
		{"updn", "updn", chart.Purple, chart.Ink, false},
		{"dfsssp", "dfsssp", chart.Green, color.White, false},
	} {
		if err := p.add(j, s); err != nil {
			return err
		}
	}
	p.paper("ftree", func(b throughput) int {
		if b.refused {
			return 1 // min-hop
		}
		return 0
	})
	p.keys = append(p.keys, chart.Key{Text: "ftree refuses, min-hop takes over", Sample: &chart.Marks{Style: chart.RefusalMark}},
		chart.Key{Text: "measured by the paper, Ftree/Min-Hop", Sample: &chart.Marks{Style: chart.PaperMark}})
	p.Draw(chart.Legend(c, p.keys...))
	return nil
}

// drawFig6 is the paper's Fig. 6: FORS beside OpenSM's default.
func drawFig6(c draw.Canvas, t *chart.Table) error {
	list, err := groups(t)
	if err != nil {
		return err
	}
	p := newBarChart(list, 2, 27)
	for j, s := range []series{
		{"ftree", "linear shift on OpenSM's tables (ftree, or min-hop)", chart.Orange, chart.Ink, true},
		{scenario.Forsd, "forsd", chart.Blue, color.White, false},
	} {
		if err := p.add(j, s); err != nil {
			return err
		}
		p.paper(s.engine, func(throughput) int { return j })
	}
	p.keys = append(p.keys, chart.Key{Text: "measured by the paper, Ftree/Min-Hop and FORS", Sample: &chart.Marks{Style: chart.PaperMark}})
	p.Draw(chart.Legend(c, p.keys...))
	return nil
}
