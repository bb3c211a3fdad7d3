package fors

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// These tests check the statements of docs/papers.md that the tests of the planners themselves
// do not check.

// TestListingByHand is Algorithm 1's ⌈N_T/cycleLength⌉ on the smallest tree:
// server 0 meets server 2 twice and server 3 never.
func TestListingByHand(t *testing.T) {
	listed := reading{cycleCeil: true, toServer: true}.dest(2, 2, 0)
	if d := cmp.Diff(exchange{{2, 3, 0, 1}, {2, 3, 0, 1}}, listed); d != "" {
		t.Errorf("as listed:\n%s", d)
	}
	if d := cmp.Diff(exchange{{2, 3, 0, 1}, {3, 2, 1, 0}}, reading{}.dest(2, 2, 0)); d != "" {
		t.Errorf("by the formulas:\n%s", d)
	}
}

// TestTableA1 evaluates Θ̃ with the ⌊·⌋ of Table A1: Θ_s then begins before phase
// 0 for some server in 112 of the 245 cases, and never with the ⌈·⌉ of section 4.
func TestTableA1(t *testing.T) {
	if θ := down((2-1)*(3-1), 3) + 1; down(θ*3, 3-1)-2 != -1 {
		t.Error("FT(2;3,M1), f = 1: Θ_s of α = 2 does not begin at −1")
	}
	negative := 0
	smallTrees(8, func(M0, M1, f int) {
		first := 0
		for α := range M0 {
			θ := down((α-1)*(M0-f), M0) + 1
			first = min(first, down(θ*M0, M0-f)-α)
			if up(θ*M0, M0-f) < α {
				t.Errorf("FT(2;%d,%d) f=%d: with ⌈·⌉ α = %d begins before phase 0", M0, M1, f, α)
			}
		}
		if first < 0 {
			negative++
		}
	})
	if negative != 112 {
		t.Errorf("phases are negative in %d cases, want 112", negative)
	}
}

// TestRunningIndex has the smallest tree on which Algorithm 2 as listed fails,
// FT(2;6,3) with f = 1 and so five clean spines. Its last phase has two transfers
// a leaf. The index runs over all six: the sixth, from server 13 to 6, takes
// spine 0 again, as the first did, from server 0 to 11 on the same leaf.
func TestRunningIndex(t *testing.T) {
	x := reading{}.dest(6, 3, 1)
	last := slices.Repeat([]int{-1}, 18)
	for s, d := range map[int]int{0: 11, 1: 12, 6: 17, 7: 0, 12: 5, 13: 6} {
		last[s] = d
	}
	if d := cmp.Diff(last, x[14]); d != "" || len(x) != 15 {
		t.Errorf("%d phases, phase 14:\n%s", len(x), d)
	}
	if n := x.sharedLinks(6, 1, false); n != 1 {
		t.Errorf("%d shared links, want 1", n)
	}
	if n := x[:14].sharedLinks(6, 1, false); n != 0 {
		t.Errorf("%d shared links before phase 14", n)
	}
	smaller, phases := 0, 0
	smallTrees(8, func(M0, M1, f int) {
		if M0*M1 < 18 && (reading{}).dest(M0, M1, f).sharedLinks(M0, f, false) > 0 {
			smaller++
		}
	})
	x = reading{}.dest(20, 18, 1)
	for p := range x {
		if x[p:p+1].sharedLinks(20, 1, false) > 0 {
			phases++
		}
	}
	if n := x[357:].sharedLinks(20, 1, false); smaller != 0 || phases != 1 || n != 59 || x.senders(357) != 306 || x.senders(0) != 342 {
		t.Errorf("%d smaller trees fail; FT(2;20,18) f=1: %d phases, the last with %d shared links and %d senders, the first with %d senders",
			smaller, phases, n, x.senders(357), x.senders(0))
	}
}

// senders counts who sends in a phase.
func (x exchange) senders(p int) int {
	n := 0
	for _, d := range x[p] {
		if d >= 0 {
			n++
		}
	}
	return n
}

