package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// figures are the results of a run.
type figures struct {
	options
	kinds  map[string]int // [change or disturbance]
	events int
	plans  int
	// overruns counts how often ibsim's client library has ended forsd; see e2e.Forsd.Overrun.
	overruns int
	lost     []time.Duration // from an undisturbed loss to the plan without it, at a reader
	back     []time.Duration // the same for parts that come back, which need tables first
	began    time.Time
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
	switch {
	case e.With == "clock" && e.By == 0:
		f.kinds["with clock standing"]++
	case e.With == "clock":
		f.kinds["with clock stepped"]++
	case e.With != "":
		f.kinds["with "+e.With]++
	}
	switch {
	case e.With != "" || plans == 0:
	case slices.Contains([]string{"pull", "host-pull", "spine-off", "leaf-off"}, e.Change):
		f.lost = append(f.lost, took)
	case slices.Contains([]string{"plug", "host-plug", "spine-on", "leaf-on"}, e.Change):
		f.back = append(f.back, took)
	}
}

// print prints the figures in the documentation's form, each line behind a mark.
func (f *figures) print(w io.Writer, mark string) {
	name := f.Fabric
	if m0, m1, ok := strings.Cut(name, "x"); ok {
		name = fmt.Sprintf("FT(2;%s,%s)", m0, m1)
	}
	fmt.Fprintf(w, "%s%s by %s, seed %d: %d events in %v, %d plans.\n", mark, name, f.Mode, f.Seed, f.events, time.Since(f.began).Round(time.Second), f.plans)
	if f.overruns > 0 {
		fmt.Fprintf(w, "%sibsim's client library has ended forsd %d times.\n", mark, f.overruns)
	}
	for _, t := range []struct {
		what  string
		times []time.Duration
	}{{"losses", f.lost}, {"returns", f.back}} {
		n := len(t.times)
		if n == 0 {
			continue
		}
		slices.Sort(t.times)
		ms := func(i int) float64 { return float64(t.times[i].Microseconds()) / 1000 }
		fmt.Fprintf(w, "%sFrom a change to its plan at a reader, ms, %d undisturbed %s: median %.1f, 95 %% within %.1f, 99 %% within %.1f, worst %.1f.\n",
			mark, n, t.what, ms(n/2), ms(n*95/100), ms(n*99/100), ms(n-1))
	}
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(f.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, f.kinds[k]))
	}
	fmt.Fprintf(w, "%sEvents: %s.\n", mark, strings.Join(kinds, ", "))
}
