package fors

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// checkRemainder checks a plan of some pairs independently of the package. It checks phases
// as checkPhase does, and that each pair of want is in one of them or, if no lane joins it,
// in the list of unreachable pairs.
func checkRemainder(t *Tree, p *Plan, want func(s, d Server) bool) error {
	leafOf := leavesOf(t)
	P := len(leafOf)
	if p.Servers != P || len(p.To) != P*p.Phases || len(p.Lane) != P*p.Phases || p.Gap() < 0 {
		return fmt.Errorf("%d phases of %d servers, %d entries, bound %d", p.Phases, p.Servers, len(p.To), p.LowerBound)
	}
	met := make([]int, P*P)
	for ph := range p.Phases {
		if err := checkPhase(t, leafOf, p.To[ph*P:(ph+1)*P], p.Lane[ph*P:(ph+1)*P], met); err != nil {
			return fmt.Errorf("phase %d: %w", ph, err)
		}
	}
	var cut []Pair
	for s := range Server(P) {
		for d := range Server(P) {
			times := 0
			if want(s, d) {
				if leafOf[s] == leafOf[d] || joined(t, leafOf[s], leafOf[d], d) {
					times = 1
				} else {
					cut = append(cut, Pair{s, d})
				}
			}
			if met[int(s)*P+int(d)] != times {
				return fmt.Errorf("%d sends to %d %d times, want %d", s, d, met[int(s)*P+int(d)], times)
			}
		}
	}
	if !slices.Equal(cut, p.Unreachable) {
		return fmt.Errorf("unreachable pairs %v, want %v", p.Unreachable, cut)
	}
	return nil
}

// halves splits a plan: the pairs that its first phases leave, and the rest of
// its phases.
func halves(p *Plan, done int) (*PairSet, *Plan) {
	pairs, at := (&Tree{Slots: [][]int{make([]int, p.Servers)}}).Demand(), done*p.Servers
	for i, d := range p.To[:at] {
		if d != Idle {
			pairs.Remove(Server(i%p.Servers), d)
		}
	}
	return pairs, &Plan{Servers: p.Servers, Phases: p.Phases - done, To: p.To[at:], Lane: p.Lane[at:]}
}

// damage is a failure in the midst of an exchange.
type damage struct {
	name string
	cut  func(*Tree)
	most int // phases over the bound
}

var damages = []damage{
	{"a cable", func(t *Tree) { t.cutCables(3, 5) }, 0},
	{"a spine", func(t *Tree) { t.cutSpines(7) }, 0},
	{"two spines", func(t *Tree) { t.cutSpines(7, 11) }, 0},
	{"9 cables", func(t *Tree) { randomFailures(t, 9, 1) }, 0},
	{"20 cables", func(t *Tree) { randomFailures(t, 20, 1) }, 1},
}

// remains plans what remains of a plan after a share of its phases, in percent, checks it, and
// returns the pairs with it.
func remains(t *testing.T, tree *Tree, old *Plan, percent int) (*Remainder, *PairSet) {
	t.Helper()
	pairs, rest := halves(old, percent*old.Phases/100)
	r, err := Remaining(bg, tree, pairs, rest)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkRemainder(tree, r.Plan, pairs.Has); err != nil {
		t.Fatalf("%s plan at %d%%: %v", old.Engine, percent, err)
	}
	return r, pairs
}