// TestPartialPhases shows when Algorithm 2 as listed fails: only in phases in
// which leaves send less than M0−f transfers, and not in all of these. No phase
// but the last is one. Of 486 cases 173 have such a phase, and 46 fail.
func TestPartialPhases(t *testing.T) {
	partial, failed := 0, 0
	smallTrees(10, func(M0, M1, f int) {
		x := reading{}.dest(M0, M1, f)
		some, shared := false, false
		for p := range x {
			full := x.senders(p) == M1*(M0-f)
			some = some || !full
			if !full && p != len(x)-1 {
				t.Errorf("FT(2;%d,%d) f=%d: phase %d of %d is not full", M0, M1, f, p, len(x))
			}
			if x[p:p+1].sharedLinks(M0, f, false) > 0 {
				shared = true
				if full {
					t.Errorf("FT(2;%d,%d) f=%d: phase %d is full, and transfers share links", M0, M1, f, p)
				}
			}
		}
		if some {
			partial++
		}
		if shared {
			failed++
		}
	})
	if partial != 173 || failed != 46 {
		t.Errorf("%d cases have a phase that is not full and %d fail, want 173 and 46", partial, failed)
	}
}

// TestPrecondition counts how often Algorithm 2's m ≤ f is met on FT(2;20,18):
// by 6480 of the 64620 sets of two failed links, and by 1276 of the 64261 sets of
// three that contain a given link, which is the share of all, links being alike.
func TestPrecondition(t *testing.T) {
	const links = 360
	met := func(failed ...int) bool {
		spines := map[int]bool{}
		var leaf [18]int
		f := 0
		for _, link := range failed {
			spines[link%20] = true
			leaf[link/20]++
			f = max(f, leaf[link/20])
		}
		return len(spines) <= f
	}
	two, three := 0, 0
	for a := range links {
		for b := range a {
			if met(a, b) {
				two++
			}
			if b > 0 && met(0, a, b) {
				three++
			}
		}
	}
	if two != 6480 || three != 1276 {
		t.Errorf("%d sets of two and %d of three, want 6480 and 1276", two, three)
	}
}

// TestPathIsNotEnough has the smallest fabric that refutes appendix B: two leaves
// of three servers, three spines, each leaf having lost another one, so that a
// single lane joins them and f = 1. Section 4 sends two transfers from leaf to
// leaf in a phase, for ⌈3·3/2⌉ = 5 phases; the nine need nine on their one lane.
func TestPathIsNotEnough(t *testing.T) {
	tree := fullTree(3, 2)
	tree.cutCables(0, 2)
	tree.cutCables(1, 0)
	if n := commonLanes(tree.Up[0], tree.Up[1]); n != 1 {
		t.Fatalf("%d lanes join the leaves, want 1", n)
	}
	x := reading{}.dest(3, 2, 1)
	crowded := 0
	for _, to := range x {
		if to[0] >= 0 && to[1] >= 0 || to[0] >= 0 && to[2] >= 0 || to[1] >= 0 && to[2] >= 0 {
			crowded++
		}
	}
	if len(x) != 5 || crowded != 4 {
		t.Errorf("%d phases, %d of them with two transfers on the lane; want 5, 4", len(x), crowded)
	}
	p, err := PlanExact(bg, tree)
	if err != nil {
		t.Fatal(err)
	}
	mustCheck(t, tree, p)
	if p.Reduction != 1 || p.Phases != 9 || p.LowerBound != 9 {
		t.Errorf("f = %d, %d phases, bound %d; want 1, 9, 9", p.Reduction, p.Phases, p.LowerBound)
	}
}

