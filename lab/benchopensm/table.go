package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// report prints the medians of all ways, as tables of Markdown, and what the
// plugin is held to.
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

// compare prints the time from the trap to the plan of two ways, and the ratio of the
// medians with the range that holds 95 in 100 ratios of cables drawn anew.
func compare(out io.Writer, ways []*way) {
	times := map[string][]float64{}
	for _, w := range ways {
		for _, t := range w.pulled {
			times[w.name] = append(times[w.name], float64(t.published-t.trap))
		}
	}
	with, without := times[byPlugin], times[bare]
	rng := rand.New(rand.NewPCG(1, 2))
	var ratios []float64
	for range 2000 {
		var a, b []float64
		for range with {
			n := rng.IntN(len(with)) // the same cable in both
			a, b = append(a, with[n]), append(b, without[n])
		}
		ratios = append(ratios, middle(a)/middle(b))
	}
	slices.Sort(ratios)
	fmt.Fprintf(out, "From the trap to the plan, medians of %d cables that were pulled, the same in both, in turns: with the history %.3f ms, without %.3f ms, ratio %.4f (95 %%: %.4f to %.4f).\n",
		len(with), middle(with)/1e6, middle(without)/1e6, middle(with)/middle(without), ratios[50], ratios[1949])
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

// String is all of it in one line.
func (t timeline) String() string {
	return fmt.Sprintf("trap %s, sweep done %s, engine %s, published %s, last of %d blocks %s, up %s", ms(t.trap), ms(t.discovered), ms(t.engine), ms(t.published), t.blocks, ms(t.tables), ms(t.up))
}
