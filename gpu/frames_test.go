package gpu

import (
	"math/rand/v2"
	"testing"
)

// TestFramesInTurn plans one frame after another, each from the packets that arrived during
// the previous one. With balancing, Model U and Model NU have the same frames if the same
// servers get packets at the same times, as the paper's Fig. 3 shows on average.
func TestFramesInTurn(t *testing.T) {
	c := Cluster{8, 2}
	for _, mode := range []Mode{Rails, MinMove, Paper} {
		var p Planner
		frame := func(x *Traffic) int64 {
			plan, err := p.Plan(t.Context(), x, Options{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			if err := Verify(t.Context(), x, plan); err != nil {
				t.Fatal(err)
			}
			return max(1, plan.Length)
		}
		rng := rand.New(rand.NewPCG(7, 0))
		slots := int64(1)
		for range 300 {
			u, nu := must(NewTraffic(c)), must(NewTraffic(c))
			const rate = 0.03 * 8 * 7 * 4
			for at := rng.ExpFloat64(); at < rate*float64(slots); at += rng.ExpFloat64() {
				i, j := rng.IntN(8), rng.IntN(7)
				if j >= i {
					j++
				}
				u.Bytes[(2*i+rng.IntN(2))*c.Ranks()+2*j+rng.IntN(2)]++
				nu.Bytes[2*i*c.Ranks()+2*j]++
			}
			slots = frame(u)
			if same := frame(nu); same != slots {
				t.Fatalf("mode %s: Models U and NU, balanced, have frames of %d and %d slots", mode, slots, same)
			}
		}
	}
}
