package ocs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawDemand draws a small demand: sparse or dense, of equal or of very different
// entries.
func drawDemand(t *rapid.T) *Demand {
	n := rapid.IntRange(1, 9).Draw(t, "racks")
	dense := rapid.Float64Range(0, 1).Draw(t, "density")
	most := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "most")
	unit := rapid.SampledFrom([]float64{1e-9, 0.01, 1, 1e6}).Draw(t, "unit")
	entries := make([]float64, n*n)
	for e := range entries {
		if rapid.Float64Range(0, 1).Draw(t, "at") < dense {
			entries[e] = unit * float64(rapid.IntRange(0, most).Draw(t, "entry"))
		}
	}
	d, err := NewDemand(n, entries)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// drawOptions draws switches and a delay that suits the demand.
func drawOptions(t *rapid.T, d *Demand) Options {
	δ := rapid.SampledFrom([]float64{0, 0.001, 0.01, 0.1, 1, 10}).Draw(t, "delta") * d.Total() / float64(d.Racks())
	return Options{Switches: rapid.IntRange(1, 6).Draw(t, "switches"), Delta: δ}
}

func mustMake(t interface {
	Helper()
	Fatal(...any)
}, d *Demand, o Options) *Schedule {
	t.Helper()
	s, err := Make(bg, d, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEveryMethodCarriesTheDemand replays the schedules of all methods, and compares them
// with the bounds, and Best with Fast.
func TestEveryMethodCarriesTheDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDemand(t)
		o := drawOptions(t, d)
		b := Bound(d, o.Switches, o.Delta)
		if b.Sharp < b.Paper {
			t.Fatalf("the sharp bound is %v, the paper's %v", b.Sharp, b.Paper)
		}
		makespan := map[string]float64{}
		for _, m := range Methods {
			for _, v := range []Options{{}, {LP: true}, {NoEqualize: true}, {Levels: 3}} {
				v.Switches, v.Delta, v.Method = o.Switches, o.Delta, m
				if m == Best {
					v.Steps = 300
				}
				if v.check() != nil {
					continue // TestUnusableInput
				}
				s := mustMake(t, d, v)
				if err := Replay(d, s); err != nil {
					t.Fatalf("%+v: %v", v, err)
				}
				if s.Makespan() < b.Sharp*(1-1e-8) {
					t.Fatalf("%+v: makespan %v, below the bound %v", v, s.Makespan(), b.Sharp)
				}
				if v.Levels == 0 {
					makespan[fmt.Sprintf("%s LP=%v NoEqualize=%v", m, v.LP, v.NoEqualize)] = s.Makespan()
				}
			}
		}
		fast := makespan["fast LP=false NoEqualize=false"]
		if best := makespan["best LP=false NoEqualize=false"]; best > fast {
			t.Fatalf("best takes %v, fast %v", best, fast)
		}
		if without := makespan["fast LP=false NoEqualize=true"]; fast > without*(1+1e-12) {
			t.Fatalf("equalized it takes %v, before %v", fast, without)
		}
	})
}

// TestDegreePermutations checks property 1: Decompose takes as many permutations as
// the fullest row or column has entries.
func TestDegreePermutations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDemand(t)
		s := mustMake(t, d, Options{Switches: 1})
		if got := s.Configurations(); got != d.Degree() {
			t.Fatalf("%d permutations, want %d", got, d.Degree())
		}
	})
}

// TestFigure4 is the example of Figs. 3 and 4.
func TestFigure4(t *testing.T) {
	p := lpt([]float64{0.61, 0.3, 0.1}, 2, 0.01)
	if got := p.makespan(); math.Abs(got-0.62) > 1e-12 {
		t.Errorf("makespan %v after Schedule, want 0.62", got)
	}
	p.equalize()
	if got := p.makespan(); math.Abs(got-0.525) > 1e-12 {
		t.Errorf("makespan %v after Equalize, want 0.525", got)
	}
}

