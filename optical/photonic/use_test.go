package photonic

import (
	"math"
	"testing"
)

// TestUse checks that links are in use as long as messages move in the replay.
func TestUse(t *testing.T) {
	for _, c := range []struct{ n, k, d int }{{8, 1, 1}, {8, 1, 2}, {9, 2, 1}, {16, 2, 2}, {12, 3, 0}} {
		in := one(c.n, c.k, 5)
		for _, family := range []string{"", circulant(c.k)} {
			p, err := Make(bg, in, Options{Family: family, Reconfigurations: c.d})
			if err != nil {
				t.Fatal(err)
			}
			seen, err := Replay(bg, in, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, spans := range []int{1, 7, 1000} {
				sum := 0.0
				for _, u := range p.Use(in, spans) {
					if sum += u; u < 0 || u > 1+1e-9 {
						t.Errorf("%+v on %q: %v of the links are in use", c, family, u)
					}
				}
				want := float64(seen.Moves) * float64(in.T()) / float64(c.n*c.k) / float64(p.Cost)
				if math.Abs(sum/float64(spans)-want) > 1e-6 {
					t.Errorf("%+v on %q, %d spans: %v in use, by the replay %v", c, family, spans, sum/float64(spans), want)
				}
			}
			keeps := Time(0)
			for _, keep := range p.Keeps(in) {
				keeps += keep
			}
			if keeps != p.Sum {
				t.Errorf("%+v on %q: topologies are kept for %v, hops take %v", c, family, keeps, p.Sum)
			}
		}
	}
}
