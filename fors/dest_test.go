package fors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// ownLanes is the wish of tables in which the base LID of server α of a leaf takes
// lane α mod K.
func ownLanes(t *Tree) Wish {
	var w Wish
	for range t.Slots {
		for _, slots := range t.Slots {
			for _, α := range slots {
				w.Via = append(w.Via, Lane(α%t.Lanes))
			}
		}
	}
	return w
}

// leavesOf is the leaf of each server.
func leavesOf(t *Tree) (leafOf []int) {
	for leaf, slots := range t.Slots {
		for range slots {
			leafOf = append(leafOf, leaf)
		}
	}
	return leafOf
}

// changed counts the lanes that are not as wished, and those that cannot be.
func changed(t *Tree, w Wish, p *Grouped) (moved, must int) {
	leafOf := leavesOf(t)
	for i, k := range p.Via {
		A, B, wish := i/p.Servers, leafOf[i%p.Servers], w.Via[i]
		if k == Local {
			continue
		}
		if k != wish {
			moved++
		}
		if wish == Local || !t.Up[A][wish] || !t.Up[B][wish] {
			must++
		}
	}
	return moved, must
}

// demoCables takes the nine cables of the demo out of FT(2;20,18).
func demoCables(t *Tree) {
	rng := rand.New(rand.NewPCG(9, 2021))
	for dead := 0; dead < 9; {
		if leaf, lane := rng.IntN(18), rng.IntN(20); t.Up[leaf][lane] {
			t.cutCables(leaf, lane)
			dead++
		}
	}
}

// planOneLIDChecked plans, checks the plan, and returns it with the lanes that are
// not as wished and those that cannot be.
func planOneLIDChecked(t testing.TB, tree *Tree, w Wish) (p *Grouped, moved, must int) {
	t.Helper()
	p, err := PlanOneLID(t.Context(), tree, w)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkGrouped(tree, p, 1); err != nil {
		t.Fatal(err)
	}
	if w.Via != nil {
		moved, must = changed(tree, w, p)
	}
	return p, moved, must
}

// TestOneLIDTable plans for base LIDs on FT(2;20,18) and FT(2;16,16) after failures:
// in as few phases as one LID allows, moving what must move and nothing else.
func TestOneLIDTable(t *testing.T) {
	for _, c := range []struct {
		name           string
		spines, leaves int
		spoil          func(t *Tree)
		phases, moved  int
		by             Certificate
	}{
		{"healthy", 20, 18, func(*Tree) {}, 359, 0, ByServers},
		{"a cable", 20, 18, func(t *Tree) { t.cutCables(7, 10) }, 360, 34, ByLID},
		{"two of a leaf", 20, 18, func(t *Tree) { t.cutCables(7, 10, 13) }, 380, 68, ByLID},
		{"the demo's nine", 20, 18, demoCables, 380, 294, ByLID},
		{"a spine", 20, 18, func(t *Tree) { t.cutSpines(10) }, 360, 306, ByLID},
		{"two spines", 20, 18, func(t *Tree) { t.cutSpines(10, 13) }, 380, 612, ByLID},
		{"healthy", 16, 16, func(*Tree) {}, 255, 0, ByServers},
		{"a cable", 16, 16, func(t *Tree) { t.cutCables(7, 10) }, 256, 30, ByLeaf},
		{"two of a leaf", 16, 16, func(t *Tree) { t.cutCables(7, 10, 13) }, 288, 60, ByLID},
		{"a spine", 16, 16, func(t *Tree) { t.cutSpines(10) }, 256, 240, ByLeaf},
	} {
		for _, keep := range []bool{false, true} {
			tree := fullTree(c.spines, c.leaves)
			c.spoil(tree)
			w := ownLanes(tree)
			w.Keep = keep
			p, moved, must := planOneLIDChecked(t, tree, w)
			if p.Phases != c.phases || p.LeastPhases != c.phases || p.LeastBy != c.by || moved != c.moved || must != c.moved {
				t.Errorf("FT(2;%d,%d), %s, keep %t: %d phases of at least %d by %s, %d lanes moved of %d that must; want %d by %s and %d",
					c.spines, c.leaves, c.name, keep, p.Phases, p.LeastPhases, p.LeastBy, moved, must, c.phases, c.by, c.moved)
			}
		}
	}
}

