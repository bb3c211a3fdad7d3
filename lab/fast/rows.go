package fast

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/forsd/forsd/gpu"
)

// Row is an exchange on a cluster.
type Row struct {
	Name    string
	Servers int
	Model   gpu.Model
	Traffic func() (*gpu.Traffic, error)
}

// Comparison has the times of an exchange by one model.
type Comparison struct {
	Bound                     float64 // seconds: Eq. 26 at the speed of the NICs
	Seconds, Sequential, FAST float64 // of gpu's plan, of the same without overlap, and of FAST's
	Stages, FASTStages        int
	Planned, FASTPlanned      time.Duration
	Buffer, Whole             int64 // bytes of the largest buffer of a NIC, and of one for the whole exchange
}

// The two clusters that the paper measures on: H200 and MI300X.
var models = []struct {
	name string
	gpu.Model
}{
	{"450/50 GB/s", gpu.Model{B1: 450e9, B2: 50e9, Latency: 10 * time.Microsecond}},
	{"448/12.5 GB/s", gpu.Model{B1: 448e9, B2: 12.5e9, Latency: 10 * time.Microsecond}},
}

// tokenBytes is the size of a token: 7168 numbers of 16 bits.
const tokenBytes = 14336

// Rows are the exchanges, up to so many servers of 8 GPUs: token routings both ways, and
// the exchanges that the paper measures, at 1 GB a GPU and at a hundredth of it.
func Rows(most int) []Row {
	var rows []Row
	for _, m := range models {
		for _, servers := range []int{2, 4, 8, 16, 32, 128} {
			if servers > most {
				break
			}
			c := gpu.Cluster{Servers: servers, GPUs: 8}
			add := func(what string, traffic func() (*gpu.Traffic, error)) {
				rows = append(rows, Row{fmt.Sprintf("%s, %d×8, %s", what, servers, m.name), servers, m.Model, traffic})
			}
			for _, back := range []bool{false, true} {
				what := "MoE, top 8, Zipf 0.8"
				if back {
					what += ", back"
				}
				add(what, func() (*gpu.Traffic, error) {
					t, err := Routed(c, 4096, 8, c.Ranks(), .8)
					if err == nil && back {
						t = t.Transpose()
					}
					return t, err
				})
			}
			if servers > 32 {
				continue
			}
			for _, bytes := range []int64{1e9, 1e7} {
				for _, p := range []gpu.Pattern{gpu.Uniform, gpu.Zipf} {
					add(fmt.Sprintf("%s, %d MB", p, bytes/1e6), func() (*gpu.Traffic, error) { return gpu.Generate(c, p, bytes/int64(c.Ranks()), .8, 1) })
				}
			}
		}
	}
	return rows
}

// Routed is the traffic of tokens, each to top different experts, which are placed in blocks
// and whose popularity falls as rank^−skew.
func Routed(c gpu.Cluster, tokens, top, experts int, skew float64) (*gpu.Traffic, error) {
	rng := rand.New(rand.NewPCG(1, uint64(c.Servers)))
	ladder, sum := make([]float64, experts), 0.0
	for k := range ladder {
		sum += math.Pow(float64(k+1), -skew)
		ladder[k] = sum
	}
	order := rng.Perm(experts) // by popularity
	counts, chosen := make([]float64, c.Ranks()*experts), make([]int, experts)
	token := 0
	for source := range c.Ranks() {
		for range tokens {
			token++
			for picked := 0; picked < top; {
				expert := order[min(sort.SearchFloat64s(ladder, sum*rng.Float64()), experts-1)]
				if chosen[expert] != token {
					chosen[expert] = token
					counts[source*experts+expert]++
					picked++
				}
			}
		}
	}
	return gpu.FromRouting(c, experts, counts, tokenBytes)
}

// Compare plans the exchange in both ways, and carries out that of package gpu.
func (r *Row) Compare(ctx context.Context) (*Comparison, error) {
	t, err := r.Traffic()
	if err != nil {
		return nil, err
	}
	var p gpu.Planner
	start := time.Now()
	plan, err := p.Plan(ctx, t, gpu.Options{Model: r.Model})
	if err != nil {
		return nil, err
	}
	c := &Comparison{Planned: time.Since(start), Bound: float64(t.Bound()) / r.Model.B2, Stages: len(plan.Stages), Buffer: plan.Report(r.Model).NICBuffer}
	if err := gpu.Verify(ctx, t, plan); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	c.Seconds = r.Model.Predict(plan).Total
	c.Sequential, c.Whole = sequential(plan, r.Model)
	start = time.Now()
	balanced := New(t, true)
	c.FASTPlanned = time.Since(start)
	c.FAST, c.FASTStages = balanced.Seconds(r.Model), len(balanced.Lengths)
	if raw := New(t, false); raw.Seconds(r.Model) < c.FAST {
		c.FAST, c.FASTStages = raw.Seconds(r.Model), len(raw.Lengths)
	}
	return c, nil
}

// sequential is the duration of a plan if all moves to NICs come before the stages and all
// from NICs after them, and the largest buffer that a NIC then needs.
func sequential(p *gpu.Plan, m gpu.Model) (seconds float64, buffer int64) {
	ranks := p.Ranks()
	f := &fast{loads: make([]int64, 2*ranks)}
	took := func(from, to func(*gpu.Segment) gpu.Rank) float64 {
		for i := range p.Segments {
			s := &p.Segments[i]
			f.move(int(from(s)), int(to(s)), s.Bytes)
		}
		if most := f.most(); most > 0 {
			return float64(most)/m.B1 + m.Latency.Seconds()
		}
		return 0
	}
	out, in := make([]int64, ranks), make([]int64, ranks)
	for i := range p.Segments {
		s := &p.Segments[i]
		out[s.Out] += s.Bytes
		in[s.In] += s.Bytes
	}
	for r := range ranks {
		buffer = max(buffer, out[r], in[r])
	}
	source, nic := func(s *gpu.Segment) gpu.Rank { return s.Source }, func(s *gpu.Segment) gpu.Rank { return s.Out }
	back, destination := func(s *gpu.Segment) gpu.Rank { return s.In }, func(s *gpu.Segment) gpu.Rank { return s.Destination }
	t := m.Predict(p)
	return took(source, nic) + max(t.Stages, t.Local) + took(back, destination), buffer
}
