package pods

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// check walks a plan with nothing but the tree: every pair that has a way once, no server
// twice in a phase, no dead cable, no directed cable twice in a phase.
func check(t *Tree, p *Plan) error {
	n, lanes, planes := t.Servers(), t.Lanes(), t.Planes()
	home := make([]int, 0, n)
	for a := range t.Leaves {
		for range t.Leaves[a].Slots {
			home = append(home, a)
		}
	}
	planeOf := t.planeOf()
	seen := make([]bool, n*n)
	pairs := 0
	for _, u := range p.Unreachable {
		seen[int(u.Src)*n+int(u.Dst)] = true
		pairs++
	}
	to, way := make([]int32, n), make([]int16, n)
	used := map[[3]int]bool{}
	for ph := range p.Phases() {
		p.Row(ph, to, way, nil, nil)
		clear(used)
		take := func(kind, a, b int) error {
			k := [3]int{kind, a, b}
			if used[k] {
				return fmt.Errorf("phase %d: %v is used twice", ph, k)
			}
			used[k] = true
			return nil
		}
		for s, d := range to {
			if d == Idle {
				continue
			}
			if int(d) == s || seen[s*n+int(d)] {
				return fmt.Errorf("phase %d: pair %d %d again", ph, s, d)
			}
			seen[s*n+int(d)] = true
			pairs++
			if err := take(0, int(d), 0); err != nil {
				return err
			}
			a, b := home[s], home[d]
			if a == b {
				if way[s] != -1 {
					return fmt.Errorf("phase %d: %d to %d within a leaf by %d", ph, s, d, way[s])
				}
				continue
			}
			w := int(way[s])
			pa, pb := t.Leaves[a].Pod, t.Leaves[b].Pod
			if p.Engine == Shift {
				α := t.Leaves[b].Slots[int(d)-int(p.Base[b])]
				if w = lanes + α; pa != pb {
					l := 0
					for x := range b {
						if t.Leaves[x].Pod == pb {
							l++
						}
					}
					w = t.First[α] + l
				}
			}
			var j int
			if pa == pb {
				if j = w - lanes; j < 0 || j >= planes {
					return fmt.Errorf("phase %d: %d to %d within a pod by %d", ph, s, d, w)
				}
			} else {
				if w < 0 || w >= lanes || !t.laneUp(pa, w) || !t.laneUp(pb, w) {
					return fmt.Errorf("phase %d: %d to %d by lane %d, which is dead", ph, s, d, w)
				}
				j = int(planeOf[w])
				if err := take(1, pa, w); err != nil {
					return err
				}
				if err := take(2, pb, w); err != nil {
					return err
				}
			}
			if !t.Leaves[a].Up[j] || !t.Leaves[b].Up[j] {
				return fmt.Errorf("phase %d: %d to %d on plane %d, which is dead", ph, s, d, j)
			}
			if err := take(3, a, j); err != nil {
				return err
			}
			if err := take(4, b, j); err != nil {
				return err
			}
		}
	}
	if pairs != n*(n-1) {
		return fmt.Errorf("%d pairs of %d", pairs, n*(n-1))
	}
	return nil
}

// regular is a tree with p pods of L leaves with n servers, M planes, U lanes a plane.
func regular(p, L, M, U, n int) *Tree {
	t := &Tree{Pods: p}
	for j := range M + 1 {
		t.First = append(t.First, j*U)
	}
	t.Up = make([]bool, p*M*U)
	for i := range t.Up {
		t.Up[i] = true
	}
	for l := range p * L {
		leaf := Leaf{Pod: l / L, Up: make([]bool, M)}
		for j := range leaf.Up {
			leaf.Up[j] = true
		}
		for a := range n {
			leaf.Slots = append(leaf.Slots, a)
		}
		t.Leaves = append(t.Leaves, leaf)
	}
	return t
}

func kAry(k int) *Tree { return regular(k, k/2, k/2, k/2, k/2) }

// hurt kills cables at random: of leaves, of mids, whole mids, whole tops.
func hurt(t *Tree, rng *rand.Rand, leaf, top, mids, tops int) {
	for range leaf {
		t.Leaves[rng.IntN(len(t.Leaves))].Up[rng.IntN(t.Planes())] = false
	}
	for range top {
		t.Up[rng.IntN(len(t.Up))] = false
	}
	for range mids {
		p, j := rng.IntN(t.Pods), rng.IntN(t.Planes())
		for a := range t.Leaves {
			if t.Leaves[a].Pod == p {
				t.Leaves[a].Up[j] = false
			}
		}
		for k := t.First[j]; k < t.First[j+1]; k++ {
			t.Up[p*t.Lanes()+k] = false
		}
	}
	for range tops {
		k := rng.IntN(t.Lanes())
		for p := range t.Pods {
			t.Up[p*t.Lanes()+k] = false
		}
	}
}

