package ocs

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
)

// Workload generates a demand by name and seed. Racks and flows may be 0 for the
// paper's values, which Workloads lists.
func Workload(name string, racks, flows int, seed uint64) (*Demand, error) {
	w, err := Named(name)
	if err != nil {
		return nil, err
	}
	w.Racks, w.Flows = cmp.Or(racks, w.Racks), cmp.Or(flows, w.Flows)
	return w.Demand(seed)
}

// Kind is a generator of demands.
type Kind struct {
	Name         string
	Racks, Flows int
	Noise        float64 // standard deviation of the noise on nonzero entries, in link bandwidth
	generate     func(n, m int, rng *rand.Rand) []float64
}

// Workloads are the three of section V, as in the paper. The measured matrices of the last
// two were not published: gpt and moe follow the paper's descriptions.
var Workloads = []Kind{
	{"benchmark", 100, 16, .003, benchmark},
	{"gpt", 32, 6, .003, gpt},
	{"moe", 64, 63, 0, moe},
}

// Named returns the workload with a name.
func Named(name string) (Kind, error) {
	for _, w := range Workloads {
		if w.Name == name {
			return w, nil
		}
	}
	return Kind{}, fmt.Errorf("workload %q: want %s, %s or %s", name, Workloads[0].Name, Workloads[1].Name, Workloads[2].Name)
}

// Demand generates a demand.
func (w Kind) Demand(seed uint64) (*Demand, error) {
	switch n, m := w.Racks, w.Flows; {
	case n < 2 || n > MaxRacks:
		return nil, fmt.Errorf("workload %s: %d racks: want 2 to %d", w.Name, n, MaxRacks)
	case m < 1 || m >= n:
		return nil, fmt.Errorf("workload %s: %d flows a rack: want 1 to %d, fewer than racks", w.Name, m, n-1)
	case !(w.Noise >= 0 && w.Noise <= 1):
		return nil, fmt.Errorf("workload %s: noise %g: want 0 to 1, in link bandwidth", w.Name, w.Noise)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	entries := w.generate(w.Racks, w.Flows, rng)
	for e, x := range entries {
		if x > 0 && w.Noise > 0 {
			entries[e] = max(0, x+w.Noise*rng.NormFloat64())
		}
	}
	return NewDemand(w.Racks, entries)
}

// benchmark is the sum of m permutations without fixed points: of 16, four evenly
// split 70 % of the bandwidth and twelve split 30 %.
func benchmark(n, m int, rng *rand.Rand) []float64 {
	entries := make([]float64, n*n)
	large := max(1, (m+2)/4)
	for f := range m {
		x := 0.7 / float64(large)
		if f >= large {
			x = 0.3 / float64(m-large)
		}
		if m == large {
			x = 1 / float64(m)
		}
		addPermutation(entries, derangement(n, rng), x)
	}
	return entries
}

// gpt is sparse and strongly skewed, as the traffic of 3D parallel training: racks
// talk most within groups of four (tensor parallelism), less to the same place in
// the group after (pipeline), and least around rings over every eighth rack (data
// parallelism). It is doubly stochastic.
func gpt(n, m int, rng *rand.Rand) []float64 {
	entries := make([]float64, n*n)
	shifts := []struct {
		share float64
		to    func(i int) int
	}{
		{0.30, func(i int) int { return group(i, 1, n) }},
		{0.22, func(i int) int { return group(i, 2, n) }},
		{0.18, func(i int) int { return group(i, 3, n) }},
		{0.14, func(i int) int { return (i + 4) % n }},
		{0.10, func(i int) int { return (i + n - 4%n) % n }},
		{0.06, func(i int) int { return (i + 8) % n }},
	}
	all := 0.0
	for f := range min(m, len(shifts)) {
		all += shifts[f].share
	}
	for f := range m {
		if f < len(shifts) {
			for i := range n {
				entries[i*n+shifts[f].to(i)] += shifts[f].share / all
			}
			continue
		}
		addPermutation(entries, derangement(n, rng), 0.01)
	}
	return entries
}

// group is the rack some places on in the group of four of i; the last group of n
// may be smaller.
func group(i, places, n int) int {
	first := i - i%4
	return first + (i-first+places)%min(4, n-first)
}

// moe is dense and nearly uniform: tokens for m experts per rack, some of which are
// somewhat more popular. The sums of its rows and columns differ; the largest is 1.
func moe(n, m int, rng *rand.Rand) []float64 {
	popular := make([]float64, n)
	for j := range popular {
		popular[j] = math.Exp(0.25 * rng.NormFloat64())
	}
	entries := make([]float64, n*n)
	for i := range n {
		left := n - 1
		need := m
		for j := range n {
			if j == i {
				continue
			}
			if rng.IntN(left) < need {
				entries[i*n+j] = popular[j] * (1 + 0.1*rng.NormFloat64())
				need--
			}
			left--
		}
	}
	width := 0.0
	for j := range n {
		column, row := 0.0, 0.0
		for i := range n {
			entries[i*n+j] = max(0, entries[i*n+j])
			column, row = column+entries[i*n+j], row+entries[j*n+i]
		}
		width = max(width, column, row)
	}
	for e := range entries {
		entries[e] /= width
	}
	return entries
}

// derangement is a random permutation without fixed points: a rack sends nothing
// to itself.
func derangement(n int, rng *rand.Rand) []int {
	for {
		p, fixed := rng.Perm(n), false
		for i, j := range p {
			fixed = fixed || i == j
		}
		if !fixed {
			return p
		}
	}
}

func addPermutation(entries []float64, p []int, x float64) {
	for i, j := range p {
		entries[i*len(p)+j] += x
	}
}
