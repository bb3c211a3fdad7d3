package fors

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

var bg = context.Background()

// checkPlan checks a plan independently of the package: it uses the definition of Tree and
// Plan and none of the package's functions.
func checkPlan(t *Tree, p *Plan) error {
	leafOf := leavesOf(t)
	P := len(leafOf)
	if p.Servers != P || len(p.To) != P*p.Phases || len(p.Lane) != P*p.Phases {
		return fmt.Errorf("plan of %d servers, %d phases, %d and %d entries for a tree of %d servers",
			p.Servers, p.Phases, len(p.To), len(p.Lane), P)
	}
	if p.Phases < p.LowerBound {
		return fmt.Errorf("%d phases, below the lower bound %d", p.Phases, p.LowerBound)
	}
	met := make([]int, P*P)
	for ph := range p.Phases {
		if err := checkPhase(t, leafOf, p.To[ph*P:(ph+1)*P], p.Lane[ph*P:(ph+1)*P], met); err != nil {
			return fmt.Errorf("phase %d: %w", ph, err)
		}
	}
	return checkPairs(t, leafOf, p.Unreachable, met)
}

// checkPhase checks one phase and counts its pairs in met.
func checkPhase(t *Tree, leafOf []int, to []Server, lane []Lane, met []int) error {
	P, K := len(leafOf), t.Lanes
	heard := make([]bool, P)
	up, down := make([]bool, len(t.Slots)*K), make([]bool, len(t.Slots)*K) // [leaf][lane]
	sent := 0
	for s, d := range to {
		k := int(lane[s])
		if d == Idle {
			if lane[s] != Local {
				return fmt.Errorf("idle server %d has lane %d", s, k)
			}
			continue
		}
		sent++
		if d < 0 || int(d) >= P || int(d) == s {
			return fmt.Errorf("server %d sends to %d of %d", s, d, P)
		}
		if heard[d] {
			return fmt.Errorf("server %d receives twice", d)
		}
		heard[d] = true
		met[s*P+int(d)]++
		A, B := leafOf[s], leafOf[d]
		if (A == B) != (lane[s] == Local) {
			return fmt.Errorf("%d of leaf %d sends to %d of leaf %d on lane %d", s, A, d, B, k)
		}
		if A == B {
			continue
		}
		if k < 0 || k >= K || !t.Up[A][k] || !t.Up[B][k] || t.Closed != nil && t.Closed(d, Lane(k)) {
			return fmt.Errorf("%d of leaf %d sends to %d of leaf %d on unusable lane %d", s, A, d, B, k)
		}
		if up[A*K+k] || down[B*K+k] {
			return fmt.Errorf("%d of leaf %d to %d of leaf %d: lane %d is taken", s, A, d, B, k)
		}
		up[A*K+k], down[B*K+k] = true, true
	}
	if sent == 0 {
		return fmt.Errorf("nobody sends")
	}
	return nil
}

// checkPairs checks that each ordered pair with a lane was met once and each
// without is listed, in order.
func checkPairs(t *Tree, leafOf []int, unreachable []Pair, met []int) error {
	P := len(leafOf)
	var cut []Pair
	for s := range P {
		for d := range P {
			want := 1
			if s == d || t.Exchange != nil && t.Exchange[s] != t.Exchange[d] {
				want = 0
			} else if A, B := leafOf[s], leafOf[d]; A != B && !joined(t, A, B, Server(d)) {
				want = 0
				cut = append(cut, Pair{Server(s), Server(d)})
			}
			if met[s*P+d] != want {
				return fmt.Errorf("%d sends to %d %d times, want %d", s, d, met[s*P+d], want)
			}
		}
	}
	if !slices.Equal(cut, unreachable) {
		return fmt.Errorf("unreachable pairs %v, want %v", unreachable, cut)
	}
	return nil
}

// joined reports whether a lane leads from leaf A to server d of leaf B.
func joined(t *Tree, A, B int, d Server) bool {
	for k := range t.Lanes {
		if t.Up[A][k] && t.Up[B][k] && (t.Closed == nil || !t.Closed(d, Lane(k))) {
			return true
		}
	}
	return false
}

// mustCheck fails the test when the plan is not one for the tree.
func mustCheck(t *testing.T, tree *Tree, p *Plan) {
	t.Helper()
	if err := checkPlan(tree, p); err != nil {
		t.Fatalf("%s plan: %v", p.Engine, err)
	}
}

// fullTree is FT(2;M0,M1): M0 servers and M0 living lanes on each of M1 leaves.
func fullTree(M0, M1 int) *Tree { return evenTree(M0, M1, M0) }

// evenTree has M1 leaves of M0 servers each and K living lanes.
func evenTree(M0, M1, K int) *Tree {
	t := &Tree{Lanes: K}
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

// cutCables takes lanes down at a leaf.
func (t *Tree) cutCables(leaf int, lanes ...int) {
	for _, k := range lanes {
		t.Up[leaf][k] = false
	}
}

// cutSpines takes lanes down at every leaf.
func (t *Tree) cutSpines(lanes ...int) {
	for leaf := range t.Up {
		t.cutCables(leaf, lanes...)
	}
}

// breakOne changes one thing of a valid plan.
type breakOne struct {
	name  string
	spoil func(t *Tree, p *Plan)
}

// TestCheckerRejects makes sure that the checker can fail.
func TestCheckerRejects(t *testing.T) {
	for _, c := range []breakOne{
		{"swapped destinations", func(_ *Tree, p *Plan) { p.To[0], p.To[1] = p.To[1], p.To[0] }},
		{"missing pair", func(_ *Tree, p *Plan) { p.To[0], p.Lane[0] = Idle, Local }},
		{"pair in two phases", func(_ *Tree, p *Plan) { p.To[0] = p.To[p.Servers] }},
		{"two transfers on a link", func(_ *Tree, p *Plan) {
			for i := range p.Lane {
				if p.Lane[i] == 0 {
					p.Lane[i] = 1
				}
			}
		}},
		{"local transfer on a lane", func(_ *Tree, p *Plan) { p.Lane[0] = 2 }},
		{"lane that is down", func(t *Tree, _ *Plan) { t.cutSpines(1) }},
		{"empty phase", func(_ *Tree, p *Plan) { p.addPhase() }},
		{"bound above the plan", func(_ *Tree, p *Plan) { p.LowerBound = p.Phases + 1 }},
		{"unreachable pair that is met", func(_ *Tree, p *Plan) { p.Unreachable = []Pair{{0, 1}} }},
	} {
		tree := fullTree(3, 4)
		p, err := PlanShift(bg, tree)
		if err != nil {
			t.Fatal("the shift does not apply to a healthy tree")
		}
		mustCheck(t, tree, p)
		c.spoil(tree, p)
		if err := checkPlan(tree, p); err == nil {
			t.Errorf("%s: not noticed", c.name)
		}
	}
}
