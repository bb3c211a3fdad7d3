package forsplan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/optical/ocs"
	"github.com/forsd/forsd/optical/photonic"
)

// svgFlag is the flag for drawing a schedule.
type svgFlag string

func (f *svgFlag) register(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar((*string)(f), "svg", "", "draw the schedule to this file, as SVG: "+what+"; - is standard output")
}

// output returns the drawing among the outputs of a command.
func (f svgFlag) output() command.Output {
	return command.Output{Flag: "svg", Path: string(f), What: "the drawing"}
}

// show writes the chart, if requested, and prints the report if standard output is free.
func (f svgFlag) show(cmd *cobra.Command, free bool, chart func() *chart, report any, text func(w io.Writer)) error {
	if f != "" {
		if err := command.WriteOut(cmd, string(f), chart().Encode()); err != nil {
			return err
		}
	}
	if !free || f == "-" {
		return nil
	}
	return command.Show(cmd, report, text)
}

// mostRows is the maximum number of NICs or links in a drawing.
const mostRows = 48

// joined describes the elements of a list, or the first few and the number of the others.
func joined[T any](list []T, tell func(i int, x T) string) string {
	const few = 12
	var words []string
	for i, x := range list[:min(few, len(list))] {
		words = append(words, tell(i, x))
	}
	if len(list) > few {
		words = append(words, fmt.Sprintf("and %d more", len(list)-few))
	}
	return strings.Join(words, ", ")
}

