package gpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// uniform is traffic of up to 1 MiB for each pair of GPUs of different servers.
func uniform(c Cluster, seed uint64) *Traffic {
	rng := rand.New(rand.NewPCG(seed, uint64(c.Servers)))
	t, err := NewTraffic(c)
	if err != nil {
		panic(err)
	}
	for at := range t.Bytes {
		if source, destination := at/c.Ranks(), at%c.Ranks(); source/c.GPUs != destination/c.GPUs {
			t.Bytes[at] = rng.Int64N(1 << 20)
		}
	}
	return t
}

// The number of stages for uniform random traffic, without rounding: 24, 250 and
// 1100 are the goals.
func TestBytesStages(t *testing.T) {
	for _, c := range []struct{ servers, most int }{{8, 24}, {32, 250}, {128, 1100}} {
		for _, fewest := range []bool{false, true} {
			var p Planner
			sum := 0
			const matrices = 20
			for seed := range uint64(matrices) {
				traffic := uniform(Cluster{c.servers, 8}, seed)
				lengths, _, err := p.ServerStages(t.Context(), traffic, Options{Fewest: fewest})
				if err != nil {
					t.Fatal(err)
				}
				total := int64(0)
				for _, v := range lengths {
					total += v
				}
				if bound := traffic.Bound(); total < bound || total > bound+int64(c.servers) {
					t.Errorf("%d servers, matrix %d: length %d, want %d to %d", c.servers, seed, total, bound, bound+int64(c.servers))
				}
				sum += len(lengths)
			}
			if mean := float64(sum) / matrices; mean > float64(c.most) {
				t.Errorf("%d servers, fewest %v: %.1f stages on average, want %d at most", c.servers, fewest, mean, c.most)
			} else {
				t.Logf("%d servers, fewest %v: %.1f stages on average", c.servers, fewest, mean)
			}
		}
	}
}

// Complete plans in every mode for amounts of bytes, including odd ones.
func TestBytesPlans(t *testing.T) {
	one := func(c Cluster, fill func(t *Traffic)) *Traffic {
		x, err := NewTraffic(c)
		if err != nil {
			t.Fatal(err)
		}
		fill(x)
		return x
	}
	for name, traffic := range map[string]*Traffic{
		"zero":            one(Cluster{4, 2}, func(*Traffic) {}),
		"a single entry":  one(Cluster{4, 2}, func(t *Traffic) { t.Bytes[1*8+6] = 12345 }),
		"one row":         one(Cluster{4, 2}, func(t *Traffic) { copy(t.Bytes[8:], []int64{9, 9, 0, 3, 50, 7, 1, 1 << 20}) }),
		"one column":      one(Cluster{4, 2}, func(t *Traffic) { t.Bytes[2], t.Bytes[5*8+2], t.Bytes[7*8+2] = 5, 1e9, 17 }),
		"above 4 GiB":     one(Cluster{3, 2}, func(t *Traffic) { t.Bytes[3], t.Bytes[2*6+5], t.Bytes[4*6] = 1e12, 1e12-1, 5<<32 }),
		"one server":      one(Cluster{1, 4}, func(t *Traffic) { t.Bytes[1], t.Bytes[4] = 7, 8 }),
		"one GPU":         one(Cluster{1, 1}, func(t *Traffic) { t.Bytes[0] = 7 }),
		"one GPU each":    uniform(Cluster{5, 1}, 5),
		"9 servers":       uniform(Cluster{9, 4}, 9),
		"10 servers":      uniform(Cluster{10, 3}, 10),
		"inside and self": one(Cluster{2, 2}, func(t *Traffic) { copy(t.Bytes, []int64{4, 5, 6, 7, 1, 2, 3, 4}) }),
	} {
		var p Planner
		for _, o := range []Options{
			{}, {Mode: Bytes}, {Mode: Bytes, Fewest: true}, {Mode: Bytes, Grain: 4096}, {Mode: Bytes, MaxStretch: 1.05}, {MaxStretch: 1.1}, {Grain: 1000},
			{Mode: Rails}, {Mode: Rails, Grain: 1000}, {Mode: MinMove, Grain: 4096}, {Mode: MinMove}, {Mode: Paper}, {Mode: Paper, Grain: 8192}, {Mode: None, Grain: 100},
		} {
			what := fmt.Sprintf("%s, %+v", name, o)
			plan, err := p.Plan(t.Context(), traffic, o)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if err := Verify(t.Context(), traffic, plan); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			limit := plan.Bound + int64(traffic.Servers)*plan.Grain
			if o.MaxStretch > 1 {
				limit = int64(float64(plan.Bound+int64(traffic.Servers)) * o.MaxStretch)
			}
			if plan.Mode == Bytes && o.Mode == Bytes && plan.Length > limit {
				t.Errorf("%s: length %d exceeds %d", what, plan.Length, limit)
			}
			if (o.Mode == Rails || o.Mode == MinMove) && o.Grain == 0 && plan.Length != plan.Bound {
				t.Errorf("%s: length %d, want %d", what, plan.Length, plan.Bound)
			}
		}
	}
}

// Options that cut stages into millions are refused quickly and in little memory. If Auto
// itself cuts, it stops in time: a grain far above all messages makes stages long, and the
// limit of transfers is soon reached.
func TestManyStages(t *testing.T) {
	var p Planner
	c := Cluster{2, 1}
	long := &Traffic{Cluster: c, Bytes: []int64{0, 1 << 50, 0, 0}}
	for _, mode := range []Mode{Bytes, Auto} {
		if _, err := p.Plan(t.Context(), long, Options{Mode: mode, MaxStage: 1}); err == nil {
			t.Errorf("mode %s: 2^50 stages are planned", mode)
		}
	}
	site := c.Uniform()
	if _, err := p.PlanSite(t.Context(), site, long.Bytes, Options{MaxStage: 1}); err == nil {
		t.Error("of a site, 2^50 stages are planned")
	}
	traffic := uniform(Cluster{4, 4}, 2)
	model := Model{B1: 60e9, B2: 50e9, Latency: time.Microsecond} // moves take long, so stages are cut
	for _, x := range []struct {
		grain     int64
		transfers int
	}{{1 << 50, 0}, {0, 200}} {
		p.MaxTransfers = x.transfers
		plan, err := p.Plan(t.Context(), traffic, Options{Grain: x.grain, Model: model})
		if err != nil {
			t.Fatalf("%+v: %v", x, err)
		}
		if err := Verify(t.Context(), traffic, plan); err != nil {
			t.Error(err)
		}
	}
}
