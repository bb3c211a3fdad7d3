package liquid

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crillab/gophersat/solver"
	"pgregory.net/rapid"
)

// satisfiable decides by a SAT solver whether the traffic has a schedule of k
// steps: a variable for every transfer and step; each transfer has a step, and no
// two that share a link have the same.
func satisfiable(t *Traffic, k int) bool {
	var clauses [][]int
	at := func(x Transfer, step int) int { return int(x)*k + step + 1 }
	for step, x := range naiveUsers(t, t.Bottlenecks()[0])[:min(k, t.Duration())] {
		clauses = append(clauses, []int{at(x, step)}) // steps have no order
	}
	for x := range t.Len() {
		var one []int
		for step := range k {
			one = append(one, at(Transfer(x), step))
		}
		clauses = append(clauses, one)
		for y := range x {
			if !naivelyCongest(t, Transfer(x), Transfer(y)) {
				continue
			}
			for step := range k {
				clauses = append(clauses, []int{-at(Transfer(x), step), -at(Transfer(y), step)})
			}
		}
	}
	return solver.New(solver.ParseSlice(clauses)).Solve() == solver.Sat
}

// colourable decides the same by trying all steps for each transfer in turn.
func colourable(t *Traffic, k int) bool {
	step := make([]int, t.Len())
	var try func(x, used int) bool
	try = func(x, used int) bool {
		if x == t.Len() {
			return true
		}
		for s := range min(k, used+1) {
			fits := true
			for y := range x {
				fits = fits && (step[y] != s || !naivelyCongest(t, Transfer(x), Transfer(y)))
			}
			if step[x] = s; fits && try(x+1, max(used, s+1)) {
				return true
			}
		}
		return false
	}
	return try(0, 0)
}

// graphTraffic is the traffic whose links are the vertices of a graph and whose
// transfers are its edges: a schedule is an edge colouring.
func graphTraffic(t *testing.T, vertices int, edges [][2]Link) *Traffic {
	var paths [][]Link
	for _, e := range edges {
		paths = append(paths, e[:])
	}
	return makeTraffic(t, vertices, paths)
}

// ring is the exchange on a one-way ring of n switches with a node each, in which
// every node sends by the given number of hops ahead. Links 0 … n−1 are the
// ring's.
func ring(t *testing.T, n, ahead int) *Traffic {
	var paths [][]Link
	for src := range n {
		path := []Link{Link(n + src), Link(2*n + (src+ahead)%n)}
		for h := range ahead {
			path = append(path, Link((src+h)%n))
		}
		paths = append(paths, path)
	}
	return makeTraffic(t, 3*n, paths)
}

// noLiquid lists traffics without a liquid schedule, with the fewest steps of any
// schedule.
func noLiquid(t *testing.T) map[string]struct {
	traffic *Traffic
	steps   int
} {
	var k5 [][2]Link
	for a := range Link(5) {
		for b := range a {
			k5 = append(k5, [2]Link{a, b})
		}
	}
	petersen := [][2]Link{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 0}, {0, 5}, {1, 6}, {2, 7}, {3, 8}, {4, 9}, {5, 7}, {7, 9}, {9, 6}, {6, 8}, {8, 5}}
	return map[string]struct {
		traffic *Traffic
		steps   int
	}{
		// Three transfers, any two of which share a link, while no link has all three.
		"triangle": {graphTraffic(t, 3, [][2]Link{{0, 1}, {1, 2}, {2, 0}}), 3},
		// Two hops ahead on a one-way ring of five: Λ = 2, but only two of the five
		// fit into a step.
		"ring of five": {ring(t, 5, 2), 3},
		// Three hops ahead on a ring of seven: Λ = 3, two of seven fit into a step.
		"ring of seven": {ring(t, 7, 3), 4},
		// All links of K5 are bottlenecks, and a step uses an even number of them.
		"K5": {graphTraffic(t, 5, k5), 5},
		// The Petersen graph has six perfect matchings, but no three that are disjoint.
		"Petersen": {graphTraffic(t, 10, petersen), 4},
	}
}