// planned plans a tree and walks the plan.
func planned(t *testing.T, tree *Tree, group int) *Plan {
	t.Helper()
	p, err := Make(context.Background(), tree, group)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(tree, p); err != nil {
		t.Fatalf("%s: %v", p.Engine, err)
	}
	return p
}

// draws is how many random trees a test has: few, or with FORS_LONG=1 many.
func draws(few, many int) int {
	if os.Getenv("FORS_LONG") != "" {
		return many
	}
	return few
}

// TestOneKind holds that single senders reach the bound where cables or switches of one
// kind have failed, but for a phase where dead cables to tops meet the servers' bound.
func TestOneKind(t *testing.T) {
	for _, k := range []int{4, 6, 8} {
		for kind, name := range []string{"leaf cables", "cables to tops", "mids", "tops"} {
			rng := rand.New(rand.NewPCG(uint64(k), uint64(kind)))
			over := map[[2]int]int{} // by gap, and how far the bound is from the number of servers
			for range draws(4, 150) {
				tree, dead := kAry(k), 1+rng.IntN(2*k)
				switch kind {
				case 0:
					hurt(tree, rng, dead, 0, 0, 0)
				case 1:
					hurt(tree, rng, 0, dead, 0, 0)
				case 2:
					hurt(tree, rng, 0, 0, 1+rng.IntN(k/2), 0)
				case 3:
					hurt(tree, rng, 0, 0, 0, 1+rng.IntN(k/2))
				}
				p := planned(t, tree, Singles)
				most := 0
				if kind%2 == 1 && p.LowerBound < tree.Servers() {
					most = 1
				}
				if p.Gap() > most {
					t.Errorf("k=%d, %s, %d dead: %d phases, bound %d by %s", k, name, dead, p.Phases(), p.LowerBound, p.Certificate)
				}
				if p.Gap() > 0 {
					over[[2]int{p.Gap(), p.LowerBound - tree.Servers()}]++
				}
			}
			if len(over) > 0 {
				t.Logf("k=%d, %s: over the bound, by gap and bound less servers: %v", k, name, over)
			}
		}
	}
}

// TestPopulations holds that single senders reach the bound with any servers, undamaged
// or with damage at the leaves.
func TestPopulations(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range draws(20, 400) {
		tree := regular(2+rng.IntN(4), 1+rng.IntN(4), 1+rng.IntN(4), 4, 4)
		for a := range tree.Leaves {
			tree.Leaves[a].Slots = rng.Perm(4)[:1+rng.IntN(4)]
			slices.Sort(tree.Leaves[a].Slots)
		}
		if i%2 == 1 {
			hurt(tree, rng, 1+rng.IntN(3), 0, 0, 0)
		}
		if p := planned(t, tree, Singles); p.Gap() > 0 {
			t.Errorf("draw %d: %s, %d phases, bound %d by %s", i, p.Engine, p.Phases(), p.LowerBound, p.Certificate)
		}
		planned(t, tree, WholeLeaves)
	}
}

// TestBothKinds holds how far plans are from the bound where leaves and tops have lost
// cables.
func TestBothKinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	sum, n := 0.0, draws(6, 75)
	for range n {
		tree := kAry(8)
		hurt(tree, rng, 1+rng.IntN(16), 1+rng.IntN(16), 0, 0)
		p := planned(t, tree, Singles)
		sum += float64(p.Gap()) / float64(p.LowerBound)
	}
	t.Logf("k=8, single senders: %.2f %% over the bound on the mean of %d", 100*sum/float64(n), n)
	if sum/float64(n) > 0.03 {
		t.Errorf("k=8, single senders: %.2f %% over the bound on the mean of %d", 100*sum/float64(n), n)
	}
	for range draws(1, 30) {
		tree := kAry(16)
		hurt(tree, rng, rng.IntN(41), rng.IntN(41), rng.IntN(2), rng.IntN(2))
		p := planned(t, tree, WholeLeaves)
		if least := ceilDiv(p.LowerBound, p.Group) + 1; p.Blocks > least {
			t.Errorf("k=16, leaf groups: %d blocks, bound %d by %s", p.Blocks, p.LowerBound, p.Certificate)
		}
	}
}

