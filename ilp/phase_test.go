package ilp

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/fors"
)

// A colouring takes every edge as long as no leaf has more than there are
// colours, and none beyond.
func TestColouring(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leaves := rapid.IntRange(1, 6).Draw(t, "leaves")
		lanes := make([]fors.Lane, rapid.IntRange(1, 6).Draw(t, "lanes"))
		for i := range lanes {
			lanes[i] = fors.Lane(10 + 3*i)
		}
		c := newColouring(leaves, lanes)
		type edge struct{ from, to int }
		var edges []edge
		out, in := make([]int, leaves), make([]int, leaves)
		ends := rapid.SliceOfN(rapid.IntRange(0, leaves*leaves-1), 0, 40).Draw(t, "edges")
		for _, e := range ends {
			from, to := e/leaves, e%leaves
			fits := max(out[from], in[to]) < len(lanes)
			if got := c.add(from, to); got != fits {
				t.Fatalf("edge %d→%d with %d out and %d in of %d: added %t", from, to, out[from], in[to], len(lanes), got)
			}
			if fits {
				edges, out[from], in[to] = append(edges, edge{from, to}), out[from]+1, in[to]+1
			}
		}
		for i, e := range edges {
			if !slices.Contains(lanes, c.lane(i)) {
				t.Fatalf("edge %d has lane %d of %v", i, c.lane(i), lanes)
			}
			for j, other := range edges[:i] {
				if (e.from == other.from || e.to == other.to) && c.lane(i) == c.lane(j) {
					t.Fatalf("edges %v and %v share lane %d", e, other, c.lane(i))
				}
			}
		}
	})
}

// The assignment is as heavy as the heaviest permutation.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "size")
		weight := make([][]float64, n)
		for i := range weight {
			for range n {
				weight[i] = append(weight[i], float64(rapid.IntRange(0, 9).Draw(t, "weight")))
			}
		}
		total, seen := 0.0, make([]bool, n)
		for i, j := range assign(weight) {
			if seen[j] {
				t.Fatalf("column %d twice", j)
			}
			seen[j] = true
			total += weight[i][j]
		}
		if best := heaviest(weight, 0, make([]bool, n)); total != best {
			t.Fatalf("weight %v, the best is %v: %v", total, best, weight)
		}
	})
}

// heaviest tries all permutations of the rows from the i-th on.
func heaviest(weight [][]float64, i int, used []bool) float64 {
	best := 0.0
	for j := range used {
		if i < len(weight) && !used[j] {
			used[j] = true
			best = max(best, weight[i][j]+heaviest(weight, i+1, used))
			used[j] = false
		}
	}
	return best
}

// The lanes of a class are those that lie in the same sets, each lane in one
// class unless it lies in no set.
func TestRefine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.IntRange(1, 70).Draw(t, "lanes")
		sets := make([]fors.LaneSet, rapid.IntRange(0, 4).Draw(t, "sets"))
		for i := range sets {
			sets[i] = fors.NewLaneSet(lanes)
			for _, k := range rapid.SliceOfN(rapid.IntRange(0, lanes-1), 0, lanes).Draw(t, "set") {
				sets[i].Add(k)
			}
		}
		class := make([]int, lanes)
		for c, members := range refine(lanes, sets) {
			for _, k := range members {
				if class[k] != 0 {
					t.Fatalf("lane %d is in two classes", k)
				}
				class[k] = c + 1
			}
		}
		signature := func(k int) (s string) {
			for _, set := range sets {
				s += map[bool]string{false: "0", true: "1"}[set.Has(k)]
			}
			return s
		}
		for k := range lanes {
			if in := strings.Contains(signature(k), "1"); in != (class[k] > 0) {
				t.Fatalf("lane %d of sets %q has class %d", k, signature(k), class[k])
			}
			for l := range k {
				if (signature(k) == signature(l)) != (class[k] == class[l]) {
					t.Fatalf("lanes %d and %d of sets %q and %q have classes %d and %d", k, l, signature(k), signature(l), class[k], class[l])
				}
			}
		}
	})
}