// TestIdleSlots shows why section 4 with FT(2;20,18), f = 1 needs 361 phases for
// the complete exchange: its 358 phases leave so few places idle together that a
// receiver, α = 2, can hear only 16 of its 19 neighbours there, and a server
// hears one in a phase. By the count of idle senders, 360 and 20 in one phase
// more, 359 phases would do for the 380 pairs.
func TestIdleSlots(t *testing.T) {
	x := reading{}.dest(20, 18, 1)
	var heard [20][20]bool // [receiver][sender]
	idle := 0
	for _, to := range x {
		receives := make([]bool, 20)
		for _, d := range to {
			if d >= 0 && d < 20 {
				receives[d] = true
			}
		}
		for s, d := range to[:20] {
			if d >= 0 {
				continue
			}
			idle++
			for r := range 20 {
				if !receives[r] && r != s {
					heard[r][s] = true
				}
			}
		}
	}
	fewest, who := 20, 0
	for r, senders := range heard {
		n := 0
		for _, yes := range senders {
			if yes {
				n++
			}
		}
		if n < fewest {
			fewest, who = n, r
		}
	}
	if len(x) != 358 || fewest != 16 || who != 2 || idle != 360 {
		t.Errorf("%d phases with %d idle senders a leaf; receiver %d hears %d; want 358, 360, 2, 16", len(x), idle, who, fewest)
	}
	tree := fullTree(20, 18)
	tree.cutCables(0, 0)
	if p, err := PlanAlgorithm(bg, tree); err != nil || p.Phases != len(x)+19-fewest {
		t.Errorf("section 4 plans %d phases, want %d", p.Phases, len(x)+19-fewest)
	}
}

// TestPhasesAboveServers checks section 4's P_f > P for f > ⌊M0/M1⌋, and that its phases then
// have at least as many idle senders as there are same-leaf pairs. It also checks P_f ≤ P−1 for
// f ≤ M0(M0−1)/(P−1), and P in between.
func TestPhasesAboveServers(t *testing.T) {
	smallTrees(32, func(M0, M1, f int) {
		P := M0 * M1
		P_f := up(M0*(P-M0), M0-f)
		if above := f > M0/M1; above != (P_f > P) {
			t.Errorf("FT(2;%d,%d) f=%d: P_f = %d, P = %d", M0, M1, f, P_f, P)
		} else if free := f*(P-1) <= M0*(M0-1); free != (P_f <= P-1) {
			t.Errorf("FT(2;%d,%d) f=%d: P_f = %d, P−1 = %d", M0, M1, f, P_f, P-1)
		} else if above && f*P_f < M0*(M0-1) {
			t.Errorf("FT(2;%d,%d) f=%d: %d idle senders for %d pairs", M0, M1, f, f*P_f, M0*(M0-1))
		}
	})
}

// TestLemma2 checks that the numbers of transmissions of any two servers differ by one at most,
// before each phase.
func TestLemma2(t *testing.T) {
	smallTrees(8, func(M0, M1, f int) {
		sent := make([]int, M0*M1)
		for p, to := range (reading{}).dest(M0, M1, f) {
			if slices.Max(sent)-slices.Min(sent) > 1 {
				t.Fatalf("FT(2;%d,%d) f=%d: before phase %d servers have sent %v", M0, M1, f, p, sent)
			}
			for s, d := range to {
				if d >= 0 {
					sent[s]++
				}
			}
		}
	})
}

// TestHalfTheLinks: "the number of phases increases only slightly up to about half of bandwidth
// lost" (section 6.2). By P_f it has doubled by then, on all trees of Fig. 7.
func TestHalfTheLinks(t *testing.T) {
	for _, ft := range [][2]int{{8, 16}, {16, 16}, {20, 18}, {16, 32}, {32, 32}} {
		M0, M1 := ft[0], ft[1]
		tree := fullTree(M0, M1)
		for lane := range M0 / 2 {
			tree.cutCables(0, lane)
		}
		p, err := PlanAlgorithm(bg, tree)
		if err != nil {
			t.Fatal(err)
		}
		if inter := M0*M1 - M0; p.Phases != 2*inter || p.LowerBound != 2*inter {
			t.Errorf("FT(2;%d,%d): %d phases with half of a leaf's links, bound %d, want %d", M0, M1, p.Phases, p.LowerBound, 2*inter)
		}
	}
}
