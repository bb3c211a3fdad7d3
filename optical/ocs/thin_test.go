package ocs

import (
	"math/rand/v2"
	"os"
	"testing"
)

// entries are those of a demand, row by row.
func (d *Demand) entries() []float64 {
	x := make([]float64, d.n*d.n)
	for e, amount := range d.amount {
		x[int(d.from[e])*d.n+int(d.to[e])] = amount
	}
	return x
}

// thinned is a demand without some of its entries: those of one rack, those to one rack,
// one in a hundred, or those that fall on the diagonal when columns change places.
func thinned(t testing.TB, d *Demand, how string, rng *rand.Rand) *Demand {
	t.Helper()
	n, x := d.n, d.entries()
	switch how {
	case "idle rack":
		for i := range n {
			x[3*n+i], x[i*n+3] = 0, 0
		}
	case "idle receiver":
		for i := range n {
			x[i*n+3] = 0
		}
	case "one in a hundred":
		for i := range x {
			if rng.Float64() < 0.01 {
				x[i] = 0
			}
		}
	case "diagonal":
		p, y := rng.Perm(n), make([]float64, n*n)
		for i := range x {
			y[i/n*n+p[i%n]] = x[i]
		}
		x = y
	}
	out, err := NewDemand(n, x)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestThinned holds that Best is near the bound too where a hundredth of the entries is
// missing, and tells how long that takes beside the fuller matrix. FORS_LONG=1 takes
// twenty matrices.
func TestThinned(t *testing.T) {
	sum, runs, seeds := 0.0, 0.0, uint64(2)
	if os.Getenv("FORS_LONG") != "" {
		seeds = 20
	}
	for seed := range seeds {
		full, err := Workload("benchmark", 100, 0, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []int{2, 4} {
			o := Options{Switches: s, Delta: 0.01, Method: Best}
			whole := mustMake(t, full, o).Makespan()
			for how, most := range map[string]float64{"idle rack": 1.05, "one in a hundred": 1.05, "diagonal": 1.05, "idle receiver": 1.07} {
				d := thinned(t, full, how, rand.New(rand.NewPCG(seed, 5)))
				best := mustMake(t, d, o)
				if err := Replay(d, best); err != nil {
					t.Fatal(err)
				}
				ratio := best.Makespan() / Bound(d, s, 0.01).Sharp
				t.Logf("seed %d, %d switches, %s: %.4f times the bound, %.4f times the fuller one's", seed, s, how, ratio, best.Makespan()/whole)
				if ratio > most {
					t.Errorf("seed %d, %d switches, %s: %v times the bound, want at most %v", seed, s, how, ratio, most)
				}
				if how != "idle receiver" {
					sum, runs = sum+ratio, runs+1
				}
			}
		}
	}
	if mean := sum / runs; mean > 1.03 {
		t.Errorf("but for idle receivers %v times the bound on average, want at most 1.03", mean)
	}
}

// TestSmallerDemand holds that less demand takes no longer where Best is exact.
func TestSmallerDemand(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 0))
	for run := range 40 {
		d := small(t, rng, 2+rng.IntN(3), 0.9)
		o := Options{Switches: 1 + rng.IntN(4), Delta: []float64{0.001, 0.01, 0.1, 1}[run%4], Method: Best}
		before := mustMake(t, d, o).Makespan()
		for range 4 {
			x := d.entries()
			for i := range x {
				switch rng.IntN(4) {
				case 0:
					x[i] = 0
				case 1:
					x[i] *= rng.Float64()
				}
			}
			var err error
			if d, err = NewDemand(d.n, x); err != nil {
				t.Fatal(err)
			}
			after := mustMake(t, d, o).Makespan()
			if after > before*(1+1e-9) {
				t.Errorf("run %d: with less demand it takes %v, with more %v", run, after, before)
			}
			before = after
		}
	}
}
