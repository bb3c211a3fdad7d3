package ocs

import (
	"fmt"
	"math"
	"slices"
)

// Replay runs a schedule circuit by circuit and returns the first error: a configuration
// that is not a permutation, or that begins less than δ after the end of the previous one,
// a load that is not the end of the last configuration, or a demand that is not carried;
// dead ports carry nothing. It shares no code with the methods that make schedules.
func Replay(d *Demand, s *Schedule) error {
	n := d.Racks()
	if s.Racks != n {
		return fmt.Errorf("the schedule is for %d racks, the demand has %d", s.Racks, n)
	}
	if s.Standing != nil && len(s.Standing) != len(s.Switches) {
		return fmt.Errorf("%d permutations stand on %d switches", len(s.Standing), len(s.Switches))
	}
	dust := 0.0 // an amount that may be left over from rounding
	for _, amount := range d.amount {
		dust = max(dust, 1e-12*amount)
	}
	carried := make([]float64, n*n)
	for h := range s.Switches {
		var standing []int32
		if s.Standing != nil {
			standing = s.Standing[h]
		}
		if slices.Contains(s.DeadSwitches, h) && len(s.Switches[h].Configs) > 0 {
			return fmt.Errorf("switch %d is dead, but has configurations", h)
		}
		if err := replaySwitch(s, h, standing, carried); err != nil {
			return fmt.Errorf("switch %d: %w", h, err)
		}
	}
	for i := range n {
		for j := range n {
			if want := d.At(i, j); i != j && carried[i*n+j] < want-max(rounding*want, dust) {
				return fmt.Errorf("from rack %d to rack %d %v of %v is carried", i, j, carried[i*n+j], want)
			}
		}
	}
	return nil
}

// rounding is the largest relative rounding error of a time or an amount.
const rounding = 1e-9

// replaySwitch replays one switch and adds what it carries to carried, [from·n+to].
func replaySwitch(s *Schedule, h int, standing []int32, carried []float64) error {
	sw, n, δ := &s.Switches[h], s.Racks, s.Delta
	sends, receives := make([]bool, n), make([]bool, n) // dead
	for _, p := range s.DeadPorts {
		if p.Rack < 0 || p.Rack >= n {
			return fmt.Errorf("a port of rack %d is dead: there are %d racks", p.Rack, n)
		}
		if p.Switch == h && p.Receives {
			receives[p.Rack] = true
		} else if p.Switch == h {
			sends[p.Rack] = true
		}
	}
	now := 0.0
	for c, x := range sw.Configs {
		if err := permutes(x.Permutation, n); err != nil {
			return fmt.Errorf("configuration %d: %w", c, err)
		}
		if !(x.Weight > 0) || math.IsInf(x.Weight, 0) {
			return fmt.Errorf("configuration %d stands for %v: want more than 0", c, x.Weight)
		}
		wait := δ
		if slices.Equal(x.Permutation, standing) {
			wait = 0
		}
		if !(x.Start >= (now+wait)*(1-rounding)) {
			return fmt.Errorf("configuration %d stands from %v, but the one before it ends at %v and changing takes %v", c, x.Start, now, wait)
		}
		for i, j := range x.Permutation {
			if !sends[i] && !receives[j] {
				carried[i*n+int(j)] += x.Weight
			}
		}
		now, standing = x.Start+x.Weight, x.Permutation
	}
	if !(math.Abs(sw.Load-now) <= rounding*now) {
		return fmt.Errorf("its load is stated as %v, but it ends at %v", sw.Load, now)
	}
	return nil
}

// permutes returns an error if p is not a permutation of n racks.
func permutes(p []int32, n int) error {
	if len(p) != n {
		return fmt.Errorf("it joins %d racks, want %d", len(p), n)
	}
	taken := make([]bool, n)
	for i, j := range p {
		if j < 0 || int(j) >= n {
			return fmt.Errorf("it joins rack %d to rack %d of %d", i, j, n)
		}
		if taken[j] {
			return fmt.Errorf("two racks are joined to rack %d", j)
		}
		taken[j] = true
	}
	return nil
}
