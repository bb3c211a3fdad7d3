package libforgpu

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/gpu"
)

// anyTraffic draws the traffic between ranks: from none to dense, in small and in large amounts.
func anyTraffic(t testing.TB, rng *rand.Rand, c gpu.Cluster) *gpu.Traffic {
	traffic, err := gpu.NewTraffic(c)
	if err != nil {
		t.Fatal(err)
	}
	density, limit := rng.IntN(101), []int64{1, 3, 1000, 1 << 20, 1 << 40}[rng.IntN(5)]
	heavy := rng.IntN(c.Ranks())
	for at := range traffic.Bytes {
		if rng.IntN(100) < density {
			traffic.Bytes[at] = rng.Int64N(limit + 1)
		}
		if at%c.Ranks() == heavy {
			traffic.Bytes[at] *= 1 + rng.Int64N(8)
		}
	}
	return traffic
}

// anyOptions draws options of mode Bytes that keep a plan small.
func anyOptions(rng *rand.Rand, bound int64) gpu.Options {
	o := gpu.Options{Mode: gpu.Bytes, Fewest: rng.IntN(2) == 0}
	switch rng.IntN(4) {
	case 0:
		o.Grain = rng.Int64N(bound/4 + 2)
	case 1:
		o.MaxStretch = 1 + rng.Float64()
	}
	if rng.IntN(3) == 0 {
		o.MaxStage = bound/(1+rng.Int64N(20)) + 1
	}
	if rng.IntN(3) == 0 {
		o.Model = gpu.Model{B1: 1 + 1e12*rng.Float64(), B2: 1 + 1e11*rng.Float64(), Latency: time.Duration(rng.Int64N(1 << 31))}
	}
	return o
}

// wanted is the section of a rank in the binary form of Go's plan of all ranks.
func wanted(t testing.TB, p *gpu.Planner, traffic *gpu.Traffic, rank gpu.Rank, o gpu.Options) (lengths []int64, section []byte) {
	t.Helper()
	plan, err := p.Plan(t.Context(), traffic, o)
	if err != nil {
		t.Fatal(err)
	}
	data, err := plan.Encode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range plan.Stages {
		lengths = append(lengths, plan.Stages[i].Length)
	}
	index := data[56+8*len(lengths)+8*int(rank):]
	return lengths, data[binary.LittleEndian.Uint64(index):binary.LittleEndian.Uint64(index[8:])]
}

// The library and Go plan the same bytes for random traffic, options and ranks.
func TestSameAsGo(t *testing.T) {
	draws := 1000
	if os.Getenv("FORS_LONG") != "" {
		draws = 50_000
	}
	c := start(t, checked)
	var p gpu.Planner
	for draw := range draws {
		rng := rand.New(rand.NewPCG(22, uint64(draw)))
		cluster := gpu.Cluster{Servers: 1 + rng.IntN(10), GPUs: 1 + rng.IntN(6)}
		if draw%100 == 99 {
			cluster = gpu.Cluster{Servers: 60 + rng.IntN(10), GPUs: 1 + rng.IntN(2)} // more than a word of them
		}
		traffic := anyTraffic(t, rng, cluster)
		o, rank := anyOptions(rng, traffic.Bound()), gpu.Rank(rng.IntN(cluster.Ranks()))
		_, lengths, section := c.plan(traffic, rank, o, 0)
		wantLengths, wantSection := wanted(t, &p, traffic, rank, o)
		if !slices.Equal(lengths, wantLengths) || !bytes.Equal(section, wantSection) {
			t.Fatalf("draw %d, rank %d of %+v, %+v: %d stages and a section of %d bytes, Go's %d and %d", draw, rank, cluster, o, len(lengths), len(section), len(wantLengths), len(wantSection))
		}
	}
}

