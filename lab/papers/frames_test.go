package papers

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/gpu"
)

// A frame is as long in the simulation as a plan for the same packets.
func TestArrivals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 2000 {
		n, m := 2+rng.IntN(5), 1+rng.IntN(4)
		traffic, err := gpu.NewTraffic(gpu.Cluster{Servers: n, GPUs: m})
		if err != nil {
			t.Fatal(err)
		}
		a := &arrivals{n: n, m: m, pairs: make([]int64, n*n), rows: make([]int64, n*n*m), columns: make([]int64, n*n*m)}
		for range rng.IntN(4 * n * m) {
			i, j, l, k := rng.IntN(n), rng.IntN(n), rng.IntN(m), rng.IntN(m)
			if i == j {
				continue
			}
			a.pairs[i*n+j]++
			a.rows[(i*n+j)*m+l]++
			a.columns[(i*n+j)*m+k]++
			traffic.Bytes[(i*m+l)*n*m+j*m+k]++
		}
		for _, mode := range []gpu.Mode{gpu.Rails, gpu.Paper, gpu.None} { // Paper changes the pairs
			plan, err := new(gpu.Planner).Plan(t.Context(), traffic, gpu.Options{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			if got := a.length(mode); got != plan.Length {
				t.Fatalf("mode %s: a frame of %d slots, want %d", mode, got, plan.Length)
			}
		}
	}
}

// Almost without arrivals, frames are of 1 slot; balanced, Models U and NU are the
// same; and frames that end after the last slot are left out.
func TestSimulation(t *testing.T) {
	s := Simulation{Cluster: gpu.Cluster{Servers: 8, GPUs: 2}, Rate: 1e-9, Mode: gpu.Rails, Slots: 1000, Warmup: 100}
	f, err := s.Run()
	if err != nil || f != (Frames{900, 1, 1}) {
		t.Errorf("without arrivals: %+v, %v", f, err)
	}
	for _, mode := range []gpu.Mode{gpu.Paper, gpu.Rails} {
		s := Simulation{Cluster: gpu.Cluster{Servers: 4, GPUs: 3}, Rate: .05, Mode: mode, Slots: 5000, Warmup: 500, Seed: 3}
		u, err := s.Run()
		if err != nil {
			t.Fatal(err)
		}
		s.Hotspot = true
		nu, err := s.Run()
		if err != nil || u != nu || u.Mean <= 1 || float64(u.Max) < u.Mean {
			t.Errorf("mode %s: %+v in Model U, %+v in Model NU, %v", mode, u, nu, err)
		}
	}
	s = Simulation{Cluster: gpu.Cluster{Servers: 2, GPUs: 1}, Rate: 1, Mode: gpu.None, Slots: 200, Warmup: 100}
	for s.Seed = range 20 {
		f, err := s.Run()
		if err != nil || float64(f.Count)*f.Mean > 100+float64(f.Max) {
			t.Errorf("seed %d: %+v in 100 slots, %v", s.Seed, f, err)
		}
	}
}

// Repeat sums up the runs of each seed, and leaves those without frames out.
func TestRepeat(t *testing.T) {
	s := Simulation{Cluster: gpu.Cluster{Servers: 4, GPUs: 2}, Rate: .05, Mode: gpu.Paper, Slots: 3000, Warmup: 300}
	var want Summary
	var means []float64
	for s.Seed = range 3 {
		f, err := s.Run()
		if err != nil {
			t.Fatal(err)
		}
		want.Frames += f.Count
		want.Max = max(want.Max, f.Max)
		want.Mean += f.Mean / 3
		means = append(means, f.Mean)
	}
	for _, m := range means {
		want.Deviation += (m - want.Mean) * (m - want.Mean) / 2
	}
	want.Deviation = math.Sqrt(want.Deviation)
	steps := 0
	got, err := s.Repeat(t.Context(), 3, func() { steps++ })
	if err != nil || steps != 3 || got.Frames != want.Frames || got.Max != want.Max ||
		math.Abs(got.Mean-want.Mean) > 1e-9 || math.Abs(got.Deviation-want.Deviation) > 1e-6 || want.Deviation == 0 {
		t.Errorf("%+v after %d steps, want %+v (error %v)", got, steps, want, err)
	}
	s.Rate, s.Slots = 1, 310 // frames grow so fast that none begins after the warm-up and ends
	if got, err := s.Repeat(t.Context(), 2, func() {}); err != nil || got != (Summary{}) {
		t.Errorf("%+v beyond saturation, want no frames (error %v)", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Repeat(ctx, 2, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestSimulationRefuses(t *testing.T) {
	for _, s := range []Simulation{
		{},
		{Cluster: gpu.Cluster{Servers: 1, GPUs: 2}, Mode: gpu.Rails, Slots: 10},
		{Cluster: gpu.Cluster{Servers: 2, GPUs: 2}, Mode: gpu.Rails, Slots: 10, Rate: -1},
		{Cluster: gpu.Cluster{Servers: 2, GPUs: 2}, Mode: gpu.Rails, Slots: 10, Warmup: 10},
		{Cluster: gpu.Cluster{Servers: 2, GPUs: 2}, Mode: gpu.MinMove, Slots: 10},
		{Cluster: gpu.Cluster{Servers: 128, GPUs: 8}, Mode: gpu.Rails, Slots: 1e6, Rate: 1},
	} {
		if f, err := s.Run(); err == nil {
			t.Errorf("%+v gives %+v", s, f)
		}
	}
}
