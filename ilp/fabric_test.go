package ilp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forsd/forsd/fors"
)

// ft is FT(2;M0,M1) with K lanes, undamaged.
func ft(M0, M1, K int) *fors.Tree {
	t := &fors.Tree{Lanes: K}
	for range M1 {
		slots, up := make([]int, M0), make([]bool, K)
		for α := range slots {
			slots[α] = α
		}
		for k := range up {
			up[k] = true
		}
		t.Slots, t.Up = append(t.Slots, slots), append(t.Up, up)
	}
	return t
}

// cut takes down the next n lanes at each of the leaves, different ones at each, as in
// the paper's scenarios.
func cut(t *fors.Tree, n int, leaves ...int) *fors.Tree {
	for i, leaf := range leaves {
		for k := range n {
			t.Up[leaf][i*n+k] = false
		}
	}
	return t
}

// cutRandom takes down n random links.
func cutRandom(t *fors.Tree, n int, rng *rand.Rand) *fors.Tree {
	for _, link := range rng.Perm(len(t.Up) * t.Lanes)[:n] {
		t.Up[link/t.Lanes][link%t.Lanes] = false
	}
	return t
}

// masks is a tree of leaves with n servers whose lanes are the bits of masks.
func masks(n, lanes int, up ...int) *fors.Tree {
	t := ft(n, len(up), lanes)
	for leaf, mask := range up {
		for k := range lanes {
			t.Up[leaf][k] = mask>>k&1 != 0
		}
	}
	return t
}

// connected reports whether every two leaves share a lane.
func connected(t *fors.Tree) bool {
	for A := range t.Up {
		for B := range A {
			if !slices.ContainsFunc(lanesOf(t), func(k int) bool { return t.Up[A][k] && t.Up[B][k] }) {
				return false
			}
		}
	}
	return true
}

func lanesOf(t *fors.Tree) []int {
	lanes := make([]int, t.Lanes)
	for k := range lanes {
		lanes[k] = k
	}
	return lanes
}

// leafOf is the leaf of every server.
func leafOf(t *fors.Tree) []int {
	var leaf []int
	for A, slots := range t.Slots {
		for range slots {
			leaf = append(leaf, A)
		}
	}
	return leaf
}

// checkRoute checks the lanes of a phase independently of the package.
func checkRoute(t *fors.Tree, pairs []fors.Pair, lanes []fors.Lane) error {
	if len(lanes) != len(pairs) {
		return fmt.Errorf("%d lanes for %d transfers", len(lanes), len(pairs))
	}
	type link struct {
		leaf int
		lane fors.Lane
		down bool
	}
	leaf, taken := leafOf(t), map[link]bool{}
	for i, pair := range pairs {
		A, B, k := leaf[pair.Src], leaf[pair.Dst], lanes[i]
		if k < 0 || int(k) >= t.Lanes || !t.Up[A][k] || !t.Up[B][k] || t.Closed != nil && t.Closed(pair.Dst, k) {
			return fmt.Errorf("%d of leaf %d to %d of leaf %d on unusable lane %d", pair.Src, A, pair.Dst, B, k)
		}
		for _, l := range []link{{A, k, false}, {B, k, true}} {
			if taken[l] {
				return fmt.Errorf("%d of leaf %d to %d of leaf %d: lane %d is taken", pair.Src, A, pair.Dst, B, k)
			}
			taken[l] = true
		}
	}
	return nil
}

// checkPlan checks a plan: rows, lanes, and every pair once or unreachable.
func checkPlan(t *fors.Tree, p *fors.Plan) error {
	leaf := leafOf(t)
	P := len(leaf)
	met := map[fors.Pair]int{}
	for ph := range p.Phases {
		to, lane := p.Row(fors.Phase(ph))
		heard := make([]bool, P)
		var pairs []fors.Pair
		var lanes []fors.Lane
		for s, d := range to {
			if d == fors.Idle {
				continue
			}
			if heard[d] {
				return fmt.Errorf("phase %d: server %d receives twice", ph, d)
			}
			heard[d] = true
			pair := fors.Pair{Src: fors.Server(s), Dst: d}
			met[pair]++
			if leaf[s] != leaf[d] {
				pairs, lanes = append(pairs, pair), append(lanes, lane[s])
			} else if lane[s] != fors.Local {
				return fmt.Errorf("phase %d: local transfer of %d on lane %d", ph, s, lane[s])
			}
		}
		if err := checkRoute(t, pairs, lanes); err != nil {
			return fmt.Errorf("phase %d: %w", ph, err)
		}
	}
	for _, pair := range p.Unreachable {
		if met[pair]++; slices.ContainsFunc(lanesOf(t), func(k int) bool {
			return t.Up[leaf[pair.Src]][k] && t.Up[leaf[pair.Dst]][k] && (t.Closed == nil || !t.Closed(pair.Dst, fors.Lane(k)))
		}) {
			return fmt.Errorf("%v is listed as unreachable and has a lane", pair)
		}
	}
	for s := range P {
		for d := range P {
			if want, n := min(1, max(s-d, d-s)), met[fors.Pair{Src: fors.Server(s), Dst: fors.Server(d)}]; n != want {
				return fmt.Errorf("%d sends to %d %d times, want %d", s, d, n, want)
			}
		}
	}
	return nil
}

func mustCheck(t *testing.T, tree *fors.Tree, p *fors.Plan) {
	t.Helper()
	if err := checkPlan(tree, p); err != nil {
		t.Fatal(err)
	}
}