// All ranks of large clusters get the same programs in C as in Go.
func TestLargeSameAsGo(t *testing.T) {
	c := start(t, quick)
	var p gpu.Planner
	for _, cluster := range []gpu.Cluster{{Servers: 8, GPUs: 8}, {Servers: 128, GPUs: 8}} {
		traffic, err := gpu.Generate(cluster, gpu.MoE, 1<<20, .8, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, rank := range []gpu.Rank{0, gpu.Rank(cluster.Ranks() - 1)} {
			o := gpu.Options{Mode: gpu.Bytes, MaxStretch: 1.05}
			_, lengths, section := c.plan(traffic, rank, o, 0)
			if wantLengths, wantSection := wanted(t, &p, traffic, rank, o); !slices.Equal(lengths, wantLengths) || !bytes.Equal(section, wantSection) {
				t.Errorf("rank %d of %+v has another program than Go's", rank, cluster)
			}
		}
	}
}

// The library chooses the same options as Go, and predicts the same times.
func TestChoosesAsGo(t *testing.T) {
	draws := 150
	if os.Getenv("FORS_LONG") != "" {
		draws = 5000
	}
	c := start(t, checked)
	var p gpu.Planner
	for draw := range draws {
		rng := rand.New(rand.NewPCG(23, uint64(draw)))
		cluster := gpu.Cluster{Servers: 1 + rng.IntN(10), GPUs: 1 + rng.IntN(6)}
		traffic := anyTraffic(t, rng, cluster)
		o := anyOptions(rng, traffic.Bound())
		chosen, seconds, outlook, err := p.Choose(t.Context(), traffic, o)
		if err != nil {
			t.Fatal(err)
		}
		q := request{Choose: 1, Servers: int32(cluster.Servers), GPUs: int32(cluster.GPUs), Options: optionsOf(o)}
		a, _, _ := c.do(q, traffic.Bytes)
		if a.Code != 0 {
			t.Fatalf("draw %d: %s", draw, a.Text[:])
		}
		if a.Options.gpu(o.Model) != chosen || a.Seconds != seconds || a.LeastSeconds != outlook.Least || a.Complete == 0 {
			t.Fatalf("draw %d, %+v, %+v: C chooses %+v (%v s, at least %v), Go %+v (%v s, at least %v)", draw, cluster, o, a.Options, a.Seconds, a.LeastSeconds, chosen, seconds, outlook.Least)
		}
		// A budget that is used up immediately leaves alternatives untried, but gives a plan.
		q.Budget = 1
		if a, _, _ = c.do(q, traffic.Bytes); a.Code != 0 || a.Complete != 0 && cluster.Servers > 1 && traffic.Bound() > 0 || a.Seconds < outlook.Least {
			t.Fatalf("draw %d, %+v, a budget of 1 ns: code %d, %v s, complete %d", draw, cluster, a.Code, a.Seconds, a.Complete)
		}
	}
}

// After its first call a planner allocates no memory for any traffic of the same size.
func TestAsksForMemoryOnce(t *testing.T) {
	c := start(t, quick)
	for _, cluster := range []gpu.Cluster{{Servers: 1, GPUs: 1}, {Servers: 2, GPUs: 8}, {Servers: 8, GPUs: 8}, {Servers: 32, GPUs: 8}, {Servers: 70, GPUs: 1}} {
		for draw := range 40 {
			rng := rand.New(rand.NewPCG(24, uint64(draw)))
			traffic := anyTraffic(t, rng, cluster)
			a, _, _ := c.plan(traffic, gpu.Rank(rng.IntN(cluster.Ranks())), gpu.Options{Fewest: draw%2 == 0, MaxStretch: 1 + .1*float64(draw%3)}, 0)
			switch {
			case draw == 0 && a.Asked == 0 && cluster.Servers == 70:
				t.Error("nothing is counted")
			case draw > 0 && a.Asked != 0:
				t.Errorf("%+v, draw %d: memory is asked for %d times", cluster, draw, a.Asked)
			}
		}
	}
}

// The library refuses the same arguments as Go.
func TestRefuses(t *testing.T) {
	c := start(t, checked)
	whole := slices.Repeat([]int64{1}, 16)
	spoiled := func(at int, v int64) []int64 {
		x := slices.Clone(whole)
		x[at] = v
		return x
	}
	for name, x := range map[string]struct {
		q     request
		bytes []int64
		code  int64
	}{
		"a rank below 0":         {request{Servers: 2, GPUs: 2, Rank: -1}, whole, -1},
		"a rank too many":        {request{Servers: 2, GPUs: 2, Rank: 4}, whole, -1},
		"no GPUs":                {request{Servers: 2}, nil, -1},
		"a negative entry":       {request{Servers: 2, GPUs: 2}, spoiled(5, -1), -3},
		"the most negative":      {request{Servers: 2, GPUs: 2}, spoiled(5, math.MinInt64), -3},
		"too many bytes":         {request{Servers: 2, GPUs: 2}, spoiled(15, 1<<60), -3},
		"a sum that wraps":       {request{Servers: 2, GPUs: 2}, slices.Repeat([]int64{1 << 60}, 16), -3},
		"a negative grain":       {request{Servers: 2, GPUs: 2, Options: options{Grain: -1}}, whole, -1},
		"a grain too large":      {request{Servers: 8, GPUs: 1, Options: options{Grain: 1 << 60}}, slices.Repeat([]int64{1}, 64), -1},
		"a stretch below 1":      {request{Servers: 2, GPUs: 2, Options: options{MaxStretch: .5}}, whole, -1},
		"no number as a stretch": {request{Servers: 2, GPUs: 2, Options: options{MaxStretch: math.NaN()}}, whole, -1},
		"grain and stretch":      {request{Servers: 2, GPUs: 2, Options: options{Grain: 2, MaxStretch: 2}}, whole, -1},
		"a negative stage":       {request{Servers: 2, GPUs: 2, Options: options{MaxStage: -1}}, whole, -1},
		"stages of a byte":       {request{Servers: 2, GPUs: 1, Options: options{MaxStage: 1}}, []int64{0, 1 << 50, 0, 0}, -4},
		"a stage too large":      {request{Servers: 2, GPUs: 2, Options: options{MaxStage: math.MaxInt64}}, whole, -1},
		"half a model":           {request{Servers: 2, GPUs: 2, Options: options{B1: 1}}, whole, -1},
		"a field to come":        {request{Servers: 2, GPUs: 2, Options: options{Reserved: 1}}, whole, -1},
		"a budget below 0":       {request{Choose: 1, Servers: 2, GPUs: 2, Budget: -1}, whole, -1},
	} {
		if a, _, _ := c.do(x.q, x.bytes); a.Code != x.code || a.Text[0] == 0 {
			t.Errorf("%s: code %d, want %d (%s)", name, a.Code, x.code, bytes.TrimRight(a.Text[:], "\x00"))
		}
	}
	// Arguments at the limits.
	for _, v := range [][]int64{spoiled(2, 1<<60-15), make([]int64, 16)} {
		if a, _, _ := c.do(request{Servers: 2, GPUs: 2, Rank: 3}, v); a.Code != 0 {
			t.Errorf("%v: %s", v, a.Text[:])
		}
	}
}

// BenchmarkLibrary times the complete program of one rank: the least and the median time in C,
// and the time of Go in the same run.
func BenchmarkLibrary(b *testing.B) {
	for _, cluster := range []gpu.Cluster{{Servers: 8, GPUs: 8}, {Servers: 128, GPUs: 8}} {
		for _, stretch := range []float64{0, 1.05} {
			b.Run(name(cluster, stretch), func(b *testing.B) {
				traffic, err := gpu.Generate(cluster, gpu.Uniform, 1<<20, 0, 1)
				if err != nil {
					b.Fatal(err)
				}
				o, runs := gpu.Options{Mode: gpu.Bytes, MaxStretch: stretch}, 200_000/cluster.Ranks()
				var a answer
				c := start(b, quick)
				for b.Loop() {
					a, _, _ = c.plan(traffic, 3, o, runs)
				}
				var p gpu.Planner
				took := make([]time.Duration, runs)
				for i := range took {
					start := time.Now()
					if _, err := p.Own(b.Context(), traffic, 3, o); err != nil {
						b.Fatal(err)
					}
					took[i] = time.Since(start)
				}
				slices.Sort(took)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(a.Least)/1000, "C-least-us")
				b.ReportMetric(float64(a.Median)/1000, "C-median-us")
				b.ReportMetric(float64(took[0].Nanoseconds())/1000, "Go-least-us")
				b.ReportMetric(float64(took[runs/2].Nanoseconds())/1000, "Go-median-us")
			})
		}
	}
}

func name(c gpu.Cluster, stretch float64) string {
	if stretch == 0 {
		return map[int]string{64: "64-GPUs", 1024: "1024-GPUs"}[c.Ranks()]
	}
	return map[int]string{64: "64-GPUs-stretched", 1024: "1024-GPUs-stretched"}[c.Ranks()]
}