// ocsChart draws when each switch reconfigures and when its circuits are up.
func ocsChart(r *ocs.Report) *chart {
	c := &chart{Title: fmt.Sprintf("%d racks on %s: makespan %.6g, %s", r.Racks, command.Plural(len(r.Switches), "switch", "switches"), r.Makespan, timesBound(r.Makespan, r.LowerBound)),
		X: "time, in the demand's unit; in the bars: how long circuits stand", End: r.Makespan, Kinds: []string{"the switch changes", "circuits stand"}}
	c.Desc = "When each switch changes and when its circuits stand. " + joined(r.Switches, func(h int, sw ocs.Switch) string {
		return fmt.Sprintf("switch %d: %s until %.6g", h, command.Plural(len(sw.Configs), "configuration", "configurations"), sw.Load)
	}) + "."
	for h, sw := range r.Switches {
		row := row{Label: fmt.Sprintf("switch %d", h)}
		end := 0.0
		for i, x := range sw.Configs {
			if x.Start > end {
				row.Bars = append(row.Bars, bar{From: end, To: x.Start, Tip: fmt.Sprintf("changes for %.6g", x.Start-end)})
			}
			end = x.Start + x.Weight
			row.Bars = append(row.Bars, bar{From: x.Start, To: end, Kind: 1, Label: fmt.Sprintf("%.3g", x.Weight),
				Tip: fmt.Sprintf("configuration %d, from %.6g to %.6g: %s", i, x.Start, end, joined(x.Permutation, func(i int, j int32) string { return fmt.Sprintf("%d→%d", i, j) }))})
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// photonicChart draws the setting of each switch over time, and the number of links in use.
func photonicChart(in *photonic.Instance, p *photonic.Plan) *chart {
	ms := func(t photonic.Time) float64 { return t.US() / 1000 }
	c := &chart{Title: fmt.Sprintf("%d GPUs, %s on %s: %s", p.GPUs, command.Plural(len(p.Topologies), "reconfiguration", "reconfigurations"), p.Family, micros(p.Cost)),
		X: "time in ms", End: ms(p.Cost), Kinds: []string{"switches change", "circuits stand", "share of links in use"}}
	keeps := p.Keeps(in)
	c.Desc = "What each switch is set to, and the share of links in use. " + joined(keeps, func(i int, keep photonic.Time) string {
		return fmt.Sprintf("topology %d for %s", i, micros(keep))
	}) + "."
	c.Rows = make([]row, p.Degree+1)
	for s := range p.Degree {
		row := &c.Rows[s]
		row.Label = fmt.Sprintf("switch %d", s)
		at := photonic.Time(0)
		for i, t := range p.Topologies {
			label := fmt.Sprintf("topology %d", i)
			if t.Offsets != nil {
				label = fmt.Sprintf("+%d", t.Offsets[s])
			}
			stands := at + in.Reconfig
			row.Bars = append(row.Bars, bar{From: ms(at), To: ms(stands), Tip: fmt.Sprintf("changes for %s", micros(in.Reconfig))},
				bar{From: ms(stands), To: ms(stands + keeps[i]), Kind: 1, Label: label, Tip: fmt.Sprintf("topology %d, %s, for %s", i, label, micros(keeps[i]))})
			at = stands + keeps[i]
		}
	}
	const spans = 320
	row := &c.Rows[p.Degree]
	row.Label = "links in use"
	last := -1 // percent
	for i, share := range p.Use(in, spans) {
		percent, end := int(100*share+.5), c.End*float64(i+1)/spans
		if percent == last && percent > 0 {
			row.Bars[len(row.Bars)-1].To = end
		} else if percent > 0 {
			row.Bars = append(row.Bars, bar{From: c.End * float64(i) / spans, To: end, Kind: 2, Shade: float64(percent) / 100, Tip: fmt.Sprintf("%d %% of the links", percent)})
		}
		last = percent
	}
	return c
}

// liquidChart draws the steps that use the links with the most transfers.
func liquidChart(t *liquid.Traffic, r *liquid.Report, s liquid.Schedule, name func(liquid.Link) string) *chart {
	var links []liquid.Link
	for l := range t.Links() {
		if t.Load(liquid.Link(l)) > 0 {
			links = append(links, liquid.Link(l))
		}
	}
	slices.SortStableFunc(links, func(a, b liquid.Link) int { return cmp.Compare(t.Load(b), t.Load(a)) })
	used := len(links)
	links = links[:min(mostRows, used)]
	c := &chart{Title: fmt.Sprintf("%d transfers in %s: %s", r.Transfers, command.Plural(r.Steps, "step", "steps"), liquidVerdict(r)),
		X: fmt.Sprintf("step; the %d links with the most transfers of %d, with how many they have", len(links), used), End: float64(len(s)), Kinds: []string{"in use; paler: in some of the steps", "a bottleneck in use"}}
	c.Desc = fmt.Sprintf("Which steps use which links. %s of %d transfers. ", command.Plural(r.Bottlenecks, "link is a bottleneck", "links are bottlenecks"), r.Duration) +
		joined(links, func(_ int, l liquid.Link) string { return fmt.Sprintf("%s: %d transfers", name(l), t.Load(l)) }) + "."
	const cells = 4096
	spans := min(len(s), max(1, cells/max(1, len(links))))
	edge := func(at int) int { return (len(s)*at + spans - 1) / spans } // the first step of a span
	share := make([]float64, t.Links()*spans)
	tip := map[int]string{}
	for step, transfers := range s {
		at := step * spans / len(s)
		steps := edge(at+1) - edge(at)
		for _, x := range transfers {
			for _, l := range t.Path(x) {
				share[int(l)*spans+at] += 1 / float64(steps)
				if steps == 1 {
					tip[int(l)*spans+at] = fmt.Sprintf("step %d: %d→%d", step, t.Pair(x).Src, t.Pair(x).Dst)
				}
			}
		}
	}
	for _, l := range links {
		row := row{Label: fmt.Sprintf("%s: %d", name(l), t.Load(l))}
		kind := 0
		if t.Load(l) == t.Duration() {
			kind = 1
		}
		for at := range spans {
			if v := share[int(l)*spans+at]; v > 0 {
				if spans == len(s) {
					v = 0 // a step with a row of its own: full, with an edge
				}
				row.Bars = append(row.Bars, bar{From: float64(edge(at)), To: float64(edge(at + 1)), Kind: kind, Shade: v, Tip: tip[int(l)*spans+at]})
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// gpuChart draws the stages, the traffic inside servers, and the traffic of each NIC.
func gpuChart(p *gpu.Plan, m gpu.Model) *chart {
	const ms = 1000
	times := m.Predict(p)
	c := &chart{Title: fmt.Sprintf("%d servers of %d GPUs, mode %s, %s: %s predicted", p.Servers, p.GPUs, p.Mode, command.Plural(len(p.Stages), "stage", "stages"), command.MS(times.Total*ms)),
		X: "predicted time in ms", End: times.Total * ms, Kinds: []string{"moves inside servers", "stage", "a NIC sends"}}
	nics := min(mostRows, p.Ranks())
	c.Rows = make([]row, 2+nics)
	c.Rows[0].Label, c.Rows[1].Label = "inside servers", "stages"
	for r := range nics {
		c.Rows[2+r].Label = fmt.Sprintf("NIC %d", r)
	}
	steps := m.Steps(p)
	for i, s := range steps {
		begin := s.Begin * ms
		if s.Moves > 0 {
			c.Rows[0].Bars = append(c.Rows[0].Bars, bar{From: begin, To: begin + s.Moves*ms, Tip: fmt.Sprintf("the busiest GPU has %d bytes", p.Busiest[i])})
		}
		if s.Stage == 0 {
			continue
		}
		stage := &p.Stages[i-1]
		c.Rows[1].Bars = append(c.Rows[1].Bars, bar{From: begin, To: begin + s.Stage*ms, Kind: 1, Label: fmt.Sprint(i - 1), Tip: fmt.Sprintf("stage %d of %d bytes", i-1, stage.Length)})
		for _, x := range stage.Transfers {
			if int(x.From) < nics {
				row := &c.Rows[2+x.From]
				row.Bars = append(row.Bars, bar{From: begin, To: begin + s.Stage*ms*float64(x.Bytes)/float64(stage.Length), Kind: 2, Label: fmt.Sprintf("→%d", x.To),
					Tip: fmt.Sprintf("%d bytes to NIC %d", x.Bytes, x.To)})
			}
		}
	}
	c.Desc = fmt.Sprintf("When stages are, what moves inside servers beside them, and what the first %s sends. ", command.Plural(nics, "NIC", "NICs")) +
		joined(p.Stages, func(i int, s gpu.Stage) string { return fmt.Sprintf("stage %d: %d bytes", i, s.Length) }) + "."
	return c
}
