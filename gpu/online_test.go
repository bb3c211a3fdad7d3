package gpu

import (
	"math/rand/v2"
	"testing"
)

// Each frame serves what has arrived during the one before. Balanced, Model U and
// Model NU have the same frames where the same servers get packets at the same
// times, as the paper's Fig. 3 shows on average.
func TestScheduler(t *testing.T) {
	c := Cluster{8, 2}
	for _, mode := range []Mode{Rails, MinMove, Paper} {
		// Model U and Model NU get the same packets between servers.
		u, err := NewScheduler(c, Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		nu, err := NewScheduler(c, Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(7, 0))
		arrived, served, slots := int64(0), int64(0), int64(1)
		const frames, rate = 300, 0.03 * 8 * 7 * 4
		for range frames {
			for at := rng.ExpFloat64(); at < rate*float64(slots); at += rng.ExpFloat64() {
				i, j := rng.IntN(8), rng.IntN(7)
				if j >= i {
					j++
				}
				if err := u.Arrive(Rank(2*i+rng.IntN(2)), Rank(2*j+rng.IntN(2)), 1); err != nil {
					t.Fatal(err)
				}
				if err := nu.Arrive(Rank(2*i), Rank(2*j), 1); err != nil {
					t.Fatal(err)
				}
				arrived++
			}
			if s := u.Statistics(); s.Backlog != arrived-served || s.Arrived != arrived {
				t.Fatalf("backlog %d of %d packets, want %d of %d", s.Backlog, s.Arrived, arrived-served, arrived)
			}
			served = arrived
			var plan *Plan
			if plan, slots, err = u.NextFrame(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := Verify(t.Context(), u.Frame(), plan); err != nil {
				t.Fatal(err)
			}
			if want := max(1, plan.Length); slots != want {
				t.Fatalf("a frame of length %d takes %d slots, want %d", plan.Length, slots, want)
			}
			other, same, err := nu.NextFrame(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := Verify(t.Context(), nu.Frame(), other); err != nil {
				t.Fatal(err)
			}
			if same != slots {
				t.Fatalf("mode %s: Models U and NU, balanced, have frames of %d and %d slots", mode, slots, same)
			}
		}
		s := u.Statistics()
		if s.Frames != frames || s.Served != arrived || s.Backlog != 0 || s.MeanFrame != float64(s.Slots)/frames || s.MaxBacklog < s.MaxQueue {
			t.Errorf("mode %s: statistics %+v after %d frames of %d packets", mode, s, frames, arrived)
		}
	}
}

func TestSchedulerRefuses(t *testing.T) {
	for _, o := range []Options{{Mode: Bytes}, {Mode: Auto}, {Mode: Rails, Grain: 2}, {Mode: Rails, Fewest: true}, {Mode: "other"}} {
		if _, err := NewScheduler(Cluster{2, 2}, o); err == nil {
			t.Errorf("options %+v are taken", o)
		}
	}
	if _, err := NewScheduler(Cluster{0, 2}, Options{}); err == nil {
		t.Error("a cluster without servers is taken")
	}
	s, err := NewScheduler(Cluster{2, 2}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []Message{{-1, 0, 1}, {0, 4, 1}, {0, 1, 0}, {0, 1, maxTotal + 1}} {
		if err := s.Arrive(x.Source, x.Destination, x.Bytes); err == nil {
			t.Errorf("arrival %+v is taken", x)
		}
	}
	if plan, slots, err := s.NextFrame(t.Context()); err != nil || slots != 1 || len(plan.Stages) != 0 {
		t.Errorf("an empty frame takes %d slots (error %v), want 1", slots, err)
	}
}
