package ocs

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// carriedBy computes independently how much a schedule carries on live ports: at most one
// circuit per port at a time, and only while it stands.
func carriedBy(t *rapid.T, s *Schedule, g Damage) []float64 {
	sums := make([]float64, s.Racks*s.Racks)
	for h, sw := range s.Switches {
		for _, dead := range g.DeadSwitches {
			if dead == h && len(sw.Configs) > 0 {
				t.Fatalf("dead switch %d has %d configurations", h, len(sw.Configs))
			}
		}
		for _, c := range sw.Configs {
		next:
			for i, j := range c.Permutation {
				for _, p := range g.DeadPorts {
					if p.Switch == h && (p.Receives && p.Rack == int(j) || !p.Receives && p.Rack == i) {
						continue next
					}
				}
				sums[i*s.Racks+int(j)] += c.Weight
			}
		}
	}
	return sums
}

// TestDamaged schedules on damaged switches: all demand is carried, not by dead ports,
// Replay agrees, and no schedule beats the bound, which never falls with more damage.
func TestDamaged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDemand(t)
		o := drawOptions(t, d)
		o.Method, o.Steps = Best, 50
		bound := Bound(d, o.Switches, o.Delta).Sharp
		for range rapid.IntRange(1, 6).Draw(t, "faults") {
			if h := rapid.IntRange(0, o.Switches-1).Draw(t, "switch"); rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				o.DeadSwitches = append(o.DeadSwitches, h)
			} else {
				o.DeadPorts = append(o.DeadPorts, Port{h, rapid.IntRange(0, d.n-1).Draw(t, "rack"), rapid.Bool().Draw(t, "receives")})
			}
		}
		s, err := Make(bg, d, o)
		if err != nil {
			if !strings.Contains(err.Error(), "no switch can carry") && !strings.Contains(err.Error(), "all switches are dead") {
				t.Fatal(err)
			}
			return
		}
		if err := Replay(d, s); err != nil {
			t.Fatal(err)
		}
		sums := carriedBy(t, s, o.Damage)
		for i := range d.n {
			for j := range d.n {
				if x := d.At(i, j); sums[i*d.n+j] < x*(1-1e-8) {
					t.Fatalf("from rack %d to rack %d %v of %v is carried", i, j, sums[i*d.n+j], x)
				}
			}
		}
		left := o.Damage.Bound(d, o.Switches, o.Delta).Sharp
		if left < bound*(1-1e-9) || s.Makespan() < left*(1-1e-8) {
			t.Fatalf("makespan %v, bound %v, before the damage %v", s.Makespan(), left, bound)
		}
	})
}

// TestDamagedBenchmark compares the makespan of a damaged site with the bound.
func TestDamagedBenchmark(t *testing.T) {
	d, err := Workload("benchmark", 100, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		g    Damage
		most float64
	}{
		{"a switch", Damage{DeadSwitches: []int{1}}, 1.03},
		{"a port", Damage{DeadPorts: []Port{{1, 17, false}}}, 1.03},
		{"two ports of a switch", Damage{DeadPorts: []Port{{1, 17, false}, {1, 40, true}}}, 1.03},
		{"a port of each switch", Damage{DeadPorts: []Port{{0, 1, false}, {1, 17, false}, {2, 40, true}, {3, 80, true}}}, 1.06},
	} {
		o := Options{Switches: 4, Delta: 0.01, Method: Best, Steps: 20000, Damage: c.g}
		s := mustMake(t, d, o)
		if err := Replay(d, s); err != nil {
			t.Fatal(err)
		}
		ratio := s.Makespan() / c.g.Bound(d, 4, 0.01).Sharp
		t.Logf("without %s: %.4f, %.4f times the bound", c.name, s.Makespan(), ratio)
		if ratio > c.most {
			t.Errorf("without %s: %v times the bound, want at most %v", c.name, ratio, c.most)
		}
	}
}