// TestRemainingFT checks that a failure in the middle of an exchange on FT(2;20,18)
// costs no phase more than the bound, whichever engine planned it.
func TestRemainingFT(t *testing.T) {
	hurt := fullTree(20, 18)
	hurt.cutCables(0, 1, 2, 3)
	shift, _ := PlanShift(bg, fullTree(20, 18))
	algorithm, _ := PlanAlgorithm(bg, hurt)
	shares := []int{0, 25, 50, 75, 95}
	if !long() {
		shares = []int{25, 95}
	}
	rotation := must(PlanRotation(bg, hurt))
	for _, old := range []*Plan{must(PlanExact(bg, fullTree(20, 18))), shift, algorithm, rotation} {
		for _, c := range damages {
			for _, share := range shares {
				tree := fullTree(20, 18)
				c.cut(tree)
				r, pairs := remains(t, tree, old, share)
				if r.Gap() > c.most {
					t.Errorf("%s plan, %s lost at %d%%: %d phases, bound %d", old.Engine, c.name, share, r.Phases, r.LowerBound)
				}
				if sum := r.Kept + r.Moved + r.Shed; sum != pairs.Len() {
					t.Errorf("%d transfers kept, %d moved, %d shed: %d in all, want %d", r.Kept, r.Moved, r.Shed, sum, pairs.Len())
				}
				t.Logf("%s plan, %s lost at %d%%: %d phases, bound %d; %d kept, %d moved, %d shed, anew %v", old.Engine, c.name, share, r.Phases, r.LowerBound, r.Kept, r.Moved, r.Shed, r.Anew)
			}
		}
	}
}

// TestRemainingEach loses one cable or one spine of FT(2;20,18) at 0, 25, 50, 75 and
// 95 % of the exchange: several of them, or each of the 380 with FORS_LONG. No plan is over
// its bound, and the phases done and the plan together have every pair once.
func TestRemainingEach(t *testing.T) {
	const M0, M1 = 20, 18
	var lost []damage
	for i := 0; i < M0*M1; i += share(1, 121) { // of the quick version no two on one leaf or spine
		leaf, lane := i/M0, i%M0
		lost = append(lost, damage{fmt.Sprintf("the cable of leaf %d to spine %d", leaf, lane), func(t *Tree) { t.cutCables(leaf, lane) }, 0})
	}
	for k := 0; k < M0; k += share(1, 6) {
		lost = append(lost, damage{fmt.Sprintf("spine %d", k), func(t *Tree) { t.cutSpines(k) }, 0})
	}
	shift, _ := PlanShift(bg, fullTree(M0, M1))
	for _, old := range []*Plan{must(PlanExact(bg, fullTree(M0, M1))), shift} {
		for _, percent := range []int{0, 25, 50, 75, 95} {
			pairs, rest := halves(old, percent*old.Phases/100)
			for _, c := range lost {
				tree := fullTree(M0, M1)
				c.cut(tree)
				r, err := Remaining(bg, tree, pairs, rest)
				if err != nil {
					t.Fatal(err)
				}
				if err := checkRemainder(tree, r.Plan, pairs.Has); err != nil || r.Gap() > c.most || len(r.Unreachable) > 0 {
					t.Errorf("%s plan, %s lost at %d%%: %d phases, bound %d: %v", old.Engine, c.name, percent, r.Phases, r.LowerBound, err)
				}
			}
		}
	}
}

// TestRemainingKeeps checks that one lost cable or spine moves transfers of an
// exact plan to other lanes and none to another phase.
func TestRemainingKeeps(t *testing.T) {
	old := must(PlanExact(bg, fullTree(20, 18)))
	for _, c := range damages[:2] {
		tree := fullTree(20, 18)
		c.cut(tree)
		pairs, rest := halves(old, 180)
		r, err := Remaining(bg, tree, pairs, rest)
		if err != nil {
			t.Fatal(err)
		}
		if r.Shed > 0 || r.Anew || r.Phases != rest.Phases || r.Moved == 0 {
			t.Errorf("%s lost: %d phases of %d, %d moved, %d shed", c.name, r.Phases, rest.Phases, r.Moved, r.Shed)
		}
		for i, d := range rest.To {
			if r.To[i] != d {
				t.Fatalf("%s lost: phase %d differs", c.name, i/old.Servers)
			}
		}
	}
}

