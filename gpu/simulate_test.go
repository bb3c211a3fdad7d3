package gpu

import (
	"math"
	"os"
	"testing"
)

// reference are mean frame lengths of (n,m) = (8,2): 10^5 slots, the first 10^4 left
// out, 20 seeds.
var reference = []struct {
	hotspot                  bool
	rate                     float64
	unbalanced, paper, rails float64
	digit                    float64 // the last one given of unbalanced
}{
	{false, .015, 3.72, 2.87, 1.21, .01},
	{false, .035, 26.3, 8.95, 4.03, .1},
	{false, .055, 190, 36.2, 24.2, 1},
	{true, .010, 1.99, 1.75, 1.05, .01},
	{true, .020, 9.37, 4.17, 1.56, .01},
	{true, .030, 98, 7.05, 2.90, 1},
}

// The mean frame lengths are those of the reference, within 4 standard deviations of
// the difference of two means and the rounding of the reference.
func TestSimulation(t *testing.T) {
	seeds, slots := 4, 25_000
	if os.Getenv("FORS_LONG") == "1" {
		seeds, slots = 20, 100_000
	}
	for _, r := range reference {
		for mode, want := range map[Mode]float64{None: r.unbalanced, Paper: r.paper, Rails: r.rails} {
			means := make([]float64, seeds)
			sum, squares := 0.0, 0.0
			for seed := range means {
				s := Simulation{Cluster{8, 2}, r.hotspot, r.rate, mode, slots, slots / 10, uint64(seed)}
				f, err := s.Run()
				if err != nil {
					t.Fatal(err)
				}
				sum += f.Mean
				squares += f.Mean * f.Mean
			}
			mean := sum / float64(seeds)
			deviation := math.Sqrt(max(0, squares/float64(seeds)-mean*mean) * float64(seeds) / float64(seeds-1))
			digit := .01
			switch {
			case mode == None:
				digit = r.digit
			case want >= 10:
				digit = .1
			}
			allowed := 4*deviation*math.Sqrt(1/float64(seeds)+1./20) + digit/2
			if math.Abs(mean-want) > allowed {
				t.Errorf("hotspot %v, r0 = %v, mode %s: mean frame %.4f ± %.4f, want %v within %.4f", r.hotspot, r.rate, mode, mean, deviation, want, allowed)
			}
			t.Logf("hotspot %v, r0 = %v, mode %s: mean frame %.4f ± %.4f, reference %v", r.hotspot, r.rate, mode, mean, deviation, want)
		}
	}
}
