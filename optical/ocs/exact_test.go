package ocs

import (
	"math"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"
)

// shortest is the least makespan of all schedules of a small demand: for every set of
// permutations that each switch may use, a linear programme. It shares no code with
// exact: it uses all permutations and a set for each switch, and solves the programme in
// its primal form.
func shortest(d *Demand, s int, δ float64) float64 {
	n := d.Racks()
	var perms [][]int
	var permute func(p []int)
	permute = func(p []int) {
		if len(p) == n {
			perms = append(perms, append([]int(nil), p...))
			return
		}
	next:
		for j := range n {
			for _, k := range p {
				if k == j {
					continue next
				}
			}
			permute(append(p, j))
		}
	}
	permute(nil)
	best := math.Inf(1)
	sets := make([]int, s)
	var choose func(h, from int)
	choose = func(h, from int) {
		if h < s {
			for set := from; set < 1<<len(perms); set++ { // switches are alike
				sets[h] = set
				choose(h+1, set)
			}
			return
		}
		best = min(best, weigh(d, perms, sets, δ))
	}
	choose(0, 0)
	return best
}

// weigh is the least makespan if each switch uses a set of permutations.
func weigh(d *Demand, perms [][]int, sets []int, δ float64) float64 {
	// Columns: T, then a weight for each switch and permutation of its set, then
	// surplus variables; rows: pairs with demand, then switches.
	var cols [][]float64
	var rhs []float64
	n := d.Racks()
	var pairs [][2]int
	for i := range n {
		for j := range n {
			if d.At(i, j) > 0 {
				pairs = append(pairs, [2]int{i, j})
				rhs = append(rhs, d.At(i, j))
			}
		}
	}
	for _, set := range sets {
		configs := 0
		for p := range perms {
			configs += set >> p & 1
		}
		rhs = append(rhs, float64(configs)*δ)
	}
	t := make([]float64, len(rhs))
	for h := range sets {
		t[len(pairs)+h] = 1
	}
	cols = append(cols, t)
	covered := make([]bool, len(pairs))
	for h, set := range sets {
		for p, perm := range perms {
			if set>>p&1 == 0 {
				continue
			}
			col := make([]float64, len(rhs))
			for i, pair := range pairs {
				if perm[pair[0]] == pair[1] {
					col[i], covered[i] = 1, true
				}
			}
			col[len(pairs)+h] = -1
			cols = append(cols, col)
		}
	}
	for _, ok := range covered {
		if !ok {
			return math.Inf(1)
		}
	}
	return phaseTwo(cols, rhs)
}

// phaseTwo minimises the first of variables x ≥ 0 with Σ cols·x ≥ rhs by the simplex
// method with artificial variables and Bland's rule.
func phaseTwo(cols [][]float64, rhs []float64) float64 {
	m, n := len(rhs), len(cols)
	width := n + 2*m + 1
	rows, basis := make([][]float64, m), make([]int, m)
	for i := range rows {
		rows[i] = make([]float64, width)
		for j, col := range cols {
			rows[i][j] = col[i]
		}
		rows[i][n+i], rows[i][n+m+i], rows[i][width-1] = -1, 1, rhs[i]
		basis[i] = n + m + i
	}
	const big = 1e6
	cost := make([]float64, width)
	cost[0] = 1
	for i := range m {
		cost[n+m+i] = big
		for j := range cost {
			cost[j] -= big * rows[i][j]
		}
	}
	for {
		enter := -1
		for j := range width - 1 {
			if cost[j] < -1e-7 {
				enter = j
				break
			}
		}
		if enter < 0 {
			return -cost[width-1]
		}
		leave := -1
		for i := range rows {
			if rows[i][enter] > 1e-9 {
				if leave < 0 {
					leave = i
					continue
				}
				a, b := rows[i][width-1]/rows[i][enter], rows[leave][width-1]/rows[leave][enter]
				if a < b-1e-12 || a < b+1e-12 && basis[i] < basis[leave] {
					leave = i
				}
			}
		}
		if leave < 0 {
			return math.Inf(-1)
		}
		basis[leave] = enter
		f := rows[leave][enter]
		for j := range rows[leave] {
			rows[leave][j] /= f
		}
		for i := range rows {
			if f := rows[i][enter]; i != leave && f != 0 {
				for j := range rows[i] {
					rows[i][j] -= f * rows[leave][j]
				}
			}
		}
		f = cost[enter]
		for j := range cost {
			cost[j] -= f * rows[leave][j]
		}
	}
}

