// Package papers repeats the measurements of papers on the other tiers: frames of GPU clusters
// under random arrivals, classes of allocations of a network, and the ratios of schedules
// for optical circuit switches to their bounds.
package papers

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/forsd/forsd/bipartite"
	"github.com/forsd/forsd/gpu"
)

// Simulation is Sec. VI of Wu et al.'s paper: dynamic frame sizing under Poisson arrivals,
// in slots of one packet a NIC.
type Simulation struct {
	gpu.Cluster
	// Hotspot concentrates the data between servers on their first GPUs:
	// Model NU, Eq. 36. Without it, all pairs of GPUs of different servers have the
	// same rate: Model U, Eq. 35.
	Hotspot bool
	// Rate is r0: packets a slot and pair of GPUs in Model U, and in Model NU on
	// average.
	Rate float64
	// Mode determines the length of a frame: None, Eq. 11 for the blocks as they are;
	// Paper, Eq. 11 for balanced blocks; Rails, Eq. 26.
	Mode gpu.Mode
	// Slots are simulated, and frames that begin in the first Warmup are left out.
	Slots, Warmup int
	Seed          uint64
}

// Frames is the result of a simulation.
type Frames struct {
	Count int
	Mean  float64 // length, slots
	Max   int64
}

// Run simulates. Frames that end after the last slot are left out.
func (s *Simulation) Run() (Frames, error) {
	if err := s.check(); err != nil {
		return Frames{}, err
	}
	n, m := s.Servers, s.GPUs
	a := &arrivals{n: n, m: m, pairs: make([]int64, n*n)}
	if s.Mode == gpu.None {
		a.rows, a.columns = make([]int64, n*n*m), make([]int64, n*n*m)
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0x9e3779b97f4a7c15))
	rate := s.rate()
	var f Frames
	sum := int64(0)
	length := int64(1)
	for slot := int64(0); slot+length <= int64(s.Slots); {
		if slot >= int64(s.Warmup) {
			f.Count++
			sum += length
			f.Max = max(f.Max, length)
		}
		slot += length
		a.clear()
		for at := rng.ExpFloat64(); at < rate*float64(length); at += rng.ExpFloat64() {
			a.draw(rng, s.Hotspot)
		}
		length = max(1, a.length(s.Mode))
	}
	if f.Count > 0 {
		f.Mean = float64(sum) / float64(f.Count)
	}
	return f, nil
}

// Summary is the result of several runs of a simulation.
type Summary struct {
	Frames    int     // of all runs
	Mean      float64 // length, slots: the mean of the runs' means
	Deviation float64 // standard deviation of the runs' means, 0 for a single run
	Max       int64
}

// Repeat simulates with the seeds 0 to seeds−1, and calls step after each run. Runs
// in which no frame ends, as beyond saturation, have no mean. It fails if a run
// does or the context ends.
func (s *Simulation) Repeat(ctx context.Context, seeds int, step func()) (Summary, error) {
	var all Summary
	n, sum, squares := 0.0, 0.0, 0.0
	run := *s
	for seed := range uint64(seeds) {
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		run.Seed = seed
		f, err := run.Run()
		if err != nil {
			return all, err
		}
		if f.Count > 0 {
			n++
			sum += f.Mean
			squares += f.Mean * f.Mean
		}
		all.Frames += f.Count
		all.Max = max(all.Max, f.Max)
		step()
	}
	if n > 0 {
		all.Mean = sum / n
	}
	if n > 1 {
		all.Deviation = math.Sqrt(max(0, squares-sum*all.Mean) / (n - 1))
	}
	return all, nil
}

// maxSlots and maxArrivals bound the time of a simulation to a minute or so.
const (
	maxSlots    = 100_000_000
	maxArrivals = 1e9
)

// rate is the number of packets that arrive in a slot.
func (s *Simulation) rate() float64 {
	return float64(s.Servers*(s.Servers-1)) * float64(s.GPUs*s.GPUs) * s.Rate
}

func (s *Simulation) check() error {
	if _, err := gpu.Of(s.Servers*s.GPUs, s.GPUs); err != nil {
		return err
	}
	switch {
	case s.Servers < 2:
		return fmt.Errorf("simulate %d servers: want 2 at least", s.Servers)
	case !(s.Rate >= 0 && s.Rate <= 1):
		return fmt.Errorf("simulate a rate of %v packets a slot and pair: want 0 to 1", s.Rate)
	case s.Slots < 1 || s.Slots > maxSlots || s.Warmup < 0 || s.Warmup >= s.Slots:
		return fmt.Errorf("simulate %d slots with a warm-up of %d: want more slots than that, %d at most, and none below 0", s.Slots, s.Warmup, maxSlots)
	case s.rate()*float64(s.Slots) > maxArrivals:
		return fmt.Errorf("simulate %.3g packets in %d slots: want %.0g at most", s.rate()*float64(s.Slots), s.Slots, maxArrivals)
	case s.Mode != gpu.None && s.Mode != gpu.Paper && s.Mode != gpu.Rails:
		return fmt.Errorf("simulate mode %q: want %s, %s or %s", s.Mode, gpu.None, gpu.Paper, gpu.Rails)
	}
	return nil
}

// arrivals are the packets of a frame.
type arrivals struct {
	n, m          int
	pairs         []int64 // [source server][destination server]
	rows, columns []int64 // [source server][destination server][GPU], for None alone
}

func (a *arrivals) clear() {
	clear(a.pairs)
	clear(a.rows)
	clear(a.columns)
}

// draw adds a packet of a random pair.
func (a *arrivals) draw(rng *rand.Rand, hotspot bool) {
	i, j := rng.IntN(a.n), rng.IntN(a.n-1)
	if j >= i {
		j++
	}
	pair := i*a.n + j
	a.pairs[pair]++
	if a.rows == nil {
		return
	}
	l, k := 0, 0
	if !hotspot {
		l, k = rng.IntN(a.m), rng.IntN(a.m)
	}
	a.rows[pair*a.m+l]++
	a.columns[pair*a.m+k]++
}

// length is the number of slots that the packets take.
func (a *arrivals) length(mode gpu.Mode) int64 {
	m := int64(a.m)
	switch mode {
	case gpu.Rails:
		return over(longest(a.n, a.pairs), m)
	case gpu.Paper:
		for at, v := range a.pairs {
			a.pairs[at] = over(v, m)
		}
	default:
		for at := range a.pairs {
			most := int64(0)
			for l := at * a.m; l < (at+1)*a.m; l++ {
				most = max(most, a.rows[l], a.columns[l])
			}
			a.pairs[at] = most
		}
	}
	return longest(a.n, a.pairs)
}

// longest is the largest sum of a row or column.
func longest(n int, x []int64) int64 {
	_, _, most := bipartite.Sums(n, x)
	return most
}

// over is v/m rounded up.
func over(v, m int64) int64 { return (v + m - 1) / m }
