package ocs

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/testbed/asked"
)

// served computes how much of a demand a schedule carries until the period ends, from
// the schedule alone.
func served(d *Demand, s *Schedule, period float64) []float64 {
	carried := make([]float64, d.n*d.n)
	for _, sw := range s.Switches {
		for _, x := range sw.Configs {
			for i, j := range x.Permutation {
				carried[i*d.n+int(j)] += max(0, min(x.Start+x.Weight, period)-x.Start)
			}
		}
	}
	for e := range carried {
		carried[e] = min(carried[e], d.At(e/d.n, e%d.n))
	}
	return carried
}

// TestOnline runs random periods: each schedule replays from the standing circuits, and
// the served demand and the backlog sum to the whole demand.
func TestOnline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDemand(t)
		o := drawOptions(t, d)
		period := d.Total() * rapid.Float64Range(0.01, 2).Draw(t, "period")
		if period == 0 {
			return
		}
		l, err := NewOnline(o, period)
		if err != nil {
			t.Fatal(err)
		}
		left := make([]float64, d.n*d.n)
		for range rapid.IntRange(1, 5).Draw(t, "periods") {
			entries := make([]float64, d.n*d.n)
			for i := range entries {
				entries[i] = d.At(i/d.n, i%d.n) * rapid.SampledFrom([]float64{0, 1, 1, 1, 1.1}).Draw(t, "change")
				left[i] += entries[i]
			}
			next, err := NewDemand(d.n, entries)
			if err != nil {
				t.Fatal(err)
			}
			all, err := NewDemand(d.n, left)
			if err != nil {
				t.Fatal(err)
			}
			p, err := l.Next(bg, next)
			if err != nil {
				t.Fatal(err)
			}
			if err := Replay(all, p.Schedule); err != nil {
				t.Fatal(err)
			}
			if late := p.Schedule.Makespan() - period; math.Abs(max(0, late)-p.Late) > 1e-12*period {
				t.Fatalf("late by %v, said to be %v", late, p.Late)
			}
			sum := 0.0
			for i, x := range served(all, p.Schedule, period) {
				left[i] -= x
				if left[i] < 1e-9*x {
					left[i] = 0
				}
				sum += left[i]
			}
			if math.Abs(sum-p.Backlog) > 1e-6*(sum+p.Backlog)+1e-9*period {
				t.Fatalf("%v is left over, said to be %v", sum, p.Backlog)
			}
		}
	})
}

