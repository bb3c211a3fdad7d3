package liquid

// All transfers of a step begin together, and a step lasts as long as its longest
// transfer. If links have different speeds, steps are best reserved for transfers of
// one duration, with faster ones added if they have room.

// Bound is the least number of steps that last at least as long as a transfer at the
// given speed.
type Bound struct {
	Rate      float64 `json:"rate"`      // speed of the transfers, in the unit of SetRates
	Transfers int     `json:"transfers"` // at that speed
	Steps     int     `json:"steps"`     // Λ of the transfers at that speed and all slower ones
}

// Bounds returns the bound for each speed of transfers, the slowest first: no two
// transfers of a link share a step, so there are at least as many steps of that
// duration or longer as there are such transfers on any link.
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

// TimeBound is a lower bound on the time of any schedule in steps, in units of the
// fastest transfer: the sum of the durations of the steps that Bounds requires.
func (t *Traffic) TimeBound() float64 {
	time, steps := 0.0, 0
	for c, b := range t.Bounds() {
		time += float64(b.Steps-steps) * t.duration(uint8(c))
		steps = b.Steps
	}
	return time
}

// Time is the time of the schedule, in the unit of TimeBound: the sum over the steps
// of the longest transfer's duration.
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

// duration is the duration of a transfer of a class, 1 for the fastest.
func (t *Traffic) duration(c uint8) float64 { return t.rates[len(t.rates)-1] / t.rates[c] }