// TestNoLiquidSchedule lets the search prove by exhaustion that there is none, and
// compares with a SAT solver and with trying all colourings.
func TestNoLiquidSchedule(t *testing.T) {
	for name, c := range noLiquid(t) {
		k := c.traffic.Duration()
		if satisfiable(c.traffic, k) || colourable(c.traffic, k) {
			t.Fatalf("%s has a liquid schedule after all", name)
		}
		if !satisfiable(c.traffic, c.steps) || satisfiable(c.traffic, c.steps-1) {
			t.Fatalf("%s does not need %d steps", name, c.steps)
		}
		r, err := Make(context.Background(), c.traffic, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !r.NoLiquid || r.Liquid || r.Bound != k+1 {
			t.Errorf("%s: no liquid schedule: %v, bound %d; want a proof, and %d", name, r.NoLiquid, r.Bound, k+1)
		}
		if len(r.Schedule) != c.steps || r.Optimal() != (c.steps == k+1) {
			t.Errorf("%s: %d steps, optimal: %v; want %d", name, len(r.Schedule), r.Optimal(), c.steps)
		}
	}
}

// TestSearchAgreesWithSAT compares the verdicts on random traffics.
func TestSearchAgreesWithSAT(t *testing.T) {
	liquid, without := 0, 0
	rng := rand.New(rand.NewPCG(8, 1))
	for range 5000 {
		links := 3 + rng.IntN(7)
		var paths [][]Link
		for range 2 + rng.IntN(13) {
			var path []Link
			for _, l := range rng.Perm(links)[:1+rng.IntN(min(3, links))] {
				path = append(path, Link(l))
			}
			paths = append(paths, path)
		}
		traffic := makeTraffic(t, links, paths)
		s := newSearcher(traffic, 1)
		verdict := s.run(context.Background(), unlimited)
		want := satisfiable(traffic, traffic.Duration())
		if verdict != none && verdict != found || (verdict == found) != want {
			t.Fatalf("paths %v: verdict %d, and by SAT there is a liquid schedule: %v", paths, verdict, want)
		}
		if !want {
			without++
			continue
		}
		liquid++
		if err := VerifyLiquid(traffic, s.schedule()); err != nil {
			t.Fatalf("paths %v: %v", paths, err)
		}
	}
	t.Logf("%d traffics have a liquid schedule, %d have none", liquid, without)
	if liquid < 100 || without < 100 {
		t.Errorf("too one-sided: %d with and %d without", liquid, without)
	}
}

// TestSearchEnds stops a search by its nodes and by its context.
func TestSearchEnds(t *testing.T) {
	traffic := fig1(t)
	s := newSearcher(traffic, 1)
	if v := s.run(context.Background(), 3); v != undecided {
		t.Errorf("after 3 nodes: verdict %d", v)
	}
	if v := s.run(context.Background(), 1000); v != found {
		t.Errorf("after going on: verdict %d", v)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for _, method := range Methods {
		r, err := Make(ctx, traffic, Options{Method: method})
		if err != nil || r.Method != MethodFirstFit {
			t.Errorf("%s out of time: %v by %v, want a schedule by first-fit", method, err, r)
		}
	}
}

// TestMakeInTime stops every method at some point: the result is a schedule, and that
// of auto is no longer than the first fit's.
func TestMakeInTime(t *testing.T) {
	n := testBed(t)
	traffic := exchange(t, n, n.Capacity())
	first, err := firstFit(t.Context(), traffic)
	if err != nil {
		t.Fatal(err)
	}
	fit := len(first)
	for within := time.Microsecond; within < 20*time.Millisecond; within = within * 3 / 2 {
		for _, method := range Methods {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			r, err := Make(ctx, traffic, Options{Method: method})
			cancel()
			if err != nil {
				t.Fatalf("%s within %v: %v", method, within, err)
			}
			if err := Verify(traffic, r.Schedule); err != nil {
				t.Errorf("%s within %v: %v", method, within, err)
			}
			if method == MethodAuto && len(r.Schedule) > fit {
				t.Errorf("%s within %v: %d steps by %s, and the first fit has %d", method, within, len(r.Schedule), r.Method, fit)
			}
		}
	}
}

// TestEveryMethod schedules random traffics by every method.
func TestEveryMethod(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		traffic := randomTraffic(rt, 40)
		best := 0
		for _, method := range Methods {
			r, err := Make(context.Background(), traffic, Options{Method: method, Nodes: 20000, Moves: 2000})
			if err != nil {
				rt.Fatal(err)
			}
			if err := Verify(traffic, r.Schedule); err != nil {
				rt.Errorf("%s: %v", method, err)
			}
			if method == MethodAuto {
				best = len(r.Schedule)
			} else if len(r.Schedule) < best {
				rt.Errorf("%s needs %d steps, and auto %d", method, len(r.Schedule), best)
			}
			if r.Liquid && r.NoLiquid || r.Liquid != (len(r.Schedule) == traffic.Duration()) {
				rt.Errorf("%s: %d steps, Λ = %d, liquid: %v, none: %v", method, len(r.Schedule), traffic.Duration(), r.Liquid, r.NoLiquid)
			}
			again, err := Make(context.Background(), traffic, Options{Method: method, Nodes: 20000, Moves: 2000})
			if err != nil || !equalSchedules(r.Schedule, again.Schedule) {
				rt.Errorf("%s makes another schedule the second time (%v)", method, err)
			}
		}
	})
}

func equalSchedules(a, b Schedule) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if len(a[i]) != len(b[i]) {
			return false
		}
		for j := range a[i] {
			if a[i][j] != b[i][j] {
				return false
			}
		}
	}
	return true
}

func TestMakeRefuses(t *testing.T) {
	if _, err := Make(context.Background(), fig1(t), Options{Method: "magic"}); err == nil {
		t.Error("an unknown method was taken")
	}
}