// TestEqualizeEndsWithoutDelay runs Equalize on an input for which Alg. 4 as listed may
// not terminate: the loads of three switches approach each other by rounding forever.
func TestEqualizeEndsWithoutDelay(t *testing.T) {
	p := lpt([]float64{0.7, 0.1, 0.1 / 3}, 3, 0)
	p.equalize()
	if mean := (0.8 + 0.1/3) / 3; p.makespan() > mean*(1+1e-8) {
		t.Errorf("makespan %v, want %v", p.makespan(), mean)
	}
}

// TestNothingToDo expects empty schedules of demands that need no switch.
func TestNothingToDo(t *testing.T) {
	for _, entries := range [][]float64{make([]float64, 9), {1, 0, 0, 0, 2, 0, 0, 0, 3}} {
		d, err := NewDemand(3, entries)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range Methods {
			s := mustMake(t, d, Options{Switches: 2, Delta: 0.1, Method: m})
			if s.Configurations() != 0 || s.Makespan() != 0 || Replay(d, s) != nil {
				t.Errorf("%s: %d configurations, makespan %v", m, s.Configurations(), s.Makespan())
			}
		}
		if b := Bound(d, 2, 0.1); b != (Bounds{}) {
			t.Errorf("bounds %v", b)
		}
	}
}

// TestBoundsOfNoSchedule: options that Make refuses have infinite bounds, unless the demand
// is empty.
func TestBoundsOfNoSchedule(t *testing.T) {
	some, err := NewDemand(2, []float64{0, 1, 2, 0})
	if err != nil {
		t.Fatal(err)
	}
	none, err := NewDemand(2, make([]float64, 4))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s int
		δ float64
	}{{0, .1}, {-1, .1}, {MaxSwitches + 1, .1}, {2, -1}, {2, math.NaN()}, {2, math.Inf(1)}} {
		if _, err := Make(bg, some, Options{Switches: c.s, Delta: c.δ}); err == nil {
			t.Errorf("%v: Make takes it", c)
		}
		if b := Bound(some, c.s, c.δ); !math.IsInf(b.Paper, 1) || !math.IsInf(b.Sharp, 1) {
			t.Errorf("%v: %v", c, b)
		}
		if b := Bound(none, c.s, c.δ); b != (Bounds{}) {
			t.Errorf("%v, of nothing: %v", c, b)
		}
	}
	g := Damage{DeadSwitches: []int{0, 1}, DeadPorts: []Port{{0, 1, false}}}
	if b := g.Bound(some, 2, .1); !math.IsInf(b.Sharp, 1) {
		t.Errorf("all switches dead: %v", b)
	}
}

