package fors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// lanesOf is [source·servers + destination] the lane of a pair, −2 for none.
func lanesOf(p *Plan) []Lane {
	lanes := make([]Lane, p.Servers*p.Servers)
	for i := range lanes {
		lanes[i] = -2
	}
	for i, d := range p.To {
		if d != Idle {
			lanes[i%p.Servers*p.Servers+int(d)] = p.Lane[i]
		}
	}
	return lanes
}

// changes counts the pairs of different leaves, those whose lane is another one than in
// lanes, and those of them whose lane there is down.
func changes(tree *Tree, lanes []Lane, p *Plan) (pairs, changed, must int) {
	leaf := leavesOf(tree)
	for i, k := range lanesOf(p) {
		if k < 0 {
			continue
		}
		pairs++
		if was := lanes[i]; was != k {
			changed++
			if was < 0 || !tree.Up[leaf[i/p.Servers]][was] || !tree.Up[leaf[i%p.Servers]][was] {
				must++
			}
		}
	}
	return pairs, changed, must
}

// demoNine cuts the nine cables of make demo.
func demoNine(t *Tree) {
	rng := rand.New(rand.NewPCG(9, 2021))
	for cut := 0; cut < 9; {
		if leaf, k := rng.IntN(18), rng.IntN(20); t.Up[leaf][k] {
			t.cutCables(leaf, k)
			cut++
		}
	}
}

// TestLanesStay plans failures of FT(2;20,18) by Make in as few phases as their
// bound. Of the pairs of different leaves so many change lane at most, in percent: of one
// cable or spine, and of any number at one leaf, those alone whose lane is dead.
func TestLanesStay(t *testing.T) {
	const M0, M1 = 20, 18
	healthy := lanesOf(must(PlanShift(bg, fullTree(M0, M1))))
	type loss struct {
		name string
		cut  func(*Tree)
		most float64
	}
	losses := []loss{
		{"none", func(*Tree) {}, 0},
		{"the nine of make demo", demoNine, 5},
		{"two of a leaf", func(t *Tree) { t.cutCables(4, 19, 7) }, 1.12},
		{"three of a leaf", func(t *Tree) { t.cutCables(17, 0, 1, 2) }, 1.67},
		{"two spines", func(t *Tree) { t.cutSpines(3, 4) }, 10},
		{"four spines", func(t *Tree) { t.cutSpines(0, 1, 10, 11) }, 20},
		{"two cables", func(t *Tree) { t.cutCables(0, 0); t.cutCables(9, 0) }, 1.2},
		{"eight cables of eight leaves", func(t *Tree) {
			for i := range 8 {
				t.cutCables(2*i, 3*i%M0)
			}
		}, 10},
		{"20 cables", func(t *Tree) { randomFailures(t, 20, 1) }, 12},
		{"40 cables", func(t *Tree) { randomFailures(t, 40, 1) }, 24},
	}
	for i := 0; i < M0*M1; i += share(1, 61) {
		losses = append(losses, loss{fmt.Sprintf("cable %d of leaf %d", i%M0, i/M0), func(t *Tree) { t.cutCables(i/M0, i%M0) }, 0.56})
	}
	for k := 0; k < M0; k += share(1, 6) {
		losses = append(losses, loss{fmt.Sprintf("spine %d", k), func(t *Tree) { t.cutSpines(k) }, 5})
	}
	for _, c := range losses {
		tree := fullTree(M0, M1)
		c.cut(tree)
		p, err := Make(bg, tree)
		if err != nil {
			t.Fatal(err)
		}
		mustCheck(t, tree, p)
		pairs, changed, dead := changes(tree, healthy, p)
		percent := 100 * float64(changed) / float64(pairs)
		if p.Gap() != 0 || percent > c.most {
			t.Errorf("%s: %s, %d phases, bound %d; %.2f %% change lane, want at most %.2f", c.name, p.Engine, p.Phases, p.LowerBound, percent, c.most)
		}
		t.Logf("%s: %d phases; %d of %d pairs change lane, %.2f %%; %.2f %% must", c.name, p.Phases, changed, pairs, percent, 100*float64(dead)/float64(pairs))
	}
}

// TestLanesReturn loses cables and spines one after the other, and gets them back, by
// random sequences of 20 such events. Every plan has as few phases as its bound. Where
// all is back, so are the lanes; and whatever has been in between, the same failures
// bring the same plan.
func TestLanesReturn(t *testing.T) {
	for _, c := range []struct{ M0, M1, sequences int }{{20, 18, share(200, 1)}, {8, 9, share(200, 6)}} {
		healthy := lanesOf(must(PlanShift(bg, fullTree(c.M0, c.M1))))
		s := &sequence{t: t, tree: fullTree(c.M0, c.M1), check: long() || c.M0 < 20}
		for seed := range uint64(c.sequences) {
			rng := rand.New(rand.NewPCG(seed, 16))
			s.last = healthy
			for range 20 {
				switch {
				case len(s.lost) > 0 && rng.IntN(2) == 0:
					s.back(rng.IntN(len(s.lost)))
				case rng.IntN(10) == 0:
					s.lose([2]int{-1, rng.IntN(c.M0)})
				default:
					s.lose([2]int{rng.IntN(c.M1), rng.IntN(c.M0)})
				}
			}
			for len(s.lost) > 0 {
				s.back(len(s.lost) - 1)
			}
			if d := cmp.Diff(healthy, s.last); d != "" {
				t.Errorf("FT(2;%d,%d), sequence %d: not all lanes are back", c.M0, c.M1, seed)
			}
		}
		t.Logf("FT(2;%d,%d), %d plans, each beside the one before: %.2f %% of the pairs change lane, %.2f %% must",
			c.M0, c.M1, s.plans, 100*float64(s.changed)/float64(s.pairs), 100*float64(s.must)/float64(s.pairs))
	}
}

