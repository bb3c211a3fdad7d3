package ocs

import (
	"fmt"
	"math"
	"slices"
)

// The largest supported demand: a dense matrix of 1024 racks or a sparse one of more,
// for which the methods need less than a gigabyte.
const (
	MaxRacks    = 4096
	MaxNonzeros = 1 << 20
)

// maxTime is the longest delay and the largest sum of demands, so that the results of
// schedules and bounds stay finite.
const maxTime = 1e300

// Demand is a traffic matrix D of n × n racks; an entry is the time that a circuit takes
// to carry it. The diagonal is ignored: a rack needs no switch to send to itself.
type Demand struct {
	n      int
	start  []int32   // [rack] its first entry below; one more than racks
	to     []int32   // [entry] the receiving rack, rising in a row
	from   []int32   // [entry] the sending rack
	amount []float64 // [entry] above 0
}

// NewDemand makes a demand of the n × n entries of a matrix, row by row; the row is the
// sending rack. It fails if n is not 1 to MaxRacks, if an entry is negative or not
// finite, or if more than MaxNonzeros are above zero.
func NewDemand(n int, entries []float64) (*Demand, error) {
	if n < 1 || n > MaxRacks {
		return nil, fmt.Errorf("a demand of %d racks: want 1 to %d", n, MaxRacks)
	}
	if len(entries) != n*n {
		return nil, fmt.Errorf("a demand of %d racks has %d entries: want %d", n, len(entries), n*n)
	}
	d := &Demand{n: n, start: make([]int32, 1, n+1)}
	for i := range n {
		for j, x := range entries[i*n : (i+1)*n] {
			if x < 0 || math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("the demand from rack %d to rack %d is %v: want a finite number, zero or more", i, j, x)
			}
			if x > 0 && i != j {
				d.from = append(d.from, int32(i))
				d.to = append(d.to, int32(j))
				d.amount = append(d.amount, x)
			}
		}
		if len(d.to) > MaxNonzeros {
			return nil, fmt.Errorf("more than %d pairs of racks have demand: that is the most that is taken", MaxNonzeros)
		}
		d.start = append(d.start, int32(len(d.to)))
	}
	if d.Total() > maxTime {
		return nil, fmt.Errorf("the demand's sum is more than %g: choose a larger unit", maxTime)
	}
	return d, nil
}

// Racks is n, the side of the matrix.
func (d *Demand) Racks() int { return d.n }

// At is the demand from rack i to rack j, 0 if i is j.
func (d *Demand) At(i, j int) float64 {
	if e := d.entry(i, int32(j)); e >= 0 {
		return d.amount[e]
	}
	return 0
}

// Nonzeros is the number of pairs with demand.
func (d *Demand) Nonzeros() int { return len(d.to) }

// Total is the sum of all entries.
func (d *Demand) Total() float64 { return sum(d.amount) }

// Degree is k, the most nonzero entries of a row or column: as many permutations
// are necessary and sufficient to cover the matrix (section III-B, property 1).
func (d *Demand) Degree() (k int) {
	for _, l := range d.lines() {
		k = max(k, len(l))
	}
	return k
}

// Width is the largest sum of a row or column.
func (d *Demand) Width() (w float64) {
	for _, l := range d.lines() {
		w = max(w, sum(l))
	}
	return w
}

// entry returns the index of entry (i, j), or −1 if the matrix has a zero there.
func (d *Demand) entry(i int, j int32) int32 {
	first := d.start[i]
	if at, ok := slices.BinarySearch(d.to[first:d.start[i+1]], j); ok {
		return first + int32(at)
	}
	return -1
}

// only returns the demand with only the entries that are wanted.
func (d *Demand) only(wanted []bool) *Demand {
	out := &Demand{n: d.n, start: make([]int32, 1, d.n+1)}
	for i := range d.n {
		for e := d.start[i]; e < d.start[i+1]; e++ {
			if wanted[e] {
				out.from, out.to, out.amount = append(out.from, d.from[e]), append(out.to, d.to[e]), append(out.amount, d.amount[e])
			}
		}
		out.start = append(out.start, int32(len(out.to)))
	}
	return out
}

// lines lists the nonzero amounts of the n rows, then of the n columns.
func (d *Demand) lines() [][]float64 {
	lines := make([][]float64, 2*d.n)
	degree := make([]int, d.n)
	for _, j := range d.to {
		degree[j]++
	}
	room := make([]float64, len(d.to))
	for j, k := range degree {
		lines[d.n+j], room = room[:0:k], room[k:]
	}
	for i := range d.n {
		lines[i] = d.amount[d.start[i]:d.start[i+1]:d.start[i+1]]
	}
	for e, j := range d.to {
		lines[d.n+int(j)] = append(lines[d.n+int(j)], d.amount[e])
	}
	return lines
}

func sum(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}
