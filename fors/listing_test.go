package fors

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exchange holds the inter-leaf destinations [phase][server] of FT(2;M0,M1), −1
// for none.
type exchange [][]int

func newExchange(phases, servers int) exchange {
	x := make(exchange, phases)
	for p := range x {
		x[p] = slices.Repeat([]int{-1}, servers)
	}
	return x
}

// reading is a way to read the paper's schedule: the formulas of section 4, or
// the listing of Algorithm 1, which differs from them in three places.
type reading struct {
	name      string
	θCeil     bool // θ_s with ⌈·⌉, as in line 10, for the ⌊·⌋ of the formula
	cycleCeil bool // ⌈N_T/lcm⌉, as in line 33, for ⌊N_T/lcm⌋
	toServer  bool // added to D_server, as in line 35, and not to D_leaf
	correct   int  // of the 245 cases
}

// dest evaluates a reading, or returns nil where it gives a phase outside 0…P_f−1.
func (r reading) dest(M0, M1, f int) exchange {
	P := M0 * M1
	remote := P - M0
	lcm := leastCommonMultiple(M0, M1-1)
	x := newExchange(up(M0*remote, M0-f), P)
	for s := range P {
		α, γ := s%M0, s/M0
		θ := down((α-1)*(M0-f), M0) + 1
		if r.θCeil {
			θ = up((α-1)*(M0-f), M0) + 1
		}
		for N_T := range remote {
			p := up((N_T+θ)*M0, M0-f) - α
			if p < 0 || p >= len(x) {
				return nil
			}
			cycle := down(N_T, lcm)
			if r.cycleCeil {
				cycle = up(N_T, lcm)
			}
			D_leaf, D_server := (N_T+θ+cycle)%(M1-1), (N_T+θ)%M0
			if r.toServer {
				D_leaf, D_server = (N_T+θ)%(M1-1), (N_T+θ+cycle)%M0
			}
			x[p][s] = (D_leaf*M0 + D_server + (γ+1)*M0) % P
		}
	}
	return x
}

// down and up are ⌊a/b⌋ and ⌈a/b⌉ for b > 0.
func down(a, b int) int { return (a - ((a%b)+b)%b) / b }
func up(a, b int) int   { return -down(-a, b) }

func leastCommonMultiple(a, b int) int {
	m := a
	for m%b != 0 {
		m += a
	}
	return m
}

// correct reports whether every inter-leaf pair occurs once, no server receives twice in a
// phase, and at most M0−f servers of a leaf send or receive.
func (x exchange) correct(M0, M1, f int) bool {
	P := M0 * M1
	met, pairs := make([]bool, P*P), 0
	for _, to := range x {
		heard, out, in := make([]bool, P), make([]int, M1), make([]int, M1)
		for s, d := range to {
			if d < 0 {
				continue
			}
			A, B := s/M0, d/M0
			if A == B || heard[d] || met[s*P+d] || out[A] == M0-f || in[B] == M0-f {
				return false
			}
			heard[d], met[s*P+d] = true, true
			out[A]++
			in[B]++
			pairs++
		}
	}
	return pairs == P*(P-M0)
}

// smallTrees calls f with every FT(2;M0,M1) up to the given size and every f.
func smallTrees(size int, visit func(M0, M1, f int)) {
	for M0 := 2; M0 <= size; M0++ {
		for M1 := 2; M1 <= size; M1++ {
			for f := range M0 {
				visit(M0, M1, f)
			}
		}
	}
}

// TestReadings shows why the formulas of section 4 are implemented and not the
// listing of Algorithm 1.
func TestReadings(t *testing.T) {
	for _, r := range []reading{
		{"formulas of section 4", false, false, false, 245},
		{"⌈N_T/lcm⌉ added to the offset", false, true, true, 28},
		{"⌊N_T/lcm⌋ added to the offset", false, false, true, 233},
		{"Algorithm 1 to the letter", true, true, true, 9},
	} {
		cases, correct := 0, 0
		smallTrees(8, func(M0, M1, f int) {
			cases++
			if x := r.dest(M0, M1, f); x != nil && x.correct(M0, M1, f) {
				correct++
			}
		})
		if cases != 245 || correct != r.correct {
			t.Errorf("%s: %d of %d cases correct, want %d of 245", r.name, correct, cases, r.correct)
		}
	}
}

