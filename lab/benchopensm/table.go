package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// report prints the medians of all ways as Markdown tables, and the plugin's figures with
// their limits.
func report(out io.Writer, ways []*way) {
	fmt.Fprintf(out, "Medians of %d, in milliseconds after the change, FT(2;%d,%d), LMC 5; tables, in blocks of 64 entries:\n", len(ways[0].pulled), spines, leaves)
	table(out, "A cable is pulled", ways, func(w *way) []timeline { return w.pulled })
	table(out, "It is put back", ways, func(w *way) []timeline { return w.back })
	of := map[string]timeline{}
	for _, w := range ways {
		of[w.name] = median(w.pulled)
	}
	minhop, files, plugin := of[byMinHop], of[byFiles], of[byPlugin]
	fmt.Fprintf(out, "\nA cable is pulled: from the trap to the plan %s ms by the plugin (wanted: under 10); from the trap to the last block %.2f times min-hop's (at most 1.1); %d blocks, by files %d (at most as many).\n",
		ms(plugin.published-plugin.trap), float64(plugin.tables-plugin.trap)/float64(minhop.tables-minhop.trap), plugin.blocks, files.blocks)
}

// compare prints the times from the trap to the plan of two ways, and their ratio.
func compare(out io.Writer, ways []*way) error {
	with, without := ways[0], ways[1]
	if with.name == bare {
		with, without = without, with
	}
	for _, change := range []struct {
		name string
		of   func(*way) []timeline
	}{{"A cable is pulled", func(w *way) []timeline { return w.pulled }}, {"It is put back", func(w *way) []timeline { return w.back }}} {
		var times [2][]float64
		var logs []float64
		for n, t := range change.of(with) {
			a, b := t.toPlan(), change.of(without)[n].toPlan()
			if a <= 0 || b <= 0 {
				return fmt.Errorf("%s: failure %d had no plan after its trap: %v; %v", change.name, n+1, t, change.of(without)[n])
			}
			times[0], times[1] = append(times[0], a), append(times[1], b)
			logs = append(logs, math.Log(a/b))
		}
		shift, from, to := hodgesLehmann(logs)
		fmt.Fprintf(out, "%s, from the trap to the plan, %d pairs, the same cable in both, in turns: medians with the history %.3f ms, without %.3f ms; ratio by Hodges and Lehmann %.4f (95 %%: %.4f to %.4f).\n",
			change.name, len(logs), middle(times[0])/1e6, middle(times[1])/1e6, math.Exp(shift), math.Exp(from), math.Exp(to))
	}
	return nil
}

// toPlan is the time from the trap to the plan, in nanoseconds; not positive without a plan.
func (t timeline) toPlan() float64 { return float64(t.published - t.trap) }

// hodgesLehmann is the estimate of Hodges and Lehmann of the location of paired differences,
// the median of the averages of any two of them, and its 95 % confidence interval by the
// signed-rank test of Wilcoxon.
func hodgesLehmann(differences []float64) (estimate, from, to float64) {
	var averages []float64
	for i, a := range differences {
		for _, b := range differences[i:] {
			averages = append(averages, (a+b)/2)
		}
	}
	slices.Sort(averages)
	n := float64(len(differences))
	k := max(0, int(n*(n+1)/4-1.96*math.Sqrt(n*(n+1)*(2*n+1)/24)))
	return middle(averages), averages[k], averages[len(averages)-1-k]
}

// middle is the median.
func middle(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func table(out io.Writer, title string, ways []*way, of func(*way) []timeline) {
	fmt.Fprintf(out, "\n| %s | trap | sweep done | engine called | plan published | last block sent | SUBNET UP | blocks sent |\n|---|---|---|---|---|---|---|---|\n", title)
	for _, w := range ways {
		m := median(of(w))
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %d |\n", w.name, ms(m.trap), ms(m.discovered), ms(m.engine), ms(m.published), ms(m.tables), ms(m.up), m.blocks)
	}
}

// ms is a time in milliseconds, in as many figures as it has meaning.
func ms(d time.Duration) string {
	switch v := d.Seconds() * 1000; {
	case d == 0:
		return "–"
	case v < 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

// median is the median of every figure by itself.
func median(all []timeline) timeline {
	of := func(figure func(timeline) int64) int64 {
		var values []int64
		for _, t := range all {
			values = append(values, figure(t))
		}
		slices.Sort(values)
		n := len(values)
		return (values[(n-1)/2] + values[n/2]) / 2
	}
	span := func(figure func(timeline) time.Duration) time.Duration {
		return time.Duration(of(func(t timeline) int64 { return int64(figure(t)) }))
	}
	return timeline{
		trap:       span(func(t timeline) time.Duration { return t.trap }),
		discovered: span(func(t timeline) time.Duration { return t.discovered }),
		engine:     span(func(t timeline) time.Duration { return t.engine }),
		published:  span(func(t timeline) time.Duration { return t.published }),
		tables:     span(func(t timeline) time.Duration { return t.tables }),
		up:         span(func(t timeline) time.Duration { return t.up }),
		blocks:     int(of(func(t timeline) int64 { return int64(t.blocks) })),
	}
}

// String prints the timeline on one line.
func (t timeline) String() string {
	return fmt.Sprintf("trap %s, sweep done %s, engine %s, published %s, last of %d blocks %s, up %s", ms(t.trap), ms(t.discovered), ms(t.engine), ms(t.published), t.blocks, ms(t.tables), ms(t.up))
}