func TestUnusableInput(t *testing.T) {
	for _, c := range []struct {
		n       int
		entries []float64
		want    string
	}{
		{0, nil, "want 1 to"},
		{2, []float64{1, 2, 3}, "3 entries: want 4"},
		{2, []float64{0, -1, 0, 0}, "from rack 0 to rack 1 is -1"},
		{2, []float64{0, 0, math.NaN(), 0}, "from rack 1 to rack 0 is NaN"},
		{2, []float64{0, math.Inf(1), 0, 0}, "is +Inf"},
		{2, []float64{0, math.MaxFloat64, math.MaxFloat64, 0}, "larger unit"},
	} {
		if _, err := NewDemand(c.n, c.entries); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewDemand(%d, %v): %v, want %q", c.n, c.entries, err, c.want)
		}
	}
	d, err := NewDemand(2, []float64{0, 1, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {Switches: MaxSwitches + 1}, {Switches: 1, Delta: -1}, {Switches: 1, Delta: math.NaN()}, {Switches: 1, Delta: math.Inf(1)}, {Switches: 1, Delta: 1e301},
		{Switches: 1, Method: Best, Steps: -1}, {Switches: 1, Method: Best, Budget: -1}, {Switches: 1, Method: Best, Steps: 1, Budget: 1}, {Switches: 1, Method: "slow"},
		{Switches: 1, Steps: 1}, {Switches: 1, Method: Eclipse, Budget: 1}, {Switches: 1, Method: Eclipse, LP: true},
		{Switches: 1, Method: Best, NoEqualize: true}, {Switches: 1, Method: Best, Levels: 3}, {Switches: 1, Levels: 3}} {
		if _, err := Make(bg, d, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// TestBestIsNeverWorse compares Best, with a short search, to Fast on the workloads, of one seed
// and two numbers of switches or, with FORS_LONG, of three.
func TestBestIsNeverWorse(t *testing.T) {
	seeds, switches := uint64(1), []int{1, 8}
	if os.Getenv("FORS_LONG") != "" {
		seeds, switches = 3, []int{1, 3, 8}
	}
	for _, w := range Workloads {
		for seed := range seeds {
			d, err := Workload(w.Name, 0, 0, seed+1)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range switches {
				for _, δ := range []float64{0, .001, .04} {
					fast := mustMake(t, d, Options{Switches: s, Delta: δ}).Makespan()
					best := mustMake(t, d, Options{Switches: s, Delta: δ, Method: Best, Steps: 200})
					if err := Replay(d, best); err != nil {
						t.Fatal(err)
					}
					if best.Makespan() > fast {
						t.Errorf("%s of seed %d, s=%d, δ=%v: best takes %v, fast %v", w.Name, seed+1, s, δ, best.Makespan(), fast)
					}
				}
			}
		}
	}
}

// TestLargeLP refuses a linear programme beyond the documented memory.
func TestLargeLP(t *testing.T) {
	const n = 420
	d, err := NewDemand(n, slices.Repeat([]float64{1}, n*n))
	if err != nil {
		t.Fatal(err)
	}
	c := newCover(d, n-1)
	c.weight = c.weight[:n-1]
	if err := c.refineLP(bg); err == nil || !strings.Contains(err.Error(), "take the greedy weights") {
		t.Errorf("%v, want an error", err)
	}
}

// TestSameBytes checks that schedules do not depend on the number of processors.
func TestSameBytes(t *testing.T) {
	d, err := Workload("benchmark", 40, 9, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, m := range Methods {
		o := Options{Switches: 3, Delta: 0.005, Method: m}
		if m == Best {
			o.Steps = 2000
		}
		var first []byte
		for _, workers := range []int{1, 2, 4} {
			runtime.GOMAXPROCS(workers)
			got, err := json.Marshal(mustMake(t, d, o))
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = got
			} else if !bytes.Equal(first, got) {
				t.Errorf("%s: other bytes with %d processors", m, workers)
			}
		}
	}
}

// TestReplayRefuses breaks a schedule in every way that Replay checks.
func TestReplayRefuses(t *testing.T) {
	d, err := Workload("benchmark", 8, 7, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want  string
		spoil func(s *Schedule)
	}{
		{"for 9 racks", func(s *Schedule) { s.Racks++ }},
		{"is carried", func(s *Schedule) {
			sw := &s.Switches[1]
			sw.Configs = sw.Configs[:len(sw.Configs)-1]
			sw.Load -= s.Delta
			sw.Load = 0
			for _, x := range sw.Configs {
				sw.Load = x.Start + x.Weight
			}
		}},
		{"is carried", func(s *Schedule) {
			p := s.Switches[0].Configs[0].Permutation
			q := append([]int32{p[1], p[0]}, p[2:]...)
			s.Switches[0].Configs[0].Permutation = q
		}},
		{"two racks are joined", func(s *Schedule) {
			p := append([]int32{}, s.Switches[0].Configs[0].Permutation...)
			p[0] = p[1]
			s.Switches[0].Configs[0].Permutation = p
		}},
		{"joins rack 0 to rack 8", func(s *Schedule) {
			p := append([]int32{}, s.Switches[0].Configs[0].Permutation...)
			p[0] = 8
			s.Switches[0].Configs[0].Permutation = p
		}},
		{"joins 7 racks", func(s *Schedule) {
			s.Switches[0].Configs[0].Permutation = s.Switches[0].Configs[0].Permutation[:7]
		}},
		{"changing takes", func(s *Schedule) { s.Switches[0].Configs[0].Start -= s.Delta / 2 }},
		{"changing takes", func(s *Schedule) { s.Switches[0].Configs[1].Start = math.NaN() }},
		{"stands for 0", func(s *Schedule) { s.Switches[0].Configs[0].Weight = 0 }},
		{"stands for NaN", func(s *Schedule) { s.Switches[0].Configs[0].Weight = math.NaN() }},
		{"load is stated as", func(s *Schedule) { s.Switches[0].Load *= 1.001 }},
		{"is carried", func(s *Schedule) { // however long it takes
			s.Switches = []Switch{{Configs: []Config{{Permutation: []int32{0, 1, 2, 3, 4, 5, 6, 7}, Start: s.Delta, Weight: 1e12}}, Load: s.Delta + 1e12}}
		}},
		{"switch 1: configuration 0 stands from 0", func(s *Schedule) {
			s.Switches[0] = Switch{Configs: []Config{{Permutation: []int32{0, 1, 2, 3, 4, 5, 6, 7}, Start: s.Delta, Weight: 1e12}}, Load: s.Delta + 1e12}
			s.Switches[1].Configs[0].Start = 0
		}},
		{"1 permutations stand", func(s *Schedule) { s.Standing = make([][]int32, 1) }},
	} {
		s := mustMake(t, d, Options{Switches: 2, Delta: 0.01})
		if err := Replay(d, s); err != nil {
			t.Fatal(err)
		}
		c.spoil(s)
		if err := Replay(d, s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestReplayOfStandingCircuits lets a switch begin with the circuits that it holds.
func TestReplayOfStandingCircuits(t *testing.T) {
	d, err := NewDemand(2, []float64{0, 1, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	s := &Schedule{Racks: 2, Delta: 0.5, Switches: []Switch{{Load: 1, Configs: []Config{{Permutation: []int32{1, 0}, Weight: 1}}}}}
	if Replay(d, s) == nil {
		t.Error("nothing stands and no δ is taken: accepted")
	}
	s.Standing = [][]int32{{1, 0}}
	if err := Replay(d, s); err != nil {
		t.Error(err)
	}
}

// TestBestReachesItsGoals checks the mean ratio of Best with its default steps to the
// paper's bound on the benchmark workload. FORS_LONG=1 uses fifty matrices.
func TestBestReachesItsGoals(t *testing.T) {
	seeds := 3
	if os.Getenv("FORS_LONG") != "" {
		seeds = 50
	}
	for _, c := range []struct {
		s       int
		δ, most float64
	}{{2, .01, 1.045}, {4, .01, 1.045}, {8, .04, 1.08}} {
		paper, sharp := 0.0, 0.0
		for seed := range seeds {
			d, err := Workload("benchmark", 0, 0, uint64(seed)+1)
			if err != nil {
				t.Fatal(err)
			}
			s := mustMake(t, d, Options{Switches: c.s, Delta: c.δ, Method: Best})
			if err := Replay(d, s); err != nil {
				t.Fatal(err)
			}
			b := Bound(d, c.s, c.δ)
			paper += s.Makespan() / b.Paper / float64(seeds)
			sharp += s.Makespan() / b.Sharp / float64(seeds)
		}
		t.Logf("s=%d δ=%v: %.4f of the paper's bound, %.4f of the sharp one", c.s, c.δ, paper, sharp)
		if paper > c.most {
			t.Errorf("s=%d δ=%v: %.4f of the bound, want at most %v", c.s, c.δ, paper, c.most)
		}
	}
}
