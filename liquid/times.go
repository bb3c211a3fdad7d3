package liquid

// A schedule's steps begin together, and a step lasts as long as its longest
// transfer. Where links have different speeds, steps are best kept for transfers
// of one duration, and what is faster goes along where it has room.

// Bound is how many steps there must be that last at least as long as a transfer
// at the given speed.
type Bound struct {
	Rate      float64 `json:"rate"`      // speed of the transfers, in the unit of SetRates
	Transfers int     `json:"transfers"` // at that speed
	Steps     int     `json:"steps"`     // Λ of the transfers at that speed and all slower ones
}

// Bounds gives the bounds for each speed of transfers, the slowest first: no two
// transfers of a link share a step, so the steps that last that long are at least
// as many as the transfers of that duration or a longer one on any link.
func (t *Traffic) Bounds() []Bound {
	bounds := make([]Bound, len(t.rates))
	for c, rate := range t.rates {
		bounds[c].Rate = rate
	}
	for _, c := range t.class {
		bounds[c].Transfers++
	}
	load := make([]int, len(t.rates))
	for l := range t.links {
		clear(load)
		for _, x := range t.Users(Link(l)) {
			load[t.class[x]]++
		}
		sum := 0
		for c, n := range load {
			sum += n
			bounds[c].Steps = max(bounds[c].Steps, sum)
		}
	}
	return bounds
}

// TimeBound is the least time that any schedule in steps takes, in units of a
// transfer at the speed of the fastest: each step beyond those that must last
// longer takes as long as the next speed.
func (t *Traffic) TimeBound() float64 {
	time, steps := 0.0, 0
	for c, b := range t.Bounds() {
		time += float64(b.Steps-steps) * t.duration(uint8(c))
		steps = b.Steps
	}
	return time
}

// Time is how long the schedule takes, in the unit of TimeBound: the sum over the
// steps of the longest transfer's duration.
func (t *Traffic) Time(s Schedule) float64 {
	steps := make([]int, len(t.rates)) // [class] of the slowest transfer
	for _, step := range s {
		slowest := len(t.rates) - 1
		for _, x := range step {
			slowest = min(slowest, int(t.class[x]))
		}
		steps[slowest]++
	}
	time := 0.0
	for c, n := range steps {
		time += float64(n) * t.duration(uint8(c))
	}
	return time
}

// duration of a transfer of a class, 1 for the fastest.
func (t *Traffic) duration(c uint8) float64 { return t.rates[len(t.rates)-1] / t.rates[c] }