// TestOnlineKeeps schedules the same matrix repeatedly, and then a slightly changed one.
func TestOnlineKeeps(t *testing.T) {
	d, err := Workload("benchmark", 30, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	const δ = 0.01
	l, err := NewOnline(Options{Switches: 2, Delta: δ}, 1)
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.Next(bg, d)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Fresh || first.Kept != 0 || first.Late != 0 || first.Backlog != 0 {
		t.Errorf("first period: %+v", first)
	}
	for range 3 {
		again, err := l.Next(bg, d)
		if err != nil {
			t.Fatal(err)
		}
		if again.Fresh || again.Kept != again.Schedule.Configurations() {
			t.Errorf("the same matrix: fresh %v, %d of %d kept", again.Fresh, again.Kept, again.Schedule.Configurations())
		}
		if got, want := again.Schedule.Makespan(), first.Schedule.Makespan()-δ; got > want+1e-9 {
			t.Errorf("the same matrix: makespan %v, want at most %v, a δ less", got, want)
		}
	}
	entries := make([]float64, 30*30)
	for e := range entries {
		entries[e] = d.At(e/30, e%30) * (1 + 0.01*float64(e%3))
	}
	changed, err := NewDemand(30, entries)
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Next(bg, changed)
	if err != nil {
		t.Fatal(err)
	}
	if p.Fresh || p.Kept != p.Schedule.Configurations() {
		t.Errorf("a matrix with other weights: fresh %v, %d of %d kept", p.Fresh, p.Kept, p.Schedule.Configurations())
	}
	if _, err := l.Next(bg, &Demand{n: 29, start: make([]int32, 30)}); err == nil {
		t.Error("a matrix of another size: no error")
	}
}

// TestOnlineTooShort gives a matrix less time than it takes: the backlog is served in
// the following periods, which have no new demand.
func TestOnlineTooShort(t *testing.T) {
	d, err := Workload("benchmark", 20, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewOnline(Options{Switches: 2, Delta: 0.001}, 0.3)
	if err != nil {
		t.Fatal(err)
	}
	nothing := &Demand{n: 20, start: make([]int32, 21)}
	p, err := l.Next(bg, d)
	if err != nil {
		t.Fatal(err)
	}
	if p.Late <= 0 || p.Backlog <= 0 || p.Backlog >= d.Total() {
		t.Fatalf("late by %v, %v of %v left over", p.Late, p.Backlog, d.Total())
	}
	for i := 0; p.Backlog > 0; i++ {
		if i > 3 {
			t.Fatalf("%v is left over after %d periods more", p.Backlog, i)
		}
		if p, err = l.Next(bg, nothing); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnusableOnline(t *testing.T) {
	for _, c := range []struct {
		o      Options
		period float64
	}{{Options{}, 1}, {Options{Switches: 1}, 0}, {Options{Switches: 1}, math.NaN()}, {Options{Switches: 1, Method: Eclipse}, 1}} {
		if _, err := NewOnline(c.o, c.period); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// TestOnlineInterrupted ends the context within a period: the schedule at that time carries all.
func TestOnlineInterrupted(t *testing.T) {
	var demands []*Demand
	for seed := range uint64(2) {
		d, err := Workload("benchmark", 16, 5, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		demands = append(demands, d)
	}
	for _, most := range []int{0, 3, 40, 400} {
		l, err := NewOnline(Options{Switches: 2, Delta: 0.01, Method: Best, Steps: 2000}, 10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Next(bg, demands[0]); err != nil {
			t.Fatal(err)
		}
		p, err := l.Next(&asked.Context{Context: bg, Most: most}, demands[1])
		if err != nil || p == nil {
			t.Fatalf("ended after %d: %v", most, err)
		}
		if err := Replay(demands[1], p.Schedule); err != nil {
			t.Errorf("ended after %d: %v", most, err)
		}
	}
}

// TestOnlineDamaged lets switches and ports fail and come back between periods: each
// schedule is valid without them, the other switches keep their circuits while no port is
// dead, and the served demand and the backlog sum to the whole demand.
func TestOnlineDamaged(t *testing.T) {
	d, err := Workload("benchmark", 20, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	const period = 0.9
	var state State
	left := make([]float64, 20*20)
	for i, c := range []struct {
		g     Damage
		keeps bool
	}{{Damage{}, false}, {Damage{DeadSwitches: []int{1}}, true}, {Damage{DeadSwitches: []int{1}}, true}, {Damage{}, false},
		{Damage{DeadSwitches: []int{0}, DeadPorts: []Port{{1, 3, false}, {2, 4, true}}}, false}, {Damage{}, false}} {
		l, err := NewOnline(Options{Switches: 3, Delta: 0.001, Damage: c.g}, period)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			l.State = state
		}
		for e := range left {
			left[e] += d.At(e/20, e%20)
		}
		all, err := NewDemand(20, left)
		if err != nil {
			t.Fatal(err)
		}
		p, err := l.Next(bg, d)
		if err != nil {
			t.Fatal(err)
		}
		for _, on := range []*Demand{all, p.Demand} {
			if err := Replay(on, p.Schedule); err != nil {
				t.Fatalf("period %d: %v", i, err)
			}
		}
		if len(p.Schedule.DeadSwitches) != len(c.g.DeadSwitches) || len(p.Schedule.DeadPorts) != len(c.g.DeadPorts) || p.Fresh == c.keeps || c.keeps && p.Kept == 0 {
			t.Errorf("period %d, with %+v: kept %d, fresh %v, damage %+v", i, c.g, p.Kept, p.Fresh, p.Schedule.Damage)
		}
		for h, sw := range p.Schedule.Switches {
			for _, x := range sw.Configs {
				for from, to := range x.Permutation {
					if e := from*20 + int(to); c.g.Joins(h, from, int(to)) {
						left[e] = max(0, left[e]-max(0, min(x.Weight, period-x.Start)))
					}
				}
			}
		}
		for e, x := range left {
			if math.Abs(x-l.Backlog[e]) > 1e-9 {
				t.Fatalf("period %d: %v is left over of entry %d, said to be %v", i, x, e, l.Backlog[e])
			}
			left[e] = l.Backlog[e]
		}
		state = l.State
	}
	for _, g := range []Damage{{DeadSwitches: []int{0}}, {DeadSwitches: []int{7}}} {
		l, err := NewOnline(Options{Switches: 1, Delta: 0.001, Damage: g}, period)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := l.Next(bg, d); err == nil {
			t.Errorf("%+v: %+v", g, p)
		}
	}
}
