package main

import (
	"fmt"
	"io"
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