// TestRemainingOfHealthy loses cables and spines while the plan of the whole tree runs. The
// rest is at its bound; of a cable or a spine no transfer leaves its phase, and no other
// transfer its lane, and of two spines those alone that leaves have no lanes for.
func TestRemainingOfHealthy(t *testing.T) {
	old, err := Make(bg, fullTree(20, 18))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		damage
		inPhase, onLane float64
	}{{damages[0], 1, 0.99}, {damages[1], 1, 0.95}, {damages[2], 0.95, 0.75}, {damages[3], 0.95, 0.86}, {damages[4], 0.91, 0.77}} {
		for _, share := range []int{0, 5, 25, 50, 75, 95} {
			tree := fullTree(20, 18)
			c.cut(tree)
			r, pairs := remains(t, tree, old, share)
			all := float64(pairs.Len())
			inPhase, onLane := 1-float64(r.Shed)/all, float64(r.Kept)/all
			if r.Gap() > 0 || inPhase < c.inPhase || onLane < c.onLane {
				t.Errorf("%s lost at %d%%: %d phases, bound %d; %.4f in their phase, %.4f on their lane, want %.2f and %.2f", c.name, share, r.Phases, r.LowerBound, inPhase, onLane, c.inPhase, c.onLane)
			}
			t.Logf("%s lost at %d%%: %d phases, bound %d; %.4f in their phase, %.4f on their lane", c.name, share, r.Phases, r.LowerBound, inPhase, onLane)
		}
	}
}

// TestRemainingRandom repairs random plans after random failures, with pairs that
// were never planned, transfers that are not to be sent, and rows that are wrong.
func TestRemainingRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		if tree.Servers() == 0 {
			return // TestRemainingRefuses
		}
		old, err := Make(bg, tree)
		if err != nil {
			t.Fatal(err)
		}
		now := &Tree{Lanes: tree.Lanes, Slots: tree.Slots, Closed: tree.Closed}
		for _, up := range tree.Up {
			now.Up = append(now.Up, slices.Clone(up))
		}
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			if leaf := rapid.IntRange(0, len(now.Up)-1).Draw(t, "leaf"); now.Lanes > 0 {
				k := rapid.IntRange(0, now.Lanes-1).Draw(t, "lane")
				now.Up[leaf][k] = !now.Up[leaf][k]
			}
		}
		pairs, rest := halves(old, rapid.IntRange(0, old.Phases).Draw(t, "done"))
		rest.To, rest.Lane = slices.Clone(rest.To), slices.Clone(rest.Lane)
		for range rapid.IntRange(0, 9).Draw(t, "surprises") {
			s, d := rapid.IntRange(0, old.Servers-1).Draw(t, "s"), rapid.IntRange(0, old.Servers-1).Draw(t, "d")
			if !pairs.Add(Server(s), Server(d)) {
				pairs.Remove(Server(s), Server(d))
			}
			if i := rapid.IntRange(0, len(rest.To)).Draw(t, "entry"); i < len(rest.To) {
				rest.To[i], rest.Lane[i] = Server(d), Lane(rapid.IntRange(-2, now.Lanes+1).Draw(t, "wrong"))
			}
		}
		r, err := Remaining(bg, now, pairs, rest)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkRemainder(now, r.Plan, pairs.Has); err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{1, 2, 4} {
			m, err := newMender(bg, now, pairs, rest, workers)
			if err != nil {
				t.Fatal(err)
			}
			again, err := m.remainder(bg, m.attempts())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, again); diff != "" {
				t.Fatalf("%d workers: %s", workers, diff)
			}
		}
	})
}

// planPairs plans pairs from nothing.
func planPairs(t *Tree, pairs *PairSet) (*Plan, error) {
	r, err := Remaining(bg, t, pairs, nil)
	if err != nil {
		return nil, err
	}
	return r.Plan, nil
}

