package gpu

import (
	"fmt"
	"time"
)

// Model tells how long a plan takes on a cluster.
type Model struct {
	B1      float64       // bytes a second that a GPU sends and receives inside its server
	B2      float64       // bytes a second that a NIC sends and receives
	Latency time.Duration // of each stage, and of each move of bytes inside servers
}

// DefaultModel is a server of today: 450 GB/s inside, NICs of 400 Gb/s, 10 µs to
// start a stage.
var DefaultModel = Model{B1: 450e9, B2: 50e9, Latency: 10 * time.Microsecond}

// orDefault is DefaultModel for the zero value.
func (m Model) orDefault() Model {
	if m == (Model{}) {
		return DefaultModel
	}
	return m
}

func (m Model) check() error {
	m = m.orDefault()
	if !(m.B1 >= 1 && m.B1 <= 1e18) || !(m.B2 >= 1 && m.B2 <= 1e18) || m.Latency < 0 {
		return fmt.Errorf("bandwidths of %v and %v bytes/s and a latency of %v: want bandwidths of 1 to 1e18 and no negative latency", m.B1, m.B2, m.Latency)
	}
	return nil
}

// Times is what a plan is predicted to take.
type Times struct {
	Before float64 `json:"before"` // seconds, moves before the stages
	Stages float64 `json:"stages"`
	After  float64 `json:"after"`
	Local  float64 `json:"local"` // what stays inside servers, which is sent beside the stages
	Total  float64 `json:"total"` // Before + the longer of Stages and Local + After
}

// Predict tells how long a plan takes: each part as long as the GPU or NIC with the
// most bytes to send or to receive, and a latency each.
func (m Model) Predict(p *Plan) Times {
	m = m.orDefault()
	ranks := p.Ranks()
	latency := m.Latency.Seconds()
	var before, after, local sums
	for _, s := range []*sums{&before, &after, &local} {
		s.out, s.in = make([]int64, ranks), make([]int64, ranks)
	}
	for at := range p.Segments {
		s := &p.Segments[at]
		before.add(s.Source, s.Out, s.Bytes)
		after.add(s.In, s.Destination, s.Bytes)
	}
	for _, x := range p.Local {
		local.add(x.Source, x.Destination, x.Bytes)
	}
	t := Times{
		Before: before.seconds(m.B1, latency),
		After:  after.seconds(m.B1, latency),
		Local:  local.seconds(m.B1, latency),
		Stages: float64(p.Length)/m.B2 + float64(len(p.Stages))*latency,
	}
	t.Total = t.Before + max(t.Stages, t.Local) + t.After
	return t
}

// sums is what ranks send and receive.
type sums struct{ out, in []int64 }

func (s *sums) add(from, to Rank, bytes int64) {
	if from != to {
		s.out[from] += bytes
		s.in[to] += bytes
	}
}

func (s *sums) seconds(bandwidth, latency float64) float64 {
	most := int64(0)
	for r := range s.out {
		most = max(most, s.out[r], s.in[r])
	}
	if most == 0 {
		return 0
	}
	return float64(most)/bandwidth + latency
}
