package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// change draws a change of one kind; none if the world offers none.
type change struct {
	weight int
	draw   func(*world, *rand.Rand) (event, bool)
}

// changes are in the order in which they are drawn: the same seed, the same events.
var changes = []change{
	{28, func(w *world, rng *rand.Rand) (event, bool) { return w.some(rng, "pull", 1, w.good) }},
	{18, func(w *world, rng *rand.Rand) (event, bool) { return w.some(rng, "plug", 1, w.is(pulled)) }},
	{6, func(w *world, rng *rand.Rand) (event, bool) { return w.some(rng, "pull", 2+rng.IntN(5), w.good) }},
	{4, func(w *world, rng *rand.Rand) (event, bool) { return w.some(rng, "plug", 2+rng.IntN(9), w.is(pulled)) }},
	{6, func(w *world, rng *rand.Rand) (event, bool) { return w.some(rng, "flap", 1, w.good) }},
	{4, (*world).drawErrors},
	{3, (*world).drawRelease},
	{4, func(w *world, rng *rand.Rand) (event, bool) { return w.some(rng, "slow", 1, w.good) }},
	{3, func(w *world, rng *rand.Rand) (event, bool) { return w.some(rng, "fast", 1, w.is(slow)) }},
	{6, (*world).drawDrain},
	{5, (*world).drawUndrain},
	{2, (*world).drawLease},
	{10, (*world).drawHost},
	{5, (*world).drawSpine},
	{4, (*world).drawLeaf},
	{4, (*world).drawWires},
	{4, func(*world, *rand.Rand) (event, bool) { return event{}, true }},
}

// disturbance is a disturbed program and how often, in thousandths of the events.
type disturbance struct {
	name  string
	share int
}

// disturbances for a site with one manager; a site with two has handovers as well. In 1000
// events forsd is killed 200 times, OpenSM 50 times, and the disk is full and the clock
// stepped 20 times, or more often; the clock stands in a third of its disturbances.
var disturbances = []disturbance{{"kill-forsd", 245}, {"kill-opensm", 80}, {"disk-full", 40}, {"clock", 56}, {"hang-forsd", 20}, {"handover", 30}}

// draw draws an event that fits the world, and carries the world on. Disturbances that the
// site does not have are left out.
func (w *world) draw(rng *rand.Rand, without []string) event {
	for {
		e, ok := w.drawChange(rng)
		if !ok {
			continue
		}
		w.disturb(rng, &e, without)
		was := w.clone()
		if _, err := w.take(e); err != nil || !w.whole() || !w.during(e).whole() || e.Change == "" && e.With == "" {
			*w = *was
			continue
		}
		return e
	}
}

// during is the world before the effect of an event has ended by itself. A cable that bounces
// counts as pulled if others are isolated: forsd takes these back if no plan works without them.
func (w *world) during(e event) *world {
	c := w.clone()
	switch {
	case e.Change == "drain-for":
		c.drains = append(c.drains, e.Where...)
	case e.Change == "flap" && len(w.bad) > 0:
		if p, err := parsePlace(e.Where[0]); err == nil {
			if leaf, lane, err := c.cable(p); err == nil {
				c.cables[leaf][lane] = pulled
			}
		}
	}
	return c
}

func (w *world) drawChange(rng *rand.Rand) (event, bool) {
	total := 0
	for _, c := range changes {
		total += c.weight
	}
	n := rng.IntN(total)
	for _, c := range changes {
		if n -= c.weight; n < 0 {
			return c.draw(w, rng)
		}
	}
	panic("unreachable")
}

// disturb adds a disturbance to some events.
func (w *world) disturb(rng *rand.Rand, e *event, without []string) {
	n := rng.IntN(1000)
	for _, d := range disturbances {
		if n -= d.share; n >= 0 {
			continue
		}
		if slices.Contains(without, d.name) {
			return
		}
		e.With = d.name
		// A plan is there within milliseconds, its tables within some hundreds.
		e.After = time.Duration(rng.IntN(12)-3) * time.Duration(rng.IntN(40)) * time.Millisecond
		if d.name == "clock" {
			e.By = rng.IntN(7200) * (rng.IntN(3) - 1)
		}
		if e.orders() { // forsd must be there to take it
			e.After = e.After.Abs()
		}
		if e.Change == "drain-for" { // it ends by the clock
			e.By = max(e.By, 0)
		}
		return
	}
}

// is accepts cables in a state.
func (w *world) is(f fault) func(leaf, lane int) bool {
	return func(leaf, lane int) bool { return w.cables[leaf][lane] == f }
}

