package ocs

import (
	"cmp"
	"math"
	"slices"
)

// Bounds are lower bounds on the makespan of any schedule.
type Bounds struct {
	Paper float64 `json:"paper"` // the larger of theorems 1 and 2, over all rows and columns
	Sharp float64 `json:"sharp"` // never below Paper
}

// sorted are the entries of each row and column, the largest first.
func (d *Demand) sorted() [][]float64 {
	lines := d.lines()
	for i, line := range lines {
		lines[i] = slices.Clone(line)
		slices.SortFunc(lines[i], func(a, b float64) int { return cmp.Compare(b, a) })
	}
	return lines
}

// Bound bounds the makespan of a demand on s switches with reconfiguration delay δ.
// The bounds are infinite for arguments that Make refuses, such as no switches.
//
// Paper is theorem 1, (w + δ·max(k, s))/s for a row or column of sum w and k
// entries, and theorem 2, where k = s. Sharp counts configurations for the whole
// matrix, see sharp.
func Bound(d *Demand, s int, δ float64) Bounds {
	if len(d.to) == 0 {
		return Bounds{}
	}
	if (Options{Switches: s, Delta: δ}).check() != nil {
		return Bounds{Paper: math.Inf(1), Sharp: math.Inf(1)}
	}
	lines := d.sorted()
	var b Bounds
	for _, x := range lines {
		if len(x) > 0 {
			b.Paper = max(b.Paper, theorem1(x, s, δ), theorem2(x, s, δ))
		}
	}
	b.Sharp = sharp(lines, s, δ, b.Paper)
	return b
}

// theorem1 is Eq. 7.
func theorem1(x []float64, s int, δ float64) float64 {
	return (sum(x) + δ*float64(max(len(x), s))) / float64(s)
}

// theorem2 is Eq. 8, for a line with as many entries as there are switches, the
// largest first. It is 0 for other lines and for a single switch.
func theorem2(x []float64, s int, δ float64) float64 {
	if len(x) != s || s < 2 {
		return 0
	}
	w, S := sum(x), float64(s)
	least := min(x[0], max(x[1], (w+δ)/S, x[s-1]+δ))
	for m := 2; m <= s*s; m++ {
		t := (w + float64(m)*δ) / S
		if t >= least {
			break // so is every further one
		}
		if m < s {
			t = max(t, x[m])
		}
		least = min(least, t)
	}
	return δ + least
}

// sharp raises a bound by counting configurations. Suppose that makespan T is feasible,
// with C configurations in all.
//
//   - An entry x takes at least β = ⌈x/(T−δ)⌉ configurations. If it takes no more,
//     and they leave less than δ of βT free, then each is alone on its switch and x
//     occupies βT of the switches' time, else x + βδ; with more configurations it is
//     x + (β+1)δ. The entries of a line occupy at most sT together.
//   - C is at least the sum of β over any line.
//   - The sum of the weights is at least weights(C), which considers all lines together;
//     that sum plus Cδ is at most sT.
//
// It bisects between a T that violates one of these conditions and one that satisfies all.
func sharp(lines [][]float64, s int, δ, low float64) float64 {
	c := newCounter(lines, s, δ)
	if c.possible(low) {
		return low
	}
	high := 2 * low
	for !c.possible(high) {
		low, high = high, 2*high
	}
	for high-low > tolerance*high {
		if t := (low + high) / 2; c.possible(t) {
			high = t
		} else {
			low = t
		}
	}
	return low
}

// counter holds the properties of a matrix that sharp uses.
type counter struct {
	lines  [][]float64 // largest entry first
	s, δ   float64
	degree int
	width  float64
	least  []float64 // [C − degree] the least sum of C weights, for the C computed so far
}

func newCounter(lines [][]float64, s int, δ float64) *counter {
	c := &counter{lines: lines, s: float64(s), δ: δ}
	for _, x := range lines {
		c.degree, c.width = max(c.degree, len(x)), max(c.width, sum(x))
	}
	return c
}

// possible reports whether a makespan satisfies all conditions.
func (c *counter) possible(t float64) bool {
	room := t - c.δ
	if room <= 0 {
		return false
	}
	all := c.s * t * (1 + 1e-12)
	fewest := c.degree
	for _, line := range c.lines {
		occupied, count := 0.0, 0
		for _, x := range line {
			β := math.Ceil(x / room * (1 - 1e-12))
			free := min(max(0, β*room-x), c.δ)
			if free < c.δ {
				occupied += free
			}
			occupied += x + β*c.δ
			count += int(β)
		}
		if occupied > all {
			return false
		}
		fewest = max(fewest, count)
	}
	if c.width+float64(max(fewest, 2*c.degree))*c.δ <= all {
		return true // every entry split
	}
	for C := fewest; ; C++ {
		if c.width+float64(C)*c.δ > all {
			return false
		}
		if c.weights(C)+float64(C)*c.δ <= all {
			return true
		}
	}
}

// weights is the least possible sum of C weights. In a line with k entries, all but the
// r − (C − k) largest take at least one of the C weights each. So these largest share at most
// r, and the r largest weights sum to at least their sum. leastWeights bounds the other
// weights. If C is at least twice the degree, every entry may be split.
func (c *counter) weights(C int) float64 {
	if C >= 2*c.degree {
		return c.width
	}
	for len(c.least) <= C-c.degree {
		count := c.degree + len(c.least)
		least := leastWeights(c.lines, count)
		first := make([]float64, count+1) // [r] lower bound on the sum of the r largest weights
		for _, line := range c.lines {
			sum := 0.0
			for i, x := range line {
				sum += x
				r := count - len(line) + i + 1
				first[r] = max(first[r], sum)
			}
		}
		most, others := 0.0, 0.0
		for r := count; r >= 0; r-- {
			most = max(most, first[r]+others)
			if r > 0 {
				others += least[r-1]
			}
		}
		c.least = append(c.least, most)
	}
	return c.least[C-c.degree]
}

// leastWeights returns lower bounds on C weights, the largest first: at most C − k of a
// line's k entries are split over permutations, so its r-th largest weight is at least its
// (r + C − k)-th largest entry. The entries are sorted, the largest first.
func leastWeights(lines [][]float64, C int) []float64 {
	least := make([]float64, C)
	for _, line := range lines {
		for r := C - len(line); r < len(line); r++ {
			least[r-C+len(line)] = max(least[r-C+len(line)], line[r])
		}
	}
	return least
}
