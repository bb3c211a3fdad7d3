package ocs

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"pgregory.net/rapid"
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
// one in a hundred, or those that fall on the diagonal after a permutation of the columns.
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

// TestThinned checks that Best is also near the bound if a hundredth of the entries is
// missing, and takes at most 1 % longer than for the fuller matrix. FORS_LONG=1 thins a
// thousand times.
func TestThinned(t *testing.T) {
	type figures struct{ runs, ratio, mostRatio, beside, mostBeside float64 }
	of, seeds := map[string]*figures{}, uint64(1)
	if os.Getenv("FORS_LONG") != "" {
		seeds = 125
	}
	hows := []string{"idle rack", "one in a hundred", "diagonal", "idle receiver"}
	for _, how := range hows {
		of[how] = &figures{}
	}
	all := 0.0
	for seed := range seeds {
		full, err := Workload("benchmark", 100, 0, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []int{2, 4} {
			o := Options{Switches: s, Delta: 0.01, Method: Best}
			whole := mustMake(t, full, o).Makespan()
			for _, how := range hows {
				d := thinned(t, full, how, rand.New(rand.NewPCG(seed, 5)))
				best := mustMake(t, d, o)
				if err := Replay(d, best); err != nil {
					t.Fatal(err)
				}
				ratio, beside := best.Makespan()/Bound(d, s, 0.01).Sharp, best.Makespan()/whole
				if ratio > 1.03 || beside > 1.01 {
					t.Errorf("seed %d, %d switches, %s: %v times the bound, %v times the fuller one's, want at most 1.03 and 1.01", seed, s, how, ratio, beside)
				}
				f := of[how]
				*f = figures{f.runs + 1, f.ratio + ratio, max(f.mostRatio, ratio), f.beside + beside, max(f.mostBeside, beside)}
				all += ratio
			}
		}
	}
	for _, how := range hows {
		f := of[how]
		t.Logf("%s: %.3f times the bound, at most %.3f; %.3f times the fuller one's, at most %.4f", how, f.ratio/f.runs, f.mostRatio, f.beside/f.runs, f.mostBeside)
	}
	if mean := all / float64(8*seeds); mean > 1.025 {
		t.Errorf("%v times the bound on average, want at most 1.025", mean)
	}
}

// TestSpectraThinned measures the effect of missing entries on the published method.
func TestSpectraThinned(t *testing.T) {
	least, most := 9.0, 0.0
	for seed := range uint64(5) {
		full, err := Workload("benchmark", 100, 0, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range []string{"idle rack", "one in a hundred", "diagonal", "idle receiver"} {
			d := thinned(t, full, how, rand.New(rand.NewPCG(seed, 5)))
			ratio := mustMake(t, d, Options{Switches: 4, Delta: 0.01}).Makespan() / Bound(d, 4, 0.01).Sharp
			least, most = min(least, ratio), max(most, ratio)
		}
	}
	t.Logf("%.3f to %.3f times the bound", least, most)
	if least < 1 || most < 1.3 {
		t.Errorf("%v to %v times the bound: docs/papers.md says otherwise", least, most)
	}
}

// TestSmallerDemand checks that less demand takes no longer if Best is exact.
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

// TestFromIsNeverLonger checks that less demand never takes longer if Best begins with a
// schedule of more, and that the new schedule carries it.
func TestFromIsNeverLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDemand(t)
		o := drawOptions(t, d)
		o.Method, o.Steps = Best, rapid.IntRange(1, 300).Draw(t, "steps")
		s := mustMake(t, d, o)
		for range 3 {
			x := d.entries()
			for i := range x {
				x[i] *= rapid.SampledFrom([]float64{0, 0.5, 0.999, 1}).Draw(t, "share")
			}
			var err error
			if d, err = NewDemand(d.n, x); err != nil {
				t.Fatal(err)
			}
			o.From = s
			less := mustMake(t, d, o)
			if err := Replay(d, less); err != nil {
				t.Fatal(err)
			}
			if less.Makespan() > s.Makespan() {
				t.Fatalf("with less demand it takes %v, with more %v", less.Makespan(), s.Makespan())
			}
			o.Delta *= rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "delta")
			s = less
		}
	})
}

// TestFromAnything begins with schedules that do not carry the demand, and refuses invalid
// ones.
func TestFromAnything(t *testing.T) {
	d, err := Workload("benchmark", 12, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Workload("benchmark", 12, 5, 2)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Switches: 2, Delta: 0.01, Method: Best, Steps: 100}
	alone := mustMake(t, d, o).Makespan()
	for _, s := range []int{1, 2, 4} {
		o.From = mustMake(t, other, Options{Switches: s, Delta: 0.02})
		got := mustMake(t, d, o)
		if err := Replay(d, got); err != nil {
			t.Fatal(err)
		}
		if got.Makespan() > alone*1.1 {
			t.Errorf("from a schedule of %d switches %v, alone %v", s, got.Makespan(), alone)
		}
	}
	for _, spoil := range []func(s *Schedule){
		func(s *Schedule) { s.Racks = 11 },
		func(s *Schedule) { s.Switches[0].Configs[0].Permutation[1] = 99 },
		func(s *Schedule) { s.Switches[1].Configs[0].Weight = math.Inf(1) },
	} {
		o.From = mustMake(t, other, Options{Switches: 2, Delta: 0.02})
		spoil(o.From)
		if _, err := Make(bg, d, o); err == nil {
			t.Error("no error")
		}
	}
}

// TestManyRacks compares Best with the bound on sites of a thousand racks and more, with and
// without missing entries. FORS_LONG=1 includes 4096 racks.
func TestManyRacks(t *testing.T) {
	sizes := []int{1024}
	if os.Getenv("FORS_LONG") != "" {
		sizes = []int{1024, 2048, 4096}
	}
	for _, n := range sizes {
		full, err := Workload("benchmark", n, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range []string{"none", "idle rack", "one in a hundred", "diagonal"} {
			if how != "one in a hundred" && n == 1024 && len(sizes) == 1 {
				continue
			}
			d := thinned(t, full, how, rand.New(rand.NewPCG(1, 5)))
			for _, s := range []int{2, 4}[2-min(2, len(sizes)):] {
				best := mustMake(t, d, Options{Switches: s, Delta: 0.01, Method: Best})
				if err := Replay(d, best); err != nil {
					t.Fatal(err)
				}
				ratio := best.Makespan() / Bound(d, s, 0.01).Sharp
				t.Logf("%d racks, %d switches, missing %s: %.4f times the bound", n, s, how, ratio)
				if ratio > 1.05 {
					t.Errorf("%d racks, %d switches, missing %s: %v times the bound, want at most 1.05", n, s, how, ratio)
				}
			}
		}
	}
}