// TestOneLIDEach plans FT(2;20,18) without any one cable, without any two of a leaf
// and without any spine, and FT(2;16,16) without any one cable.
func TestOneLIDEach(t *testing.T) {
	hold := func(tree *Tree, what string, phases, most int) {
		w := ownLanes(tree)
		w.Keep = true
		if p, moved, _ := planOneLIDChecked(t, tree, w); p.Phases != phases || moved > most {
			t.Errorf("%s: %d phases, %d lanes moved; want %d and at most %d", what, p.Phases, moved, phases, most)
		}
	}
	quick := func(step int) int { return share(1, step) }
	for i := 0; i < 360; i += quick(29) {
		tree := fullTree(20, 18)
		tree.cutCables(i/20, i%20)
		hold(tree, fmt.Sprintf("FT(2;20,18) without lane %d of leaf %d", i%20, i/20), 360, 34)
	}
	for i := 0; i < 400; i += quick(37) {
		if a, b := i/20, i%20; a < b {
			tree := fullTree(20, 18)
			tree.cutCables(7, a, b)
			hold(tree, fmt.Sprintf("FT(2;20,18) without lanes %d and %d of leaf 7", a, b), 380, 68)
		}
	}
	for k := 0; k < 20; k += quick(7) {
		tree := fullTree(20, 18)
		tree.cutSpines(k)
		hold(tree, fmt.Sprintf("FT(2;20,18) without spine %d", k), 360, 306)
	}
	for i := 0; i < 256; i += quick(41) {
		tree := fullTree(16, 16)
		tree.cutCables(i/16, i%16)
		hold(tree, fmt.Sprintf("FT(2;16,16) without lane %d of leaf %d", i%16, i/16), 256, 30)
	}
}

// TestOneLIDFailures plans FT(2;20,18) with 1 to 40 dead cables. Plans are at the bound of
// one LID, and only lanes that must move do.
func TestOneLIDFailures(t *testing.T) {
	over, worst, n := 0, 1.0, share(1000, 40)
	for i := range n {
		tree := randomFailures(fullTree(20, 18), 1+i%40, uint64(i))
		w := ownLanes(tree)
		w.Keep = true
		p, moved, must := planOneLIDChecked(t, tree, w)
		if moved != must {
			t.Errorf("%d dead cables, seed %d: %d lanes moved, %d must", 1+i%40, i, moved, must)
		}
		if p.Phases > p.LeastPhases {
			over++
			worst = max(worst, float64(p.Phases)/float64(p.LeastPhases))
		}
	}
	t.Logf("%d of %d plans over their bound, the worst %.3f times as long", over, n, worst)
	if worst > 1.06 {
		t.Errorf("a plan takes %.3f times its bound", worst)
	}
}

// allocate draws some servers of a tree, as of a job.
func allocate(tree *Tree, servers int, rng *rand.Rand) *Tree {
	job := &Tree{Lanes: tree.Lanes, Up: tree.Up, Slots: make([][]int, len(tree.Slots))}
	leafOf := leavesOf(tree)
	drawn := rng.Perm(len(leafOf))[:servers]
	slices.Sort(drawn)
	first := 0
	for leaf, slots := range tree.Slots {
		for _, s := range drawn {
			if leafOf[s] == leaf {
				job.Slots[leaf] = append(job.Slots[leaf], slots[s-first])
			}
		}
		first += len(slots)
	}
	return job
}

// TestOneLIDHeavyDamage plans FT(2;20,18) with up to half of its cables dead and up to a
// third of its servers missing, and once more when another cable dies.
func TestOneLIDHeavyDamage(t *testing.T) {
	over, worst, n := 0, 1.0, share(1000, 20)
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(i), 180))
		tree := randomFailures(fullTree(20, 18), 40+rng.IntN(140), uint64(i))
		tree = allocate(tree, 240+rng.IntN(121), rng)
		p, _, _ := planOneLIDChecked(t, tree, Wish{})
		w := Wish{Via: p.Via}
		q, _, _ := planOneLIDChecked(t, randomFailures(tree, 1, uint64(n+i)), w)
		for _, p := range []*Grouped{p, q} {
			if p.Phases > p.LeastPhases {
				over++
				worst = max(worst, float64(p.Phases)/float64(p.LeastPhases))
			}
		}
	}
	t.Logf("%d of %d plans over their bound, the worst %.3f times as long", over, 2*n, worst)
	if worst > 1.06 {
		t.Errorf("a plan takes %.3f times its bound", worst)
	}
}

