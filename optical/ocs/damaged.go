package ocs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// Port is a port of a switch that a rack sends into or receives from.
type Port struct {
	Switch   int  `json:"switch"`
	Rack     int  `json:"rack"`
	Receives bool `json:"receives,omitempty"` // the rack receives from it
}

// String names a port as --dead-port does.
func (p Port) String() string {
	if p.Receives {
		return fmt.Sprintf("%d:%d:receives", p.Switch, p.Rack)
	}
	return fmt.Sprintf("%d:%d:sends", p.Switch, p.Rack)
}

// Damage lists the dead switches and ports.
type Damage struct {
	DeadSwitches []int  `json:"dead_switches,omitempty"`
	DeadPorts    []Port `json:"dead_ports,omitempty"`
}

// None reports whether all switches and ports work.
func (g *Damage) None() bool { return len(g.DeadSwitches)+len(g.DeadPorts) == 0 }

// Joins reports whether switch h can carry light from rack i to rack j.
func (g *Damage) Joins(h, i, j int) bool {
	return !slices.Contains(g.DeadSwitches, h) && !slices.Contains(g.DeadPorts, Port{h, i, false}) && !slices.Contains(g.DeadPorts, Port{h, j, true})
}

// check returns an error if the damage is out of the range of s switches and n racks.
func (g *Damage) check(s, n int) error {
	for _, h := range g.DeadSwitches {
		if h < 0 || h >= s {
			return fmt.Errorf("dead switch %d: there are switches 0 to %d", h, s-1)
		}
	}
	for _, p := range g.DeadPorts {
		if p.Switch < 0 || p.Switch >= s || p.Rack < 0 || p.Rack >= n {
			return fmt.Errorf("dead port of rack %d on switch %d: there are racks 0 to %d and switches 0 to %d", p.Rack, p.Switch, n-1, s-1)
		}
	}
	return nil
}

// alive lists those of s switches that are not dead.
func (g *Damage) alive(s int) (list []int) {
	for h := range s {
		if !slices.Contains(g.DeadSwitches, h) {
			list = append(list, h)
		}
	}
	return list
}

// Bound bounds the makespan on s damaged switches: the bounds for the live ones, and theorem
// 1 for each row, column and entry with the number of switches that can carry it.
func (g *Damage) Bound(d *Demand, s int, δ float64) Bounds {
	alive := g.alive(s)
	b := Bound(d, len(alive), δ)
	if len(g.DeadPorts) == 0 {
		return b
	}
	dead := map[Port]bool{}
	for _, p := range g.DeadPorts {
		dead[p] = true
	}
	count := func(ok func(h int) bool) (n int) {
		for _, h := range alive {
			if ok(h) {
				n++
			}
		}
		return n
	}
	for l, line := range d.lines() {
		if n := count(func(h int) bool { return !dead[Port{h, l % d.n, l >= d.n}] }); len(line) > 0 && n < len(alive) {
			b.Sharp = max(b.Sharp, theorem1(line, n, δ))
		}
	}
	for e, x := range d.amount {
		n := count(func(h int) bool { return !dead[Port{h, int(d.from[e]), false}] && !dead[Port{h, int(d.to[e]), true}] })
		if n < len(alive) {
			b.Sharp = max(b.Sharp, theorem1([]float64{x}, n, δ))
		}
	}
	return b
}

// makeDamaged schedules a demand on damaged switches, in two ways: on the switches without
// a dead port, relieved by the others, or on all live switches, with more permutations for
// the demand that dead ports block. It returns the shorter schedule.
func (o Options) makeDamaged(ctx context.Context, d *Demand) (*Schedule, error) {
	if err := o.Damage.check(o.Switches, d.n); err != nil {
		return nil, err
	}
	if o.From != nil {
		return nil, errors.New("a schedule to begin with requires that no switch or port is dead")
	}
	alive := o.alive(o.Switches)
	if len(alive) == 0 {
		return nil, errors.New("all switches are dead")
	}
	for e, j := range d.to {
		if !slices.ContainsFunc(alive, func(h int) bool { return o.Joins(h, int(d.from[e]), int(j)) }) {
			return nil, fmt.Errorf("no switch can carry the demand from rack %d to rack %d: a port of them is dead on each", d.from[e], j)
		}
	}
	whole := slices.DeleteFunc(slices.Clone(alive), func(h int) bool {
		return slices.ContainsFunc(o.DeadPorts, func(p Port) bool { return p.Switch == h })
	})
	var best *Schedule
	var ended error
	for _, on := range [][]int{whole, alive} {
		if len(on) == 0 || best != nil && (len(whole) == len(alive) || ended != nil) {
			continue
		}
		s, err := o.on(ctx, d, on)
		if s == nil {
			return best, err
		}
		switch {
		case len(on) == len(whole):
			if err == nil && len(whole) < len(alive) {
				s, err = s.relieve(ctx, d, whole, alive)
			}
		case err != nil:
			s = nil // it does not carry all demand
		default:
			s, err = s.addKeptBack(ctx, d, alive)
		}
		ended = err
		if s != nil && (best == nil || s.Makespan() < best.Makespan()) {
			best = s
		}
	}
	return best, ended
}

// on schedules a demand on some of the switches as if they were undamaged.
func (o Options) on(ctx context.Context, d *Demand, switches []int) (*Schedule, error) {
	all := &Schedule{Racks: d.n, Delta: o.Delta, Switches: make([]Switch, o.Switches), Damage: o.Damage}
	for h := range all.Switches {
		all.Switches[h].Configs = []Config{}
	}
	o.Switches, o.Damage = len(switches), Damage{}
	s, err := Make(ctx, d, o)
	if s == nil {
		return nil, err
	}
	for i, h := range switches {
		all.Switches[h] = s.Switches[i]
	}
	return all, err
}

