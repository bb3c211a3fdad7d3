package gpu

import (
	"math"
	"testing"
	"time"
)

// A plan that can be computed by hand: 2 servers of 2 GPUs, 1000 bytes from rank 0 to
// rank 2. Half of them move to rank 1, travel to rank 3, and move on to rank 2.
func TestPredict(t *testing.T) {
	traffic, err := NewTraffic(Cluster{2, 2})
	if err != nil {
		t.Fatal(err)
	}
	traffic.Bytes[2] = 1000
	traffic.Bytes[4*3+2] = 5000 // inside a server
	var p Planner
	plan, err := p.Plan(t.Context(), traffic, Options{Mode: Rails})
	if err != nil {
		t.Fatal(err)
	}
	got := Model{B1: 1000, B2: 100, Latency: time.Second}.Predict(plan)
	want := Times{Before: 1.5, Stages: 6, After: 1.5, Local: 6, Total: 9}
	if got != want {
		t.Errorf("predicted %+v, want %+v", got, want)
	}
	traffic.Bytes[4*3+2] = 9000
	if plan, err = p.Plan(t.Context(), traffic, Options{Mode: Rails}); err != nil {
		t.Fatal(err)
	}
	if got := (Model{B1: 1000, B2: 100, Latency: time.Second}).Predict(plan).Total; got != 13 {
		t.Errorf("predicted %v, want 13: what stays inside a server takes longest", got)
	}
}

// Auto is at least as good as every mode that it may choose from, for any model.
func TestAuto(t *testing.T) {
	for _, pattern := range Patterns {
		for _, mean := range []int64{3, 1 << 12, 1 << 20} {
			traffic, err := Generate(Cluster{6, 4}, pattern, mean, .8, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, model := range []Model{{}, {B1: 450e9, B2: 50e9}, {B1: 50e9, B2: 50e9, Latency: time.Microsecond}, {B1: 1e12, B2: 1e9, Latency: time.Millisecond}} {
				var p Planner
				best, err := p.Plan(t.Context(), traffic, Options{Model: model})
				if err != nil {
					t.Fatal(err)
				}
				if err := Verify(t.Context(), traffic, best); err != nil {
					t.Fatal(err)
				}
				least := math.Inf(1)
				for _, mode := range []Mode{Bytes, Rails, MinMove, Paper, None} {
					plan, err := p.Plan(t.Context(), traffic, Options{Mode: mode})
					if err != nil {
						t.Fatal(err)
					}
					least = min(least, model.Predict(plan).Total)
				}
				if got := model.Predict(best).Total; got > least {
					t.Errorf("%s, mean %d, %+v: mode %s takes %v s, the best mode %v s", pattern, mean, model, best.Mode, got, least)
				}
			}
		}
	}
}

// Larger clusters are also planned with the fewest moves if moves take long, and in few
// stages if stages do. Moves that stages hide cost nothing.
func TestAutoMovesLittle(t *testing.T) {
	traffic, err := Generate(Cluster{12, 8}, Zipf, 1<<24, .5, 1)
	if err != nil {
		t.Fatal(err)
	}
	var p Planner
	for _, x := range []struct {
		b1      float64
		latency time.Duration
		want    Mode
	}{{450e9, time.Microsecond, Bytes}, {1e9, time.Microsecond, MinMove}, {450e9, 100 * time.Microsecond, Bytes}} {
		model := Model{B1: x.b1, B2: 50e9, Latency: x.latency}
		plan, err := p.Plan(t.Context(), traffic, Options{Model: model})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Mode != x.want {
			t.Errorf("%+v: mode %s, want %s", model, plan.Mode, x.want)
		}
		for _, mode := range []Mode{Bytes, Rails, MinMove} {
			other, err := p.Plan(t.Context(), traffic, Options{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			if got, least := model.Predict(plan).Total, model.Predict(other).Total; got > least {
				t.Errorf("%+v: mode %s takes %v s, %s %v s", model, plan.Mode, got, mode, least)
			}
		}
	}
}

// A mode whose plan is longer than the stretch allows is not chosen, although it takes less
// time if moves are slow.
func TestAutoKeepsToTheStretch(t *testing.T) {
	traffic := must(NewTraffic(Cluster{2, 4}))
	for source := range 8 {
		traffic.Bytes[source*8+3] = 1 << 20
	}
	var p Planner
	for _, stretch := range []float64{1, 1.5, 3, 5} {
		plan := must(p.Plan(t.Context(), traffic, Options{MaxStretch: stretch, Model: Model{B1: 1e9, B2: 50e9, Latency: time.Millisecond}}))
		if float64(plan.Length) > stretch*float64(plan.Bound) {
			t.Errorf("stretch %v: mode %s has length %d, and the bound is %d", stretch, plan.Mode, plan.Length, plan.Bound)
		}
		if stretch == 5 && plan.Length != 4*plan.Bound {
			t.Errorf("nothing was to be left out: mode %s, length %d, bound %d", plan.Mode, plan.Length, plan.Bound)
		}
	}
}

func TestOptionsRefuses(t *testing.T) {
	traffic := uniform(Cluster{2, 2}, 1)
	var p Planner
	for _, o := range []Options{
		{Mode: "other"}, {Grain: -1}, {MaxStretch: .5}, {MaxStretch: math.NaN()}, {Grain: 2, MaxStretch: 2}, {Mode: Rails, MaxStretch: 2}, {Mode: MinMove, Fewest: true},
		{MaxStage: -1}, {MaxStage: math.MaxInt64}, {Mode: Bytes, MaxStage: math.MaxInt64},
		{Model: Model{B1: -1, B2: 1}}, {Model: Model{B1: 1}}, {Model: Model{B1: 1, B2: 1e-300}}, {Model: Model{B1: 1, B2: math.Inf(1)}}, {Model: Model{B1: 1, B2: 1, Latency: -1}},
	} {
		if _, err := p.Plan(t.Context(), traffic, o); err == nil {
			t.Errorf("options %+v are taken", o)
		}
	}
	if _, err := p.Plan(t.Context(), &Traffic{Cluster: Cluster{2, 2}, Bytes: make([]int64, 4)}, Options{}); err == nil {
		t.Error("a traffic that is too small is taken")
	}
}