// TestOneLIDTheorem checks that one LID a server suffices for P−1 phases on an
// undamaged tree, for any set of servers.
func TestOneLIDTheorem(t *testing.T) {
	for n := 1; n < 5; n++ {
		if p, _, _ := planOneLIDChecked(t, evenTree(n, 1, 0), Wish{}); p.Phases != n-1 {
			t.Errorf("%d phases for the %d servers of one leaf without lanes", p.Phases, n)
		}
	}
	rng := rand.New(rand.NewPCG(1, 359))
	for i := range share(1000, 60) {
		tree := fullTree(20, 18)
		if i%3 == 2 {
			K := 1 + rng.IntN(24)
			tree = evenTree(1+rng.IntN(K), 1+rng.IntN(24), K)
		}
		servers := 1 + rng.IntN(tree.Servers())
		job := allocate(tree, servers, rng)
		if p, _, _ := planOneLIDChecked(t, job, Wish{}); p.Phases != servers-1 {
			t.Errorf("%d phases for %d servers: %v of %d lanes", p.Phases, servers, job.Slots, job.Lanes)
		}
	}
}

// TestOneLIDDamagedJobs plans random sets of servers on trees with one and with nine
// dead cables.
func TestOneLIDDamagedJobs(t *testing.T) {
	for _, c := range []struct {
		dead        int
		mean, worst float64
	}{{1, 1.005, 1.03}, {9, 1.02, 1.06}} {
		rng := rand.New(rand.NewPCG(uint64(c.dead), 300))
		sum, worst, n := 0.0, 1.0, share(1000, 30)
		for i := range n {
			tree := randomFailures(fullTree(20, 18), c.dead, uint64(i))
			p, _, _ := planOneLIDChecked(t, allocate(tree, 2+rng.IntN(359), rng), Wish{})
			if over := float64(p.Phases) / float64(p.LeastPhases); p.LeastPhases > 0 {
				sum += over
				worst = max(worst, over)
			}
		}
		t.Logf("%d dead cables: %.4f times the bound on average, %.4f at worst", c.dead, sum/float64(n), worst)
		if sum/float64(n) > c.mean || worst > c.worst {
			t.Errorf("%d dead cables: %.4f times the bound on average, %.4f at worst; want %.4f and %.4f", c.dead, sum/float64(n), worst, c.mean, c.worst)
		}
	}
}

// TestOneLIDProperty plans random trees, with no wish, with one that may be followed
// and with one that must.
func TestOneLIDProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree, rng := drawServed(rt, 3)
		var w Wish
		switch rapid.IntRange(0, 3).Draw(rt, "wish") {
		case 1:
			w = ownLanes(tree)
		case 2:
			w = ownLanes(tree)
			w.Keep = true
		case 3: // any lanes, some of them dead, some left open
			for range len(tree.Slots) * tree.Servers() {
				w.Via = append(w.Via, Lane(rng.IntN(tree.Lanes+1)-1))
			}
			w.Keep = rapid.Bool().Draw(rt, "keep")
		}
		p, err := PlanOneLID(context.Background(), tree, w)
		if err != nil {
			rt.Fatal(err)
		}
		if err := checkGrouped(tree, p, 1); err != nil {
			rt.Fatalf("%v\n%v", err, tree)
		}
		if w.Keep {
			if moved, must := changed(tree, w, p); moved > must {
				rt.Fatalf("%d lanes moved, %d must: %v", moved, must, tree)
			}
		}
		for _, workers := range []int{1, 2, 4} {
			again, err := planOneLID(context.Background(), tree, w, workers)
			if err != nil {
				rt.Fatal(err)
			}
			if d := cmp.Diff(p, again); d != "" {
				rt.Fatalf("%d workers plan otherwise:\n%s", workers, d)
			}
		}
	})
}

// TestOneLIDStays checks that a plan on its own lanes moves none of them, and that
// plans of one wish differ little from failure to failure.
func TestOneLIDStays(t *testing.T) {
	tree := fullTree(20, 18)
	tree.cutCables(7, 10)
	w := ownLanes(tree)
	first, _, _ := planOneLIDChecked(t, tree, w)
	if again, moved, _ := planOneLIDChecked(t, tree, Wish{Via: first.Via}); moved != 0 || again.Phases != first.Phases {
		t.Errorf("the same tree once more: %d phases, %d lanes moved; want %d and none", again.Phases, moved, first.Phases)
	}
	tree.cutCables(3, 5)
	for _, w := range []Wish{w, {Via: first.Via}} {
		second, _, _ := planOneLIDChecked(t, tree, w)
		if moved, must := changed(tree, Wish{Via: first.Via}, second); second.Phases != 360 || moved > 2*must {
			t.Errorf("a second cable: %d phases, %d lanes moved of %d that must", second.Phases, moved, must)
		}
	}
}