// TestPlanPairs plans random sets of pairs from nothing, each once or not at all.
func TestPlanPairs(t *testing.T) {
	plans, over := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		if tree.Servers() == 0 {
			return // TestRemainingRefuses
		}
		P, share := tree.Servers(), rapid.IntRange(0, 8).Draw(t, "eighths")
		pairs := NewPairSet(P)
		for s := range Server(P) {
			for d := range Server(P) {
				if rapid.IntRange(0, 7).Draw(t, "eighth") < share {
					pairs.Add(s, d)
				}
			}
		}
		p, err := planPairs(tree, pairs)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkRemainder(tree, p, pairs.Has); err != nil {
			t.Fatal(err)
		}
		if b := naivePairBound(tree, pairs); p.LowerBound != b && pairs.Len() < P*(P-1) {
			t.Fatalf("bound %d, want %d", p.LowerBound, b)
		}
		if plans++; p.Gap() > 0 {
			over++
		}
	})
	t.Logf("%d plans, %d over their bound", plans, over)
	if 4*over > plans {
		t.Errorf("%d of %d plans are over their bound", over, plans)
	}
}

// naivePairBound goes through all sets of lanes.
func naivePairBound(t *Tree, pairs *PairSet) int {
	leafOf := leavesOf(t)
	lanes := func(s, d int) (set int) {
		for k := range t.Lanes {
			if t.Up[leafOf[s]][k] && t.Up[leafOf[d]][k] && (t.Closed == nil || !t.Closed(Server(d), Lane(k))) {
				set |= 1 << k
			}
		}
		return set
	}
	bound, degree := 0, map[[2]int]int{}
	for set := range 1 << t.Lanes {
		confined := map[[2]int]int{} // [end, leaf] transfers
		size := 0
		for k := range t.Lanes {
			size += set >> k & 1
		}
		for s := range leafOf {
			for d := range leafOf {
				if !pairs.Has(Server(s), Server(d)) {
					continue
				}
				local, usable := leafOf[s] == leafOf[d], lanes(s, d)
				if set == 0 && (local || usable > 0) {
					degree[[2]int{0, s}]++
					degree[[2]int{1, d}]++
				}
				if !local && usable > 0 && usable&^set == 0 {
					confined[[2]int{0, leafOf[s]}]++
					confined[[2]int{1, leafOf[d]}]++
				}
			}
		}
		for _, x := range confined {
			bound = max(bound, ceilDiv(x, size))
		}
	}
	for _, x := range degree {
		bound = max(bound, x)
	}
	return bound
}

func TestRemainingRefuses(t *testing.T) {
	tree := fullTree(3, 3)
	for name, c := range map[string]struct {
		tree  *Tree
		pairs *PairSet
		old   *Plan
	}{
		"pairs of other servers":     {tree, NewPairSet(8), nil},
		"a plan of other servers":    {tree, NewPairSet(9), NewPlan(Exact, 8, 1)},
		"a plan that lacks rows":     {tree, NewPairSet(9), &Plan{Servers: 9, Phases: 1}},
		"a tree without servers":     {&Tree{Slots: [][]int{{}}, Up: [][]bool{{}}}, NewPairSet(0), nil},
		"a tree without lane states": {&Tree{Lanes: 3, Slots: tree.Slots}, NewPairSet(9), nil},
	} {
		if r, err := Remaining(bg, c.tree, c.pairs, c.old); err == nil {
			t.Errorf("%s: planned in %d phases", name, r.Phases)
		}
	}
}

// BenchmarkRemaining repairs an exact plan of FT(2;20,18) in mid-exchange.
func BenchmarkRemaining(b *testing.B) {
	old := must(PlanExact(bg, fullTree(20, 18)))
	for _, c := range damages {
		tree := fullTree(20, 18)
		c.cut(tree)
		for _, share := range []int{0, 50, 95} {
			pairs, rest := halves(old, share*old.Phases/100)
			b.Run(fmt.Sprintf("%s/%d%%", c.name, share), func(b *testing.B) {
				benchmark(b, func() *Plan {
					r, err := Remaining(bg, tree, pairs, rest)
					return must(r.Plan, err)
				})
			})
		}
	}
}

// BenchmarkPlanPairs plans the second half of a shift from nothing.
func BenchmarkPlanPairs(b *testing.B) {
	old, _ := PlanShift(bg, fullTree(20, 18))
	pairs, _ := halves(old, 180)
	tree := fullTree(20, 18)
	tree.cutCables(3, 5)
	benchmark(b, func() *Plan { return must(planPairs(tree, pairs)) })
}
