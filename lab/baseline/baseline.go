// Package baseline has the schedules that package gpu is compared with: the
// decomposition of the matrix of NICs without hierarchy, by Birkhoff and von Neumann
// and by König's theorem, and the decomposition of the padded matrix of servers with
// a matching from scratch for each stage, which is how published schedulers for such
// clusters work (Y. Lei et al., "FAST: An Efficient Scheduler for All-to-All GPU
// Communication", 2025).
package baseline

import (
	"context"
	"fmt"
	"math"

	"github.com/forsd/forsd/bipartite"
	"github.com/forsd/forsd/gpu"
)

// Stages are matchings with weights: match[s*n+i] is the column of row i in stage s.
type Stages struct {
	Weights []int64
	Match   []int32
}

// Length is the sum of the weights.
func (s *Stages) Length() int64 {
	sum := int64(0)
	for _, w := range s.Weights {
		sum += w
	}
	return sum
}

// nics is the traffic matrix of the NICs if no data moves inside servers.
func nics(t *gpu.Traffic) []int64 {
	x := make([]int64, len(t.Bytes))
	ranks := t.Ranks()
	for at, v := range t.Bytes {
		if at/ranks/t.GPUs != at%ranks/t.GPUs {
			x[at] = v
		}
	}
	return x
}

// Servers is the traffic matrix of the servers per NIC, whose shares are equal.
func Servers(t *gpu.Traffic) []int64 {
	x := t.Pairs()
	for at, v := range x {
		x[at] = (v + int64(t.GPUs) - 1) / int64(t.GPUs)
	}
	return x
}

// FlatBvN decomposes the matrix of NICs.
func FlatBvN(t *gpu.Traffic) *Stages { return Padded(t.Ranks(), nics(t)) }

// Padded adds idle traffic to a matrix of n rows until all rows and columns are
// equal, and takes out one perfect matching after the other, each found from scratch
// (Hopcroft and Karp) and as heavy as its least entry.
func Padded(n int, x []int64) *Stages {
	left, length := bipartite.Pad(n, x, 0)
	s := &Stages{}
	var m matcher
	start, edges := make([]int32, n+1), make([]int32, 0, n*n)
	for length > 0 {
		edges = edges[:0]
		for i := range n {
			for j, v := range left[i*n : (i+1)*n] {
				if v > 0 {
					edges = append(edges, int32(j))
				}
			}
			start[i+1] = int32(len(edges))
		}
		match, _, _ := m.match(n, start, edges)
		weight := int64(math.MaxInt64)
		for i, j := range match {
			weight = min(weight, left[i*n+int(j)])
		}
		for i, j := range match {
			left[i*n+int(j)] -= weight
		}
		s.Weights, s.Match = append(s.Weights, weight), append(s.Match, match...)
		length -= weight
	}
	return s
}

// FlatKoenig colours the matrix of NICs packet by packet, in as many slots as the
// busiest NIC has packets. It fails if these are more than most.
func FlatKoenig(t *gpu.Traffic, most int64) (*Stages, error) {
	n := t.Ranks()
	x, length := bipartite.Pad(n, nics(t), 0)
	if length > most {
		return nil, fmt.Errorf("colour %d packets of a NIC one by one: want %d at most", length, most)
	}
	s := &Stages{Weights: make([]int64, length), Match: make([]int32, int(length)*n)}
	for i := range s.Weights {
		s.Weights[i] = 1
	}
	var c bipartite.Colourer
	return s, c.Arcs(context.Background(), n, int(length), bipartite.ArcsOf(n, x, nil), s.Match)
}