// small draws a demand of few racks, in which each pair has demand with some chance.
func small(t testing.TB, rng *rand.Rand, n int, chance float64) *Demand {
	t.Helper()
	entries := make([]float64, n*n)
	for i := range entries {
		if i/n != i%n && rng.Float64() < chance {
			entries[i] = 0.05 + rng.Float64()
		}
	}
	d, err := NewDemand(n, entries)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSmallExactly compares Best with the shortest of all schedules.
func TestSmallExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	runs := 15
	if testing.Short() {
		runs = 6
	}
	for run := range runs {
		d := small(t, rng, 3, []float64{1, 0.7}[run%2])
		δ := []float64{0, 0.01, 0.1, 0.5, 2}[run%5]
		s := 1 + run%2
		if d.Nonzeros() == 0 {
			continue
		}
		want := shortest(d, s, δ)
		got, err := Make(bg, d, Options{Switches: s, Delta: δ, Method: Best})
		if err != nil {
			t.Fatal(err)
		}
		if err := Replay(d, got); err != nil {
			t.Fatal(err)
		}
		if got.Makespan() > want*(1+1e-7) || got.Makespan() < want*(1-1e-7) {
			t.Errorf("run %d: %d switches, δ %g: makespan %v, the shortest is %v", run, s, δ, got.Makespan(), want)
		}
	}
}

// many is a number of random inputs, 1000 with FORS_LONG=1.
func many(few int) int {
	if os.Getenv("FORS_LONG") != "" {
		return 1000
	}
	return few
}

// TestSmallEnds checks that the search of up to 4 racks and 4 switches is exhaustive or ends
// at the bound within the default number of programmes, and logs the processor time of the
// longest.
func TestSmallEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 4))
	var longest time.Duration
	atBound, runs := 0, many(25)
	for run := range runs {
		d := small(t, rng, 2+rng.IntN(3), []float64{1, 0.7}[run%2])
		o := Options{Switches: 1 + rng.IntN(4), Delta: []float64{0, 0.001, 0.01, 0.1, 1}[run%5], Method: Best}
		b := &candidates{o: o, bound: Bound(d, o.Switches, o.Delta).Sharp}
		begun := used()
		if err := b.begin(bg, d); err != nil {
			t.Fatal(err)
		}
		if b.done() {
			atBound++
			continue
		}
		if _, _, all := exactly(bg, d, o, b.makespan, b.bound); !all {
			t.Errorf("run %d: %d racks, %d switches, δ %v: not all schedules were tried", run, d.n, o.Switches, o.Delta)
		}
		longest = max(longest, used()-begun)
	}
	t.Logf("%d of %d at the bound at once; the longest search took %v", atBound, runs, longest)
}

// used is the processor time of the process.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano())
}

// TestBestNeverLoses compares Best with every other method on demands of many kinds,
// and with the bound.
func TestBestNeverLoses(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	atBound := 0
	runs := many(15)
	for run := range runs {
		d := small(t, rng, 2+rng.IntN(14), []float64{0.2, 0.5, 1}[run%3])
		o := Options{Switches: 1 + rng.IntN(6), Delta: []float64{0, 0.001, 0.01, 0.1, 1}[run%5], Method: Best, Steps: 500}
		best, err := Make(bg, d, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := Replay(d, best); err != nil {
			t.Fatal(err)
		}
		o.Steps = 0
		for _, o.Method = range []Method{Fast, Eclipse} {
			s, err := Make(bg, d, o)
			if err != nil {
				t.Fatal(err)
			}
			if best.Makespan() > s.Makespan()*(1+1e-12) {
				t.Errorf("run %d: best takes %v, %s %v", run, best.Makespan(), o.Method, s.Makespan())
			}
		}
		if bound := Bound(d, o.Switches, o.Delta).Sharp; best.Makespan() < bound*(1-1e-9) {
			t.Errorf("run %d: best takes %v, less than the bound %v", run, best.Makespan(), bound)
		} else if best.Makespan() <= bound*(1+1e-9) {
			atBound++
		}
	}
	t.Logf("%d of %d at the bound", atBound, runs)
}

// TestEclipseEnds runs Eclipse with a delay of zero or nearly zero: each permutation
// finishes at least one entry.
func TestEclipseEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 2))
	for range max(1, many(0)/32) {
		for _, δ := range []float64{0, 1e-300, 1e-12, 1e-6} {
			for _, n := range []int{2, 5, 8, 11, 14, 17, 20, 23} {
				eclipseEnds(t, small(t, rng, n, 0.8), δ)
			}
		}
	}
}

func eclipseEnds(t *testing.T, d *Demand, δ float64) {
	for _, levels := range []int{0, 7} {
		s, err := Make(bg, d, Options{Switches: 2, Delta: δ, Method: Eclipse, Levels: levels})
		if err != nil {
			t.Fatal(err)
		}
		if err := Replay(d, s); err != nil {
			t.Fatal(err)
		}
		if c := s.Configurations(); c > d.Nonzeros()+2 {
			t.Errorf("δ %g, %d racks: %d configurations for %d entries", δ, d.Racks(), c, d.Nonzeros())
		}
	}
}