// TestSmallPatterns plans patterns of up to three dead cables of small trees, with
// FORS_LONG=1 all of them: all are at the bound.
func TestSmallPatterns(t *testing.T) {
	for _, c := range []struct {
		name string
		tree func() *Tree
		step int
	}{
		{"2 of everything", func() *Tree { return regular(2, 2, 2, 2, 2) }, draws(7, 1)},
		{"k=4", func() *Tree { return kAry(4) }, draws(97, 1)},
	} {
		whole := c.tree()
		planes, leafCables := whole.Planes(), len(whole.Leaves)*whole.Planes()
		n, at, total := leafCables+len(whole.Up), 0, 0
		for x := range n * n * n {
			a, b, d := x/n/n, x/n%n, x%n
			if a > b || b > d || a == b && b != d {
				continue
			}
			if at++; at%c.step != 0 {
				continue
			}
			tree := c.tree()
			for _, i := range []int{a, b, d} {
				if i < leafCables {
					tree.Leaves[i/planes].Up[i%planes] = false
				} else {
					tree.Up[i-leafCables] = false
				}
			}
			total++
			if p := planned(t, tree, Singles); p.Gap() > 0 {
				t.Errorf("%s, dead %d %d %d: %d phases, bound %d by %s", c.name, a, b, d, p.Phases(), p.LowerBound, p.Certificate)
			}
		}
		t.Logf("%s: %d patterns", c.name, total)
	}
}

// TestShapes plans trees that are not k-ary, with and without damage, for groups of
// several sizes.
func TestShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range draws(25, 500) {
		L, M, U, n := 1+rng.IntN(4), 1+rng.IntN(4), 1+rng.IntN(4), 1+rng.IntN(5)
		tree := regular(2+rng.IntN(3), L, M, U, n)
		for a := range tree.Leaves {
			if rng.IntN(4) == 0 {
				tree.Leaves[a].Slots = tree.Leaves[a].Slots[:1+rng.IntN(n)]
			}
		}
		hurt(tree, rng, rng.IntN(3), rng.IntN(3), rng.IntN(2), rng.IntN(2))
		for _, group := range []int{Singles, 2, WholeLeaves} {
			p := planned(t, tree, group)
			if p.Gap() < 0 {
				t.Errorf("draw %d: %d phases are fewer than the bound %d by %s", i, p.Phases(), p.LowerBound, p.Certificate)
			}
		}
	}
}

// TestHealthy holds that undamaged trees are planned by the shift, which is a rule.
func TestHealthy(t *testing.T) {
	for _, k := range []int{4, 8, 16} {
		for _, group := range []int{Singles, WholeLeaves} {
			if p := planned(t, kAry(k), group); p.Engine != Shift || p.Gap() != 0 || p.To != nil {
				t.Errorf("k=%d: engine %s, gap %d", k, p.Engine, p.Gap())
			}
		}
	}
}

// TestWorkers holds that the number of goroutines does not change a plan.
func TestWorkers(t *testing.T) {
	for _, group := range []int{Singles, WholeLeaves} {
		tree := kAry(8)
		hurt(tree, rand.New(rand.NewPCG(1, 2)), 3, 3, 0, 0)
		var first *Plan
		for _, workers := range []int{1, 2, 4} {
			p, err := makePlan(context.Background(), tree, group, workers, true)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = p
			}
			if !slices.Equal(p.To, first.To) || !slices.Equal(p.Way, first.Way) {
				t.Errorf("groups of %d: %d workers make another plan", group, workers)
			}
		}
	}
}

// TestEnds holds that planning ends soon after its context.
func TestEnds(t *testing.T) {
	tree := kAry(8)
	hurt(tree, rand.New(rand.NewPCG(1, 2)), 3, 3, 0, 0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, group := range []int{Singles, WholeLeaves} {
		if _, err := Make(ctx, tree, group); err == nil {
			t.Errorf("groups of %d: a plan although the context has ended", group)
		}
	}
}

// TestTrim drops blocks at the end in which nothing is sent, or servers send to themselves.
func TestTrim(t *testing.T) {
	for _, c := range []struct {
		group, blocks, want int
		base                []int32
		to                  []int32
	}{
		{1, 3, 1, []int32{0, 1, 2}, []int32{1, 0, Idle, Idle, 0, 1}},
		{1, 2, 2, []int32{0, 1, 2}, []int32{Idle, Idle, Idle, 0}},
		{1, 1, 0, []int32{0, 1, 2}, []int32{0, 1}},
		{2, 1, 1, []int32{0, 2, 3}, []int32{0, 1, 2, Idle}},
		{2, 2, 1, []int32{0, 2, 3}, []int32{2, Idle, 0, 1, Idle, Idle, 2, Idle}},
		{2, 0, 0, []int32{0, 2, 3}, nil},
	} {
		p := &Plan{Group: c.group, Blocks: c.blocks, Base: c.base, To: c.to, Way: make([]int16, len(c.to))}
		for a := range c.base {
			p.First = append(p.First, int32(a*c.group))
		}
		if p.Trim(); p.Blocks != c.want || len(p.To)*c.blocks != len(c.to)*c.want || len(p.Way) != len(p.To) {
			t.Errorf("%v: %d blocks of %d and %d slots, want %d", c.to, p.Blocks, len(p.To), len(p.Way), c.want)
		}
	}
}