// some draws that many cables, or all if there are fewer.
func (w *world) some(rng *rand.Rand, name string, n int, fits func(leaf, lane int) bool) (event, bool) {
	var all []string
	for l := range w.leaves {
		for k := range w.tree.Lanes {
			if fits(l, k) {
				all = append(all, w.port(l, k).String())
			}
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return event{Change: name, Where: all[:min(n, len(all))]}, len(all) > 0
}

// drawErrors makes a cable count errors, of which one at a leaf and two in all may be isolated.
func (w *world) drawErrors(rng *rand.Rand) (event, bool) {
	return w.some(rng, "errors", 1, func(leaf, lane int) bool {
		at := func(p place) bool { return p.Node == w.tree.Leaves[leaf].Name }
		return w.free(leaf, lane) && len(w.bad) < 2 && !slices.ContainsFunc(w.bad, at)
	})
}

func (w *world) drawRelease(rng *rand.Rand) (event, bool) {
	if len(w.bad) == 0 {
		return event{}, false
	}
	return event{Change: "release", Where: []string{w.bad[rng.IntN(len(w.bad))].String()}}, true
}

// drawDrain takes out a cable, a spine or a leaf, for a while or until it is given back.
func (w *world) drawDrain(rng *rand.Rand) (e event, ok bool) {
	kind := rng.IntN(6)
	switch {
	case len(w.drains) == 4:
		return e, false
	case kind == 0:
		e.Where = []string{w.tree.Spines[rng.IntN(len(w.tree.Spines))].Name}
	case kind == 1:
		e.Where = []string{w.tree.Leaves[rng.IntN(len(w.tree.Leaves))].Name}
	default:
		e, ok = w.some(rng, "", 1, func(leaf, lane int) bool { return w.cables[leaf][lane] != miswired && !w.twin(leaf, lane) })
		if !ok {
			return e, false
		}
	}
	e.Change = []string{"drain", "drain", "drain-for"}[rng.IntN(3)]
	return e, !slices.Contains(w.drains, e.Where[0])
}

func (w *world) drawUndrain(rng *rand.Rand) (event, bool) {
	if len(w.drains) == 0 {
		return event{}, false
	}
	return event{Change: "undrain", Where: []string{w.drains[rng.IntN(len(w.drains))]}}, true
}

// drawLease makes a job whose lease ends after some seconds.
func (w *world) drawLease(rng *rand.Rand) (event, bool) {
	return event{Change: "lease", Where: []string{fmt.Sprintf("job%d", w.leases+1), fmt.Sprintf("%ds", 2+rng.IntN(20))}}, true
}

func (w *world) drawHost(rng *rand.Rand) (event, bool) {
	h, off := rng.IntN(len(w.hosts)), 0
	for _, is := range w.hosts {
		if is {
			off++
		}
	}
	leaf := w.tree.Hosts[h].Leaf
	if w.leaves[leaf] || slices.Contains(w.keep, leaf) {
		return event{}, false
	}
	name := "host-pull"
	if w.hosts[h] {
		name = "host-plug"
	} else if 10*off > len(w.hosts) {
		return event{}, false
	}
	return event{Change: name, Where: []string{w.seat(h).String()}}, true
}

// drawSpine turns a spine off, or the spine that is off on again.
func (w *world) drawSpine(rng *rand.Rand) (event, bool) {
	if s := slices.Index(w.spines, true); s >= 0 {
		return event{Change: "spine-on", Where: []string{w.tree.Spines[s].Name}}, w.cross == nil
	}
	s := rng.IntN(len(w.spines))
	return event{Change: "spine-off", Where: []string{w.tree.Spines[s].Name}}, w.cross == nil
}

// drawLeaf does the same with leaves.
func (w *world) drawLeaf(rng *rand.Rand) (event, bool) {
	if l := slices.Index(w.leaves, true); l >= 0 {
		return event{Change: "leaf-on", Where: []string{w.tree.Leaves[l].Name}}, w.cross == nil
	}
	l := rng.IntN(len(w.leaves))
	return event{Change: "leaf-off", Where: []string{w.tree.Leaves[l].Name}}, w.cross == nil && !slices.Contains(w.keep, l)
}

// drawWires swaps two cables of different lanes, or puts swapped ones right.
func (w *world) drawWires(rng *rand.Rand) (event, bool) {
	if w.cross != nil {
		return event{Change: "rewire"}, true
	}
	e, ok := w.some(rng, "miswire", 2, w.free)
	if !ok || len(e.Where) != 2 {
		return e, false
	}
	var lanes [2]int
	for i, text := range e.Where {
		p, err := parsePlace(text)
		if err != nil {
			return e, false
		}
		if _, lanes[i], err = w.cable(p); err != nil {
			return e, false
		}
	}
	return e, w.tree.LaneOf[lanes[0]] != w.tree.LaneOf[lanes[1]]
}

func (w *world) clone() *world {
	c := *w
	c.cables = make([][]fault, len(w.cables))
	for l := range w.cables {
		c.cables[l] = slices.Clone(w.cables[l])
	}
	c.leaves, c.spines, c.hosts, c.cross = slices.Clone(w.leaves), slices.Clone(w.spines), slices.Clone(w.hosts), slices.Clone(w.cross)
	c.drains, c.bad = slices.Clone(w.drains), slices.Clone(w.bad)
	return &c
}