// sequence loses cables, as leaf and lane, and spines, as −1 and lane.
type sequence struct {
	t     *testing.T
	tree  *Tree
	lost  [][2]int
	last  []Lane
	check bool

	plans, pairs, changed, must int
}

func (s *sequence) lose(c [2]int) {
	s.lost = append(s.lost, c)
	s.plan()
}

func (s *sequence) back(i int) {
	s.lost = slices.Delete(s.lost, i, i+1)
	s.plan()
}

// plan plans what is left.
func (s *sequence) plan() {
	for leaf, up := range s.tree.Up {
		for k := range up {
			up[k] = !slices.Contains(s.lost, [2]int{leaf, k}) && !slices.Contains(s.lost, [2]int{-1, k})
		}
	}
	p, err := Make(bg, s.tree)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.check {
		mustCheck(s.t, s.tree, p)
	}
	if p.Gap() != 0 {
		s.t.Errorf("%v lost: %s, %d phases, bound %d", s.lost, p.Engine, p.Phases, p.LowerBound)
	}
	pairs, changed, must := changes(s.tree, s.last, p)
	s.plans, s.pairs, s.changed, s.must, s.last = s.plans+1, s.pairs+pairs, s.changed+changed, s.must+must, lanesOf(p)
}

// TestRotationRandom plans by rotations on random even trees: any numbers of leaves,
// servers and spare lanes, places without servers, any damage. What is planned is
// correct, as short as its bound, and the same again; no transfer leaves a lane of its
// own that is up where few are dead.
func TestRotationRandom(t *testing.T) {
	planned, tried := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var slots []int
		for α := range rapid.IntRange(1, 9).Draw(t, "places") {
			if rapid.IntRange(0, 5).Draw(t, "slot") > 0 {
				slots = append(slots, α)
			}
		}
		if len(slots) == 0 {
			slots = []int{0}
		}
		tree := &Tree{Lanes: slots[len(slots)-1] + 1 + rapid.IntRange(0, 3).Draw(t, "spare lanes")}
		failed := rapid.IntRange(0, 5).Draw(t, "failed of 20")
		dead := 0
		for range rapid.IntRange(1, 10).Draw(t, "leaves") {
			up := make([]bool, tree.Lanes)
			for k := range up {
				if up[k] = rapid.IntRange(0, 19).Draw(t, "lane") >= failed; !up[k] {
					dead++
				}
			}
			own := slots
			if rapid.IntRange(0, 9).Draw(t, "leaf without servers") == 0 {
				own = nil
			}
			tree.Slots, tree.Up = append(tree.Slots, own), append(tree.Up, up)
		}
		if tree.Servers() == 0 {
			return
		}
		tried++
		p, err := PlanRotation(bg, tree)
		if errors.Is(err, ErrNotApplicable) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		planned++
		if err := checkPlan(tree, p); err != nil {
			t.Fatal(err)
		}
		if p.Gap() != 0 {
			t.Fatalf("%d phases, bound %d", p.Phases, p.LowerBound)
		}
		if d := cmp.Diff(p, must(PlanRotation(bg, tree))); d != "" {
			t.Fatalf("two plans of one tree differ:\n%s", d)
		}
		whole := &Tree{Lanes: tree.Lanes, Slots: tree.Slots}
		for range tree.Up {
			whole.Up = append(whole.Up, slices.Repeat([]bool{true}, tree.Lanes))
		}
		if _, changed, must := changes(tree, lanesOf(must(PlanRotation(bg, whole))), p); dead <= 1 && changed != must {
			t.Fatalf("%d pairs change lane, %d must", changed, must)
		}
	})
	t.Logf("%d of %d trees planned", planned, tried)
	if planned < tried/2 {
		t.Errorf("%d of %d trees planned", planned, tried)
	}
}

// TestRotationOnlyWhere names the trees that have none.
func TestRotationOnlyWhere(t *testing.T) {
	uneven := fullTree(4, 3)
	uneven.Slots[1] = uneven.Slots[1][:3]
	closed := fullTree(4, 3)
	closed.Closed = func(d Server, k Lane) bool { return d == 0 && k == 3 }
	apart := fullTree(2, 3)
	apart.cutCables(0, 0)
	apart.cutCables(1, 1)
	for name, tree := range map[string]*Tree{"uneven": uneven, "too few lanes": evenTree(4, 3, 3), "a closed lane": closed, "leaves apart": apart} {
		if p, err := PlanRotation(bg, tree); !errors.Is(err, ErrNotApplicable) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if _, err := PlanRotation(bg, &Tree{}); err == nil || errors.Is(err, ErrNotApplicable) {
		t.Errorf("no servers: %v", err)
	}
}