func TestOneLIDErrors(t *testing.T) {
	tree := fullTree(3, 3)
	for _, w := range []Wish{{Via: make([]Lane, 26)}, {Via: slices.Repeat([]Lane{3}, 27)}, {Via: slices.Repeat([]Lane{-2}, 27)}} {
		if _, err := PlanOneLID(t.Context(), tree, w); err == nil {
			t.Errorf("a plan for the wish %v", w.Via)
		}
	}
	if _, err := PlanOneLID(t.Context(), &Tree{}, Wish{}); err == nil {
		t.Error("a plan for no server")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := PlanOneLID(ended, fullTree(20, 18), Wish{}); err == nil {
		t.Error("a plan when nobody wants one any more")
	}
}

func BenchmarkOneLID(b *testing.B) {
	for _, c := range []struct {
		name  string
		spoil func(t *Tree)
	}{
		{"0F", func(*Tree) {}},
		{"1F", func(t *Tree) { t.cutCables(7, 10) }},
		{"9F", demoCables},
		{"spine", func(t *Tree) { t.cutSpines(10) }},
		{"60F", func(t *Tree) { *t = *allocate(randomFailures(t, 60, 1), 323, rand.New(rand.NewPCG(0, 5))) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			tree := fullTree(20, 18)
			c.spoil(tree)
			w := ownLanes(tree)
			w.Keep = true
			b.ReportAllocs()
			for b.Loop() {
				if _, err := PlanOneLID(b.Context(), tree, w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLeastOneLID checks that no choice of lanes, one for all transfers from a leaf to a
// server, loads each link less than the bound by LIDs: it tries them.
func TestLeastOneLID(t *testing.T) {
	proved, draws := 0, share(100000, 1000)
	rng := rand.New(rand.NewPCG(1, 1))
	for range draws {
		tree := &Tree{Lanes: 1 + rng.IntN(4)}
		for range 2 + rng.IntN(3) {
			slots, up := make([]int, 1+rng.IntN(4)), make([]bool, tree.Lanes)
			for i := range slots {
				slots[i] = i
			}
			for k := range up {
				up[k] = rng.IntN(4) > 0
			}
			tree.Slots, tree.Up = append(tree.Slots, slots), append(tree.Up, up)
		}
		least, by, err := LeastOneLID(tree)
		if err != nil {
			t.Fatal(err)
		}
		if by != ByLID {
			continue
		}
		proved++
		x, err := newOneLID(tree, Wish{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		steps := 1 << 16 // some trees have too many choices for all
		if l := x.wished(least-1, x.size); l.fits(0, true, &steps) {
			t.Fatalf("lanes %v have at most %d transfers on a link; the bound is %d", l.via, l.fullest(), least)
		}
	}
	t.Logf("%d of %d bounds are by LIDs", proved, draws)
	if proved < draws/20 {
		t.Errorf("%d of %d bounds are by LIDs", proved, draws)
	}
}

// fits reports whether the traffic from unit i on finds lanes in some way, once all units
// have given theirs back. It gives up after a number of steps.
func (l *laning) fits(i int, anew bool, steps *int) bool {
	*steps--
	servers := len(l.leafOf)
	for unit, k := range l.via {
		if anew && k != Local {
			l.put(unit/servers, unit%servers, Local)
		}
	}
	if i == len(l.via) {
		return true
	}
	A, d := i/servers, i%servers
	B := int(l.leafOf[d])
	if A == B || !l.joined(A, B) {
		return l.fits(i+1, false, steps)
	}
	for k := range l.lanes {
		if *steps < 0 || !l.alive(A, B, k) || l.out[A*l.lanes+k]+l.mult[A] > l.slots || l.in[B*l.lanes+k]+l.mult[A] > l.slots {
			continue
		}
		l.put(A, d, Lane(k))
		if l.fits(i+1, false, steps) {
			return true
		}
		l.put(A, d, Local)
	}
	return false
}
