package liquid

import (
	"context"

	"github.com/forsd/forsd/ib"
)

// Report is a schedule as commands and the API print it.
type Report struct {
	Version       int `json:"version"`
	Nodes         int `json:"nodes"` // that send or receive
	Transfers     int `json:"transfers"`
	ConflictEdges int `json:"conflict_edges"` // −1 if they are too many to count
	Bottlenecks   int `json:"bottlenecks"`    // links with the largest load
	Duration      int `json:"duration"`       // Λ
	// LiquidThroughput is transfers over Λ, Throughput transfers over steps, in units of
	// a link's throughput.
	LiquidThroughput float64 `json:"liquid_throughput"`
	Throughput       float64 `json:"throughput"`
	// MBps is Throughput times the speed of a link, if the network states one and it is
	// the same for all transfers.
	MBps     float64 `json:"throughput_mbps,omitempty"`
	Steps    int     `json:"steps"`
	Gap      int     `json:"gap"` // steps beyond Λ
	Liquid   bool    `json:"liquid"`
	NoLiquid bool    `json:"no_liquid_schedule"` // proven
	Optimal  bool    `json:"optimal"`            // no schedule has fewer steps
	Method   Method  `json:"method"`
	Effort
	// Time and TimeBound are in units of a transfer at the highest speed, if speeds
	// differ; Speeds has the least number of steps for each.
	Time      float64 `json:"time,omitempty"`
	TimeBound float64 `json:"time_bound,omitempty"`
	Speeds    []Bound `json:"speeds,omitempty"`
	// Compare is the steps of other methods.
	Compare map[Method]int `json:"compare,omitempty"`
	// UnreachablePairs counts the pairs without a path, and FirstUnreachable explains
	// the first.
	UnreachablePairs int    `json:"unreachable_pairs"`
	FirstUnreachable string `json:"first_unreachable,omitempty"`
	Hosts            []Host `json:"hosts,omitempty"`
	// Schedule holds pairs of source and destination, [step]: nodes of the network, or
	// indices into Hosts.
	Schedule [][][2]int32 `json:"schedule"`
}

// Effort is the effort that a schedule took.
type Effort struct {
	Orbits   int   `json:"orbits,omitempty"` // of transfers, scheduled in place of them
	Searched int64 `json:"search_nodes"`
	Moves    int64 `json:"colouring_moves"`
}

// Host is a host port of a running fabric.
type Host struct {
	GUID ib.GUID `json:"guid"` // of the port
	LID  ib.LID  `json:"lid"`  // base
	Name string  `json:"name"`
}

// NewReport reports the result of Make.
func NewReport(t *Traffic, r *Result) *Report {
	out := &Report{Version: 1, Transfers: t.Len(), ConflictEdges: t.ConflictEdges(), Bottlenecks: len(t.Bottlenecks()), Duration: t.Duration(),
		LiquidThroughput: t.LiquidThroughput(), Throughput: r.Schedule.Throughput(), Steps: len(r.Schedule), Gap: len(r.Schedule) - t.Duration(),
		Liquid: r.Liquid, NoLiquid: r.NoLiquid, Optimal: r.Optimal(), Method: r.Method, Effort: Effort{r.Orbits, r.Nodes, r.Moves}, Schedule: [][][2]int32{}}
	nodes, _ := t.nodes()
	out.Nodes = len(nodes)
	if !t.Uniform() {
		out.Time, out.TimeBound, out.Speeds = t.Time(r.Schedule), t.TimeBound(), t.Bounds()
	}
	for _, step := range r.Schedule {
		pairs := make([][2]int32, len(step))
		for i, x := range step {
			pairs[i] = [2]int32{t.Pair(x).Src, t.Pair(x).Dst}
		}
		out.Schedule = append(out.Schedule, pairs)
	}
	return out
}

// AddRoutes adds the hosts and unreachable pairs of a running fabric.
func (r *Report) AddRoutes(routes *Routes) {
	r.UnreachablePairs = len(routes.Cut)
	if len(routes.Cut) > 0 {
		c := routes.Cut[0]
		r.FirstUnreachable = routes.hostName(c.Src) + " to " + routes.hostName(c.Dst) + ": " + c.Reason.Error()
	}
	r.Hosts = []Host{}
	for i, h := range routes.Hosts {
		r.Hosts = append(r.Hosts, Host{h.GUID, h.LID, routes.hostName(int32(i))})
	}
}

func (r *Routes) hostName(i int32) string { return r.Fabric.Nodes[r.Hosts[i].Node].Label() }

// Others returns the number of steps of the methods for comparison.
func Others(ctx context.Context, t *Traffic, seed uint64) (map[Method]int, error) {
	steps := make(map[Method]int)
	for _, m := range []Method{MethodDsatur, MethodRoundRobin, MethodRandom} {
		r, err := Make(ctx, t, Options{Method: m, Seed: seed})
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		steps[m] = len(r.Schedule)
	}
	return steps, nil
}
