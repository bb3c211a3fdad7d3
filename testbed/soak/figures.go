package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// figures are what a run has seen.
type figures struct {
	options
	kinds  map[string]int // [change or disturbance]
	events int
	plans  int
	times  []time.Duration // from an undisturbed change of the fabric to its plan, at a reader
	began  time.Time
}

func (f *figures) add(e event, took time.Duration, plans int) {
	f.events++
	f.plans += plans
	name := e.Change
	if len(e.Where) > 1 && (name == "pull" || name == "plug") {
		name += " several"
	}
	if name != "" {
		f.kinds[name]++
	}
	if e.With != "" {
		f.kinds["with "+e.With]++
	}
	if e.With == "" && plans > 0 && !slices.Contains([]string{"", "errors", "miswire", "rewire", "flap"}, e.Change) {
		f.times = append(f.times, took)
	}
}

// print prints the figures as the documentation has them.
func (f *figures) print(w io.Writer) {
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(f.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, f.kinds[k]))
	}
	fmt.Fprintf(w, "FT(2;%s) by %s, seed %d: %d events in %v, %d plans.\n", strings.ReplaceAll(f.Fabric, "x", ","), f.Mode, f.Seed, f.events, time.Since(f.began).Round(time.Second), f.plans)
	fmt.Fprintf(w, "Events: %s.\n", strings.Join(kinds, ", "))
	if n := len(f.times); n > 0 {
		slices.Sort(f.times)
		ms := func(i int) float64 { return float64(f.times[i].Microseconds()) / 1000 }
		fmt.Fprintf(w, "From a change to its plan at a reader, ms, %d undisturbed changes: median %.1f, 95 %% within %.1f, 99 %% within %.1f, worst %.1f.\n",
			n, ms(n/2), ms(n*95/100), ms(n*99/100), ms(n-1))
	}
}