// TestSchedule compares the schedule with an independent evaluation of the
// formulas, server by server.
func TestSchedule(t *testing.T) {
	smallTrees(8, func(M0, M1, f int) {
		sc := newSchedule(M0, M1, f)
		got := newExchange(sc.phases, M0*M1)
		for p := range got {
			for s := range got[p] {
				if code := sc.row(p)[s%M0]; code >= 0 {
					got[p][s] = (int(code) + (s/M0+1)*M0) % (M0 * M1)
				}
			}
		}
		if d := cmp.Diff((reading{}).dest(M0, M1, f), got); d != "" {
			t.Fatalf("FT(2;%d,%d) f=%d:\n%s", M0, M1, f, d)
		}
	})
}

// TestFigure4 draws T(s,p) for M0 = 6, f = 2 over two periods of phases.
func TestFigure4(t *testing.T) {
	want := []string{ // [α][p]
		"x.xx.xx.xx.x",
		".xx.xx.xx.xx",
		"xx.xx.xx.xx.",
		"x.xx.xx.xx.x",
		".xx.xx.xx.xx",
		"xx.xx.xx.xx.",
	}
	sc := newSchedule(6, 6, 2)
	got := make([]string, 6)
	for α := range got {
		for p := range 12 {
			cell := "."
			if sc.row(p)[α] >= 0 {
				cell = "x"
			}
			got[α] += cell
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// sharedLinks routes an exchange by Algorithm 2 and counts the links of a phase
// that carry more than one transfer. The index of the spine starts at 0 for each
// phase, as listed, or for each source leaf.
func (x exchange) sharedLinks(M0, f int, restart bool) int {
	type link struct {
		leaf, spine int
		down        bool
	}
	shared := 0
	for _, to := range x {
		load := map[link]int{}
		i := 0
		for s, d := range to {
			if restart && s%M0 == 0 {
				i = 0
			}
			if d < 0 {
				continue
			}
			S_i := i % (M0 - f)
			i++
			load[link{s / M0, S_i, false}]++
			load[link{d / M0, S_i, true}]++
		}
		for _, n := range load {
			if n > 1 {
				shared++
			}
		}
	}
	return shared
}

// TestAlgorithm2 shows why the index of the spine restarts at each source leaf.
func TestAlgorithm2(t *testing.T) {
	formulas := reading{}
	if n := formulas.dest(20, 18, 1).sharedLinks(20, 1, false); n != 59 {
		t.Errorf("FT(2;20,18) f=1, as listed: %d shared links, want 59", n)
	}
	if n := formulas.dest(20, 18, 1).sharedLinks(20, 1, true); n != 0 {
		t.Errorf("FT(2;20,18) f=1, restarted: %d shared links, want 0", n)
	}
	cases, listed, restarted := 0, 0, 0
	smallTrees(10, func(M0, M1, f int) {
		cases++
		x := formulas.dest(M0, M1, f)
		if x.sharedLinks(M0, f, false) > 0 {
			listed++
		}
		if x.sharedLinks(M0, f, true) > 0 {
			restarted++
		}
	})
	if cases != 486 || listed != 46 || restarted != 0 {
		t.Errorf("of %d cases %d are wrong as listed and %d restarted, want 46 and 0 of 486", cases, listed, restarted)
	}
}

// TestSmallAlgorithm plans the same cases, f cables of one leaf being down.
// The plan is as short as can be where f > ⌊M0/M1⌋, the range for which the
// paper's section 4 is made; below, idle slots are as scarce as same-leaf pairs
// and one or two phases are added.
func TestSmallAlgorithm(t *testing.T) {
	smallTrees(10, func(M0, M1, f int) {
		tree := fullTree(M0, M1)
		for k := range f {
			tree.cutCables(M1-1, k)
		}
		p, err := PlanAlgorithm(bg, tree)
		if err != nil {
			t.Fatalf("FT(2;%d,%d) f=%d: the algorithm does not apply", M0, M1, f)
		}
		mustCheck(t, tree, p)
		gap := 0
		if 0 < f && f <= M0/M1 {
			gap = 2
		}
		if p.Gap() > gap {
			t.Errorf("FT(2;%d,%d) f=%d: %d phases, bound %d", M0, M1, f, p.Phases, p.LowerBound)
		}
	})
}
