package gpu

import (
	"fmt"

	"github.com/forsd/forsd/bipartite"
)

// Rank is a GPU and its NIC: GPU r mod m of server r div m.
type Rank int32

// Cluster is the hierarchy: n servers with m GPUs each, as the paper calls them.
type Cluster struct {
	Servers int `json:"servers"`         // n
	GPUs    int `json:"gpus_per_server"` // m
}

// MaxRanks is the most GPUs of a cluster.
const MaxRanks = 2048

// maxTotal is the most bytes of a traffic, which keeps sums within 64 bits.
const maxTotal = 1 << 60

// Ranks is the number of GPUs.
func (c Cluster) Ranks() int { return c.Servers * c.GPUs }

// server is the server of a rank.
func (c Cluster) server(r Rank) int { return int(r) / c.GPUs }

func (c Cluster) check() error {
	if c.Servers < 1 || c.GPUs < 1 || c.Servers > MaxRanks || c.GPUs > MaxRanks/c.Servers {
		return fmt.Errorf("a cluster of %d servers with %d GPUs each: want at least one of each and at most %d GPUs in all", c.Servers, c.GPUs, MaxRanks)
	}
	return nil
}

// Of returns the cluster of ranks GPUs with gpusPerServer in each server.
func Of(ranks, gpusPerServer int) (Cluster, error) {
	switch {
	case gpusPerServer < 1:
		return Cluster{}, fmt.Errorf("%d GPUs per server: want at least 1", gpusPerServer)
	case ranks < 1 || ranks%gpusPerServer != 0:
		return Cluster{}, fmt.Errorf("%d GPUs do not fill servers of %d: want a multiple", ranks, gpusPerServer)
	}
	c := Cluster{ranks / gpusPerServer, gpusPerServer}
	return c, c.check()
}

// Traffic is the traffic between all pairs of GPUs. Bytes may stand for any unit that
// is sent as a whole: bytes, tokens, packets.
type Traffic struct {
	Cluster
	Bytes []int64 // [source][destination]
	// Site describes the servers if they are not all alike; nil otherwise.
	Site *Places

	tokens *Tokens // if it is of tokens that are sent once to each server
}

// NewTraffic returns a traffic without bytes.
func NewTraffic(c Cluster) (*Traffic, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Traffic{Cluster: c, Bytes: make([]int64, c.Ranks()*c.Ranks())}, nil
}

// FromEntries makes a traffic from integers, [source][destination]. large has the exact values of
// entries that float64 does not hold.
func FromEntries(c Cluster, entries []float64, large map[int]int64) (*Traffic, error) {
	t, err := NewTraffic(c)
	if err != nil {
		return nil, err
	}
	ranks := c.Ranks()
	if len(entries) != len(t.Bytes) {
		return nil, fmt.Errorf("%d entries are not a matrix of %d×%d GPUs", len(entries), ranks, ranks)
	}
	for at, v := range entries {
		if v < 0 || v > maxTotal || v != float64(int64(v)) {
			return nil, fmt.Errorf("traffic from GPU %d to GPU %d is %v: want a whole number from 0 to %d", at/ranks, at%ranks, v, int64(maxTotal))
		}
		t.Bytes[at] = int64(v)
	}
	for at, v := range large {
		t.Bytes[at] = v
	}
	return t, t.check()
}

// check returns the first error of a traffic.
func (t *Traffic) check() error {
	if err := t.Cluster.check(); err != nil {
		return err
	}
	ranks := t.Ranks()
	if len(t.Bytes) != ranks*ranks {
		return fmt.Errorf("traffic of %d GPUs has %d entries, want %d", ranks, len(t.Bytes), ranks*ranks)
	}
	total := int64(0)
	for at, v := range t.Bytes {
		if v < 0 || v > maxTotal-total {
			return fmt.Errorf("traffic from GPU %d to GPU %d is %d: want none below 0 and at most %d in all", at/ranks, at%ranks, v, int64(maxTotal))
		}
		total += v
	}
	return nil
}

// row is the traffic from a rank to the GPUs of a server, [GPU].
func (t *Traffic) row(source Rank, server int) []int64 {
	first := int(source)*t.Ranks() + server*t.GPUs
	return t.Bytes[first : first+t.GPUs]
}

// Pairs sums the traffic by pairs of different servers: [source][destination], Eq. 8.
func (t *Traffic) Pairs() []int64 {
	n := t.Servers
	pairs := make([]int64, n*n)
	for source := range Rank(t.Ranks()) {
		i := t.server(source)
		for j := range n {
			if i == j {
				continue
			}
			sum := int64(0)
			for _, v := range t.row(source, j) {
				sum += v
			}
			pairs[i*n+j] += sum
		}
	}
	return pairs
}

// Bound is Eq. 26, the least length of a frame: the bytes that the busiest server sends or
// receives, divided by its NICs, rounded up.
func (t *Traffic) Bound() int64 { return over(longest(t.Servers, t.Pairs()), int64(t.GPUs)) }

// longest is the largest row or column sum of a matrix of n rows.
func longest(n int, x []int64) int64 {
	_, _, most := bipartite.Sums(n, x)
	return most
}

// shares divides every entry by m, rounded up.
func shares(x []int64, m int64) []int64 {
	out := make([]int64, len(x))
	for at, v := range x {
		out[at] = over(v, m)
	}
	return out
}

// over is v/m rounded up.
func over(v, m int64) int64 { return (v + m - 1) / m }
