package photonic

import (
	"cmp"
	"context"
	"fmt"
	"math"
)

// Request is an exchange and how to plan it, in users' units. The zero value of a field
// means its default if one is stated.
type Request struct {
	GPUs             int         `json:"gpus"`             // default: the matrix's side
	Degree           int         `json:"degree"`           // default 1
	ReconfigUS       float64     `json:"reconfig_us"`      // R in microseconds
	Reconfigurations int         `json:"reconfigurations"` // 0 means the cheapest number
	Family           string      `json:"family"`           // cycle, circulant, kautz or cayley; default any
	MessageMB        float64     `json:"message_mb"`       // default 32, as in the paper; 1 MB is 10⁶ bytes
	ChunkMB          float64     `json:"chunk_mb"`         // default 4
	Gbps             float64     `json:"gbps"`             // default 800
	AlphaUS          *float64    `json:"alpha_us"`         // default 0.5
	Sizes            string      `json:"sizes"`            // uniform (default), random or zipf, with the mean message_mb
	ZipfFactor       float64     `json:"zipf_factor"`      // default 0.4
	Seed             uint64      `json:"seed"`             // of random and zipf
	Relabel          *bool       `json:"relabel"`          // default true
	Matrix           [][]float64 `json:"matrix"`           // bytes, a row a source, in place of sizes
}

// Instance returns the checked instance and the options of the request. entries is its
// matrix of bytes, [source][destination], or nil; side is the matrix's side.
func (r *Request) Instance(side int, entries []float64) (*Instance, Options, error) {
	o := Options{Reconfigurations: r.Reconfigurations, Family: r.Family, Relabel: r.Relabel == nil || *r.Relabel}
	for _, v := range []struct {
		name  string
		value float64
		most  float64
	}{{"reconfig_us", r.ReconfigUS, 3.6e9}, {"message_mb", r.MessageMB, 1 << 20}, {"chunk_mb", r.ChunkMB, 1 << 20}, {"alpha_us", *cmp.Or(r.AlphaUS, new(float64)), 3.6e9}} {
		if !(v.value >= 0 && v.value <= v.most) {
			return nil, o, fmt.Errorf("%s %g: want a number from 0 to %g", v.name, v.value, v.most)
		}
	}
	alpha := DefaultLink.Alpha
	if r.AlphaUS != nil {
		alpha = Micros(*r.AlphaUS)
	}
	in := &Instance{GPUs: cmp.Or(r.GPUs, side), Degree: cmp.Or(r.Degree, 1), Reconfig: Micros(r.ReconfigUS),
		Link:    Link{Alpha: alpha, Gbps: cmp.Or(r.Gbps, DefaultLink.Gbps), Chunk: bytesOf(r.ChunkMB, DefaultLink.Chunk)},
		Message: bytesOf(r.MessageMB, DefaultMessage)}
	if entries != nil {
		if r.Sizes != "" || r.MessageMB != 0 {
			return nil, o, fmt.Errorf("sizes or message_mb is given in addition to a matrix, which has all sizes")
		}
		if err := in.setSizes(side, entries); err != nil {
			return nil, o, err
		}
	} else if err := in.Draw(cmp.Or(r.Sizes, "uniform"), cmp.Or(r.ZipfFactor, ZipfFactor), r.Seed); err != nil {
		return nil, o, err
	}
	return in, o, in.Check()
}

// bytesOf converts megabytes to bytes, at least one; 0 means the default.
func bytesOf(mb float64, by int64) int64 {
	if mb == 0 {
		return by
	}
	return max(1, int64(math.Round(mb*1e6)))
}

// setSizes sets sizes from a matrix.
func (in *Instance) setSizes(side int, entries []float64) error {
	if in.GPUs != side {
		return fmt.Errorf("the matrix is for %d GPUs, but gpus is %d", side, in.GPUs)
	}
	in.Sizes = make([]int64, len(entries))
	for i, v := range entries {
		if v > 1<<40 {
			return fmt.Errorf("the message from GPU %d to GPU %d has %g bytes: want at most 1 TiB", i/side, i%side, v)
		}
		if i/side != i%side {
			in.Sizes[i] = int64(math.Ceil(v))
		}
	}
	in.Message = meanMessage(in.Sizes)
	return nil
}

// Report summarizes a plan for people and programs, without the path of every chunk.
type Report struct {
	Version          int            `json:"version"`
	GPUs             int            `json:"gpus"`
	Degree           int            `json:"degree"`
	Family           string         `json:"family"` // of its topologies
	Reconfigurations int            `json:"reconfigurations"`
	HopSum           float64        `json:"hop_sum"` // in units of T
	Topologies       []Topology     `json:"topologies"`
	Label            []int32        `json:"label,omitempty"` // the GPU at each position of the offsets
	Rounds           []RoundReport  `json:"rounds"`
	ReconfigUS       Time           `json:"reconfig_us"` // R
	HopUS            Time           `json:"hop_us"`      // T
	TransferUS       Time           `json:"transfer_us"` // the cost without reconfigurations
	CostUS           Time           `json:"cost_us"`
	LowerBoundUS     Time           `json:"lower_bound_us"`
	Baselines        []BaselineCost `json:"baselines,omitempty"`
	Messages         int            `json:"messages"` // replayed
	Moves            int64          `json:"moves"`
}

// RoundReport is a round or, in a plan of single chunks, a whole topology.
type RoundReport struct {
	Topology int   `json:"topology"`
	Hops     int   `json:"hops,omitempty"`
	Classes  []int `json:"classes,omitempty"` // d − s mod n of the messages, by position
	Chunks   int   `json:"chunks,omitempty"`  // moved over a link, in a plan of single chunks
	SpanUS   Time  `json:"span_us"`
}

// BaselineCost is the cost of an alternative.
type BaselineCost struct {
	Name             string `json:"name"`
	Reconfigurations int    `json:"reconfigurations"`
	CostUS           Time   `json:"cost_us"`
}

// NewReport replays a plan and reports it with baselines. It fails soon after ctx ends.
func NewReport(ctx context.Context, in *Instance, p *Plan, baselines []Baseline) (*Report, error) {
	seen, err := Replay(ctx, in, p)
	if err != nil {
		return nil, err
	}
	r := &Report{Version: 1, GPUs: p.GPUs, Degree: p.Degree, Family: p.Family, Reconfigurations: len(p.Topologies),
		HopSum: p.HopSum, Topologies: p.Topologies, Label: p.Label, Rounds: []RoundReport{}, ReconfigUS: in.Reconfig, HopUS: in.T(), TransferUS: p.Sum,
		CostUS: p.Cost, LowerBoundUS: p.LowerBound, Messages: seen.Messages, Moves: seen.Moves}
	for i := range p.Rounds {
		round := &p.Rounds[i]
		classes := make([]int, len(round.Paths))
		for j, path := range round.Paths {
			classes[j] = path.Class
		}
		r.Rounds = append(r.Rounds, RoundReport{round.Topology, round.Hops, classes, 0, Time(round.Hops) * p.hopTime(in, round)})
	}
	for i, span := range p.Spans {
		r.Rounds = append(r.Rounds, RoundReport{Topology: i, SpanUS: span})
	}
	for _, h := range p.Hops {
		r.Rounds[h.Topology].Chunks++
	}
	for _, b := range baselines {
		r.Baselines = append(r.Baselines, BaselineCost{b.Name, len(b.Plan.Topologies), b.Plan.Cost})
	}
	return r, nil
}