// tries is the number of assignments to the switches that addKeptBack tries.
const tries = 24

// addKeptBack tries some assignments of the switches' schedules in s to the live switches,
// completes each by carryKeptBack, and returns the shortest. If ctx ends, it returns the
// shortest so far, or nil.
func (s *Schedule) addKeptBack(ctx context.Context, d *Demand, alive []int) (best *Schedule, err error) {
	rng := rand.New(rand.NewPCG(1, 0))
	part := slices.Clone(alive)
	for range tries {
		t := &Schedule{Racks: s.Racks, Delta: s.Delta, Switches: slices.Clone(s.Switches), Damage: s.Damage}
		for i, h := range alive {
			t.Switches[h] = s.Switches[part[i]]
			t.Switches[h].Configs = slices.Clip(t.Switches[h].Configs)
		}
		if err := t.carryKeptBack(ctx, d, alive); err != nil {
			return best, err
		}
		if best == nil || t.Makespan() < best.Makespan() {
			best = t
		}
		rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	return best, nil
}

// carryKeptBack adds configurations for the demand that dead ports block: matchings of the
// largest remaining demand, each on the switch that finishes first of those that can carry
// any of it.
func (s *Schedule) carryKeptBack(ctx context.Context, d *Demand, alive []int) error {
	rest := slices.Clone(d.amount)
	for h := range s.Switches {
		for _, c := range s.Switches[h].Configs {
			for i, j := range c.Permutation {
				if e := d.entry(i, j); e >= 0 && s.Joins(h, i, int(j)) {
					rest[e] -= c.Weight
				}
			}
		}
	}
	share := s.shares(d, alive, rest)
	weight, by := make([]int64, len(rest)), scale(d)
	var weigher bipartite.Weigher
	for {
		order := slices.Clone(alive)
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Switches[a].Load, s.Switches[b].Load) })
		most, left := int64(0), false
		h := -1
		for _, h = range order {
			for e, x := range rest {
				weight[e] = 0
				if x > tolerance*d.amount[e] {
					left = true
					if s.Joins(h, int(d.from[e]), int(d.to[e])) {
						weight[e] = max(1, int64(x*by))
					}
				}
				most = max(most, weight[e])
			}
			if most > 0 {
				break
			}
		}
		if !left {
			return nil
		}
		pick, err := weigher.Match(ctx, d.n, d.start, d.to, weight)
		if err != nil {
			return err
		}
		s.add(d, h, pick, rest, share, weight)
	}
}

// relieve shortens a schedule on the undamaged switches with the help of the others. It lowers
// the weights, in steps, to those that racks with dead ports need, and all live switches carry
// the demand that is then missing. If ctx ends, it returns the shortest schedule so far.
func (s *Schedule) relieve(ctx context.Context, d *Demand, whole, alive []int) (*Schedule, error) {
	wanted := make([]bool, len(d.to)) // entries that some live switch cannot carry
	for e, i := range d.from {
		wanted[e] = slices.ContainsFunc(alive, func(h int) bool { return !s.Joins(h, int(i), int(d.to[e])) })
	}
	all, _ := parts(d, s.Switches, len(s.Switches), s.Delta)
	few := newCover(d.only(wanted), len(all.weight))
	for i, column := range all.column {
		few.addColumns(column, all.weight[i])
	}
	few.refine()
	best := s
	for share := 1; share <= reliefs; share++ {
		t := &Schedule{Racks: s.Racks, Delta: s.Delta, Switches: slices.Clone(s.Switches), Damage: s.Damage}
		c := newCover(d, len(all.weight))
		for i, α := range all.weight {
			c.addColumns(all.column[i], α+(few.weight[i]-α)*float64(share)/reliefs)
		}
		c.prune()
		for i, sw := range pack(c.weight, len(whole), s.Delta).schedule(c).Switches {
			t.Switches[whole[i]] = sw
		}
		if err := t.carryKeptBack(ctx, d, alive); err != nil {
			return best, err
		}
		if t.Makespan() < best.Makespan() {
			best = t
		}
	}
	return best, nil
}

// reliefs is the number of steps by which relieve lowers the weights.
const reliefs = 8

// shares returns the part of each remaining entry that one switch carries: an equal share
// of all switches that can carry it, or the whole entry if the share is small.
func (s *Schedule) shares(d *Demand, alive []int, rest []float64) []float64 {
	const little, least = 4, 100 // δ, and a share of the largest demand
	share := slices.Clone(rest)
	for e, x := range rest {
		can := 0
		for _, h := range alive {
			if s.Joins(h, int(d.from[e]), int(d.to[e])) {
				can++
			}
		}
		if part := x / float64(max(1, can)); part > max(little*s.Delta, slices.Max(d.amount)/least) {
			share[e] = part
		}
	}
	return share
}

// add appends a configuration to switch h that carries its share of the entries picked.
func (s *Schedule) add(d *Demand, h int, pick []int32, rest, share []float64, weight []int64) {
	α := 0.0
	for i, e := range pick {
		if e >= 0 && weight[e] == 0 {
			pick[i] = -1
		} else if e >= 0 {
			α = max(α, min(rest[e], share[e]))
		}
	}
	for _, e := range pick {
		if e >= 0 {
			rest[e] = max(0, rest[e]-α)
		}
	}
	c := newCover(d, 1)
	c.add(pick, α)
	sw := &s.Switches[h]
	x := Config{Permutation: c.column[0], Start: sw.Load + s.Delta, Weight: α}
	sw.Configs, sw.Load = append(sw.Configs, x), x.Start+α
}
