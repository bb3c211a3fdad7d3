package ocs

import "slices"

// Config is one configuration of a switch: its circuits stand from Start for
// Weight.
type Config struct {
	Permutation []int32 `json:"permutation"` // [sending rack] the receiving rack
	Start       float64 `json:"start"`
	Weight      float64 `json:"weight"`
}

// Switch is the schedule of one switch.
type Switch struct {
	Load    float64  `json:"load"` // the end of its last configuration, 0 without any
	Configs []Config `json:"configs"`
}

// Schedule is a schedule of s parallel switches. Times are in the demand's unit.
type Schedule struct {
	Racks    int
	Delta    float64
	Switches []Switch

	// Standing are the permutations that the switches hold when the schedule begins, or
	// nil. A first configuration that equals it needs no δ.
	Standing [][]int32

	Damage // dead switches and ports
}

// Makespan is the largest load (Eq. 4).
func (s *Schedule) Makespan() (t float64) {
	for i := range s.Switches {
		t = max(t, s.Switches[i].Load)
	}
	return t
}

// Configurations counts the configurations of all switches.
func (s *Schedule) Configurations() (n int) {
	for i := range s.Switches {
		n += len(s.Switches[i].Configs)
	}
	return n
}

// schedule puts the pieces of a plan in order of time.
func (p *plan) schedule(c *cover) *Schedule {
	s := &Schedule{Racks: c.d.n, Delta: p.δ, Switches: make([]Switch, len(p.pieces))}
	for h, pieces := range p.pieces {
		s.Switches[h] = p.after(nil, c, pieces)
	}
	return s
}

// after puts pieces on a switch one after another; the first needs no δ if its circuits stand.
func (p *plan) after(stands []int32, c *cover, pieces []piece) Switch {
	sw := Switch{Configs: make([]Config, len(pieces))}
	for i, x := range pieces {
		start := sw.Load + p.δ
		if i == 0 && slices.Equal(c.column[x.part], stands) {
			start = 0
		}
		sw.Configs[i] = Config{Permutation: c.column[x.part], Start: start, Weight: x.weight}
		sw.Load = start + x.weight
	}
	return sw
}
