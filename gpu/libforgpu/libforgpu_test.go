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
	o := gpu.Options{Mode: gpu.Bytes, Fewest: rng.IntN(2) == 0, Groups: max(0, rng.IntN(8)-4)}
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

// damaged draws speeds of NICs, some of them dead, and returns the site's traffic by places and
// the number of channels of the fastest NIC.
func damaged(t testing.TB, rng *rand.Rand, traffic *gpu.Traffic) (placed *gpu.Traffic, speeds []int64, parts int32) {
	s := traffic.Uniform()
	for i := range s.Servers {
		for k := range s.Servers[i].NICs {
			speed := []int64{4, 4, 4, 4, 3, 2, 1, 0}[rng.IntN(8)]
			s.Servers[i].NICs[k].Speed, speeds = speed, append(speeds, speed)
		}
	}
	parts = 1 + rng.Int32N(4)
	places, err := s.Places(int64(parts))
	if err != nil {
		t.Fatal(err)
	}
	if placed, err = s.Traffic(places, traffic.Bytes); err != nil {
		t.Fatal(err)
	}
	return placed, speeds, parts
}

// With dead and slow NICs, the library and Go plan the same bytes and choose the same options, or
// both refuse.
func TestDamagedSameAsGo(t *testing.T) {
	draws := 400
	if os.Getenv("FORS_LONG") != "" {
		draws = 30_000
	}
	c := start(t, checked)
	var p gpu.Planner
	refused := 0
	for draw := range draws {
		rng := rand.New(rand.NewPCG(25, uint64(draw)))
		cluster := gpu.Cluster{Servers: 1 + rng.IntN(8), GPUs: 1 + rng.IntN(6)}
		traffic := anyTraffic(t, rng, cluster)
		placed, speeds, parts := damaged(t, rng, traffic)
		o, rank := anyOptions(rng, traffic.Bound()), gpu.Rank(rng.IntN(placed.Ranks()))
		q := request{Servers: int32(cluster.Servers), GPUs: int32(cluster.GPUs), Rank: int32(rank), Parts: parts, Options: optionsOf(o)}
		a, lengths, section := c.do(q, traffic.Bytes, speeds...)
		if _, err := p.Plan(t.Context(), placed, o); err != nil {
			if refused++; a.Code == 0 {
				t.Fatalf("draw %d: Go refuses %v, and C plans", draw, err)
			}
			continue
		}
		if a.Code != 0 {
			t.Fatalf("draw %d: %s", draw, a.Text[:])
		}
		if wantLengths, wantSection := wanted(t, &p, placed, rank, o); !slices.Equal(lengths, wantLengths) || !bytes.Equal(section, wantSection) {
			t.Fatalf("draw %d, place %d of %+v, speeds %d in %d parts, %+v: %d stages and a section of %d bytes, Go's %d and %d", draw, rank, cluster, speeds, parts, o, len(lengths), len(section), len(wantLengths), len(wantSection))
		}
		own, err := p.Own(t.Context(), placed, rank, o)
		if err != nil || !slices.Equal(own.Lengths, lengths) {
			t.Fatalf("draw %d: %v", draw, err)
		}
		if q.Choose = 1; draw%4 > 0 {
			continue
		}
		chosen, seconds, outlook, err := p.Choose(t.Context(), placed, o)
		if err != nil {
			t.Fatal(err)
		}
		if a, _, _ = c.do(q, traffic.Bytes, speeds...); a.Code != 0 || a.Options.gpu(o.Model) != chosen || a.Seconds != seconds || a.LeastSeconds != outlook.Least {
			t.Fatalf("draw %d, %+v, speeds %d in %d parts, %+v: C chooses %+v (%v s, at least %v), Go %+v (%v s, at least %v)", draw, cluster, speeds, parts, o, a.Options, a.Seconds, a.LeastSeconds, chosen, seconds, outlook.Least)
		}
	}
	if refused > draws/2 {
		t.Errorf("%d of %d draws are refused", refused, draws)
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
		"groups below 0":         {request{Servers: 2, GPUs: 2, Options: options{Groups: -1}}, whole, -1},
		"too many channels":      {request{Servers: 2, GPUs: 2, Parts: 2049}, append(slices.Clone(whole), 1, 1, 1, 1), -1},
		"a speed below 0":        {request{Servers: 2, GPUs: 2, Parts: 1}, append(slices.Clone(whole), 1, -1, 1, 1), -1},
		"a server without NICs":  {request{Servers: 2, GPUs: 2, Parts: 1}, append(slices.Clone(whole), 1, 1, 0, 0), -3},
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

// anyTokens draws the ranks of tokens' experts, as the library takes them and in Go.
func anyTokens(t testing.TB, rng *rand.Rand, c gpu.Cluster, each, choices int, size int64) ([]int32, *gpu.Tokens) {
	t.Helper()
	ranks, experts := make([]int32, c.Ranks()*each*choices), make([]float64, c.Ranks()*each*choices)
	for at := range ranks {
		ranks[at] = int32(rng.IntN(c.Ranks()+1)) - 1
		experts[at] = float64(ranks[at])
	}
	placed, err := c.Blocks(c.Ranks())
	if err != nil {
		t.Fatal(err)
	}
	x, err := gpu.FromTopK(c, experts, choices, placed, size)
	if err != nil {
		t.Fatal(err)
	}
	return ranks, x
}

// wantedTokens is the sections of a rank in the binary forms of Go's plan of all ranks, and of its
// way back, and the lengths of the stages of both.
func wantedTokens(t testing.TB, p *gpu.Planner, x *gpu.Tokens, rank gpu.Rank, o gpu.Options) (lengths []int64, there, back []byte) {
	t.Helper()
	plan, err := p.PlanTokens(t.Context(), x, o)
	if err != nil {
		t.Fatal(err)
	}
	return sectionsOf(t, plan, rank)
}

func sectionsOf(t testing.TB, plan *gpu.Plan, rank gpu.Rank) (lengths []int64, there, back []byte) {
	t.Helper()
	sections := [2][]byte{}
	for at, way := range []*gpu.Plan{plan, plan.Return()} {
		data, err := way.Encode(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		index := data[64+8*len(way.Stages)+8*int(rank):]
		sections[at] = data[binary.LittleEndian.Uint64(index):binary.LittleEndian.Uint64(index[8:])]
		for _, s := range way.Stages {
			lengths = append(lengths, s.Length)
		}
	}
	return lengths, sections[0], sections[1]
}

// Tokens that are sent once to each server, and their way back, are planned as in Go.
func TestTokens(t *testing.T) {
	p := start(t, checked)
	var planner gpu.Planner
	count := 60
	if os.Getenv("FORS_LONG") != "" {
		count = 3000
	}
	for draw := range count {
		rng := rand.New(rand.NewPCG(51, uint64(draw)))
		c := gpu.Cluster{Servers: 1 + rng.IntN(5), GPUs: 1 + rng.IntN(5)}
		each, choices, size := rng.IntN(20), 1+rng.IntN(6), 1+rng.Int64N(1<<uint(rng.IntN(14)))
		ranks, x := anyTokens(t, rng, c, each, choices, size)
		o := anyOptions(rng, x.Traffic(gpu.ToServer).Bound())
		o.Model = gpu.Model{}
		q := request{Servers: int32(c.Servers), GPUs: int32(c.GPUs), Rank: int32(rng.IntN(c.Ranks())), Each: int32(each), Choices: int32(choices), Token: size, Options: optionsOf(o)}
		a, lengths, sections := p.do(q, ranks)
		stages, there, back := wantedTokens(t, &planner, x, gpu.Rank(q.Rank), o)
		if a.Code != 0 || !slices.Equal(lengths, stages) || !bytes.Equal(sections, slices.Concat(there, back)) {
			t.Fatalf("draw %d, rank %d of %+v, %+v: stages of %d and %d bytes of programs, want %d and %d (%s)", draw, q.Rank, c, o, lengths, len(sections), stages, len(there)+len(back), a.Text[:])
		}
		q.Choose, q.Options = 1, options{}
		a, _, _ = p.do(q, ranks)
		chosen, seconds, _, err := planner.ChooseTokens(t.Context(), x, gpu.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Options.gpu(gpu.Model{}); a.Code != 0 || got != chosen || a.Seconds != seconds {
			t.Fatalf("draw %d: %+v in %v s is chosen, want %+v in %v (%s)", draw, got, a.Seconds, chosen, seconds, a.Text[:])
		}
	}
}

// With dead NICs tokens are planned as in Go, or both refuse.
func TestTokensDamagedSameAsGo(t *testing.T) {
	c := start(t, checked)
	var p gpu.Planner
	draws, refused := 60, 0
	if os.Getenv("FORS_LONG") != "" {
		draws = 3000
	}
	for draw := range draws {
		rng := rand.New(rand.NewPCG(53, uint64(draw)))
		cluster := gpu.Cluster{Servers: 2 + rng.IntN(4), GPUs: 2 + rng.IntN(4)}
		each, choices, size := 1+rng.IntN(20), 1+rng.IntN(6), 1+rng.Int64N(1<<uint(rng.IntN(14)))
		ranks, x := anyTokens(t, rng, cluster, each, choices, size)
		site, speeds := cluster.Uniform(), make([]int64, cluster.Ranks())
		for r := range speeds {
			if speeds[r] = 1; rng.IntN(3) == 0 {
				speeds[r] = 0
			}
			site.Servers[r/cluster.GPUs].NICs[r%cluster.GPUs].Speed = speeds[r]
		}
		o, rank := anyOptions(rng, x.Traffic(gpu.ToServer).Bound()), gpu.Rank(rng.IntN(cluster.Ranks()))
		o.Model = gpu.Model{}
		q := request{Servers: int32(cluster.Servers), GPUs: int32(cluster.GPUs), Rank: int32(rank), Parts: 1, Each: int32(each), Choices: int32(choices), Token: size, Options: optionsOf(o)}
		a, lengths, sections := c.do(q, ranks, speeds...)
		plan, err := p.PlanSiteTokens(t.Context(), site, x, o)
		if err != nil {
			if refused++; a.Code == 0 {
				t.Fatalf("draw %d: Go refuses %v, and C plans", draw, err)
			}
			continue
		}
		stages, there, back := sectionsOf(t, plan, rank)
		if a.Code != 0 || !slices.Equal(lengths, stages) || !bytes.Equal(sections, slices.Concat(there, back)) {
			t.Fatalf("draw %d, rank %d of %+v, speeds %d, %+v: stages of %d and %d bytes of programs, want %d and %d (%s)", draw, rank, cluster, speeds, o, lengths, len(sections), stages, len(there)+len(back), a.Text[:])
		}
	}
	if refused > draws/2 {
		t.Errorf("%d of %d draws are refused", refused, draws)
	}
}

// Bad tokens are refused, and a planner goes on with good ones, and with messages.
func TestTokensRefused(t *testing.T) {
	p := start(t, checked)
	good := request{Servers: 2, GPUs: 1, Each: 1, Choices: 2, Token: 8}
	for text, bad := range map[string]struct {
		change func(*request)
		ranks  []int32
	}{
		"0 bytes a token":                            {func(q *request) { q.Token = 0 }, []int32{0, 1, 1, -1}},
		"token 1, choice 0 is of rank 2":             {func(*request) {}, []int32{0, 1, 2, -1}},
		"token 0, choice 1 is of rank -2":            {func(*request) {}, []int32{0, -2, 1, -1}},
		"rank 2: want 0 to 1":                        {func(q *request) { q.Rank = 2 }, []int32{0, 1, 1, -1}},
		"tokens are planned for NICs of one channel": {func(q *request) { q.Parts = 2 }, []int32{0, 1, 1, -1}},
	} {
		q, speeds := good, []int64(nil)
		if bad.change(&q); q.Parts > 0 {
			speeds = []int64{1, 2}
		}
		if a, _, _ := p.do(q, bad.ranks, speeds...); a.Code >= 0 || !bytes.Contains(a.Text[:], []byte(text)) {
			t.Errorf("want %q: %d, %s", text, a.Code, a.Text[:])
		}
		if a, _, sections := p.do(good, []int32{0, 1, 1, -1}); a.Code != 0 || len(sections) == 0 {
			t.Errorf("after %q: %s", text, a.Text[:])
		}
		traffic := &gpu.Traffic{Cluster: gpu.Cluster{Servers: 2, GPUs: 1}, Bytes: []int64{1, 2, 3, 4}}
		var planner gpu.Planner
		_, want := wanted(t, &planner, traffic, 1, gpu.Options{Mode: gpu.Bytes})
		if _, _, got := p.plan(traffic, 1, gpu.Options{Mode: gpu.Bytes}, 0); !bytes.Equal(got, want) {
			t.Errorf("after %q: messages have another plan", text)
		}
	}
}