// With three dead links at three leaves, 20 lanes form 4 classes, and the model has an
// eighth of the paper's 6120 variables per phase.
func TestModelIsSmall(t *testing.T) {
	tree := cut(ft(20, 18, 20), 3, 0, 5, 11)
	sc, err := newSchedule(context.Background(), tree, fors.ComputeBounds(tree).Reduction)
	if err != nil {
		t.Fatal(err)
	}
	w := newNetwork(tree)
	for p, pairs := range sc.remote {
		ph, err := w.newPhase(pairs)
		if err != nil {
			t.Fatal(err)
		}
		ph.classify()
		if m := ph.model(); len(ph.classes) != 4 || len(m.upper) > 816 {
			t.Fatalf("phase %d: %d classes, %d columns for %d transfers", p, len(ph.classes), len(m.upper), len(pairs))
		}
	}
}

// Matchings with any weights give valid routings, and with up to 40 dead links they
// route the whole schedule.
func TestSettle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, dead := range []int{0, 1, 9, 40, 120} {
		tree := cutRandom(ft(20, 18, 20), dead, rng)
		sc, err := newSchedule(context.Background(), tree, fors.ComputeBounds(tree).Reduction)
		if err != nil {
			t.Fatal(err)
		}
		settled, w := 0, newNetwork(tree)
		for p, pairs := range sc.remote {
			ph, err := w.newPhase(pairs)
			if err != nil {
				t.Fatal(err)
			}
			ph.classify()
			plain, _, ok := ph.matchLanes(context.Background(), ph.lanes, nil)
			if !ok && dead <= 40 {
				t.Fatalf("%d dead, phase %d is not settled", dead, p)
			}
			varied, _, again := ph.matchLanes(context.Background(), ph.lanes, rng)
			if ok {
				lanes := ph.name(plain.byGroup)
				err = checkRoute(tree, pairs, lanes)
				_, row := sc.plan.Row(fors.Phase(p))
				for i, pair := range pairs {
					row[pair.Src] = lanes[i]
				}
			}
			if again {
				settled++
				err = errors.Join(err, checkRoute(tree, pairs, ph.name(varied.byGroup)))
			}
			if err != nil {
				t.Fatalf("%d dead, phase %d: %v", dead, p, err)
			}
		}
		if dead <= 40 {
			mustCheck(t, tree, sc.plan)
		}
		if settled == 0 {
			t.Errorf("%d dead: varied weights settle nothing", dead)
		}
	}
}

// Blocked states the transfers that are too many for their lanes.
func TestHall(t *testing.T) {
	// Leaf 0 has lane 0 for leaf 1, and lanes 0 and 1 for leaf 2.
	tree := masks(2, 3, 3, 5, 3)
	w := newNetwork(tree)
	for _, c := range []struct {
		name  string
		pairs []fors.Pair
		want  Blocked
		found bool
	}{
		{"enough", []fors.Pair{{Src: 0, Dst: 2}, {Src: 1, Dst: 4}}, Blocked{}, false},
		{"one lane for two", []fors.Pair{{Src: 0, Dst: 2}, {Src: 1, Dst: 3}}, Blocked{Leaf: 0, Transfers: 2, Lanes: 1}, true},
		{"received", []fors.Pair{{Src: 0, Dst: 2}, {Src: 4, Dst: 3}}, Blocked{Leaf: 1, Receives: true, Transfers: 2, Lanes: 1}, true},
	} {
		ph, err := w.newPhase(c.pairs)
		if err != nil {
			t.Fatal(err)
		}
		if got, found := ph.hall(); got != c.want || found != c.found {
			t.Errorf("%s: %v %t, want %v %t", c.name, got, found, c.want, c.found)
		}
	}
}

func TestPhasesThatAreNone(t *testing.T) {
	w := newNetwork(ft(2, 2, 2))
	for _, c := range []struct {
		pair fors.Pair
		want string
	}{
		{fors.Pair{Src: 0, Dst: 1}, "transfer 0 from server 0 to server 1: both are on leaf 0, and such a transfer takes no lane"},
		{fors.Pair{Src: 0, Dst: 4}, "transfer 0 from server 0 to server 4: the tree has 4 servers"},
		{fors.Pair{Src: fors.Idle, Dst: 1}, "transfer 0 from server -1 to server 1: the tree has 4 servers"},
	} {
		if _, err := w.newPhase([]fors.Pair{c.pair}); err == nil || err.Error() != c.want {
			t.Errorf("%v: %v", c.pair, err)
		}
	}
}
