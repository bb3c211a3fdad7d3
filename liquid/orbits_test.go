package liquid

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// torus is the exchange of all hosts of a torus with dimension-order routes: along the first
// dimension first, the shorter way. Halfway around they go upwards or, with parity, downwards
// from every other switch of the ring. Hosts are numbered switch by switch.
func torus(t rapid.TB, sides []int, hosts int, parity bool) *Traffic {
	t.Helper()
	switches := 1
	for _, side := range sides {
		switches *= side
	}
	n := switches * hosts
	var pairs []Pair
	var paths [][]Link
	for s := range n {
		for d := range n {
			if s == d {
				continue
			}
			path := []Link{Link(s), Link(n + d)}
			at, below := s/hosts, 1
			for dim, side := range sides {
				from := at / below % side
				hops, step, way := (d/hosts/below%side-from+side)%side, 1, 0
				if 2*hops > side || 2*hops == side && parity && from%2 == 1 {
					hops, step, way = side-hops, side-1, 1
				}
				for range hops {
					path = append(path, Link(2*n+2*(len(sides)*at+dim)+way))
					at += ((at/below+step)%side - at/below%side) * below
				}
				below *= side
			}
			pairs, paths = append(pairs, Pair{int32(s), int32(d)}), append(paths, path)
		}
	}
	x, err := NewTraffic(2*n+2*len(sides)*switches, pairs, paths)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestTorus schedules tori by their symmetry within a number of nodes and moves, so that the
// result does not depend on time: liquid, or few steps more.
func TestTorus(t *testing.T) {
	for _, c := range []struct {
		sides       []int
		hosts       int
		parity      bool
		nodes       int64
		orbits, gap int
	}{
		{[]int{6, 6}, 2, false, 1 << 20, 852, 0},
		{[]int{8, 8}, 4, false, 1 << 20, 8160, 0},
		{[]int{8, 8}, 4, true, 1 << 21, 16320, 0},
		{[]int{8, 8}, 2, true, 1 << 17, 0, 4},
		{[]int{8, 8}, 1, true, 1 << 20, 252, 0},
		{[]int{4, 4, 4}, 2, true, 1 << 18, 254, 0},
	} {
		if large(c.sides, c.hosts) && c.parity {
			continue
		}
		traffic := torus(t, c.sides, c.hosts, c.parity)
		r, err := Make(t.Context(), traffic, Options{Nodes: c.nodes, Moves: 2000})
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(traffic, r.Schedule); err != nil {
			t.Fatal(err)
		}
		t.Logf("%v, %d hosts each, parity %v: %d transfers, Λ = %d, %d steps by %s, orbits %d, %d nodes, %d moves", c.sides, c.hosts, c.parity,
			traffic.Len(), traffic.Duration(), len(r.Schedule), r.Method, r.Orbits, r.Nodes, r.Moves)
		if gap := len(r.Schedule) - traffic.Duration(); gap > c.gap || r.Orbits != c.orbits {
			t.Errorf("%v, %d hosts each, parity %v: %d steps over Λ by %d orbits, want %d by %d", c.sides, c.hosts, c.parity, gap, r.Orbits, c.gap, c.orbits)
		}
	}
}

// shuffled renumbers the nodes, links and transfers of a traffic.
func shuffled(t *testing.T, x *Traffic, seed uint64) *Traffic {
	t.Helper()
	rng := rand.New(rand.NewPCG(38, seed))
	nodes, links := rng.Perm(x.Len()+1), rng.Perm(x.Links()) // of more nodes than there are
	var pairs []Pair
	var paths [][]Link
	for _, from := range rng.Perm(x.Len()) {
		p := x.Pair(Transfer(from))
		var path []Link
		for _, l := range x.Path(Transfer(from)) {
			path = append(path, Link(links[l]))
		}
		pairs, paths = append(pairs, Pair{int32(nodes[p.Src]), int32(nodes[p.Dst])}), append(paths, path)
	}
	out, err := NewTraffic(x.Links(), pairs, paths)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// large reports whether a torus has 256 hosts, and FORS_LONG is not set.
func large(sides []int, hosts int) bool {
	return sides[0] == 8 && hosts == 4 && os.Getenv("FORS_LONG") == ""
}

// TestShuffled schedules tori with randomly numbered hosts in as few steps as others.
func TestShuffled(t *testing.T) {
	for seed, c := range []struct {
		sides  []int
		hosts  int
		parity bool
		gap    int
	}{{[]int{6, 6}, 2, false, 0}, {[]int{8, 8}, 4, false, 0}, {[]int{5, 7}, 2, false, 1}, {[]int{4, 4, 4}, 2, true, 0}, {[]int{3, 3, 3}, 1, false, 0}} {
		if large(c.sides, c.hosts) {
			continue
		}
		traffic := shuffled(t, torus(t, c.sides, c.hosts, c.parity), uint64(seed))
		r, err := Make(t.Context(), traffic, Options{Nodes: 1 << 20, Moves: 2000})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v, %d hosts each, parity %v: Λ = %d, %d steps by %s, orbits %d, %d nodes, %d moves", c.sides, c.hosts, c.parity, traffic.Duration(), len(r.Schedule), r.Method, r.Orbits, r.Nodes, r.Moves)
		if gap := len(r.Schedule) - traffic.Duration(); gap > c.gap {
			t.Errorf("%v, %d hosts each, parity %v: %d steps over Λ, want %d", c.sides, c.hosts, c.parity, gap, c.gap)
		}
	}
}

// TestAuto checks that no single method has a shorter schedule than auto.
func TestAuto(t *testing.T) {
	rng := rand.New(rand.NewPCG(38, 6))
	for range 1000 {
		links := 3 + rng.IntN(20)
		var paths [][]Link
		for range 4 + rng.IntN(60) {
			var path []Link
			for _, l := range rng.Perm(links)[:1+rng.IntN(min(4, links))] {
				path = append(path, Link(l))
			}
			paths = append(paths, path)
		}
		traffic, o := makeTraffic(t, links, paths), Options{Nodes: 2000, Moves: 200}
		auto, err := Make(t.Context(), traffic, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, o.Method = range Methods {
			r, err := Make(t.Context(), traffic, o)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Schedule) < len(auto.Schedule) {
				t.Errorf("%d links, %d transfers: %d steps by %s, and %d by all methods", links, traffic.Len(), len(r.Schedule), o.Method, len(auto.Schedule))
			}
		}
	}
}

// TestOrbits checks that no two transfers of an orbit share a link, nor do those of two
// orbits that share none in the quotient, and that traffics without symmetry have no orbits.
func TestOrbits(t *testing.T) {
	var traffic *Traffic
	for _, parity := range []bool{true, false} {
		traffic = torus(t, []int{8, 8}, 1, parity)
		var lengths []int
		for o := range traffic.orbits(t.Context()) {
			checkOrbits(t, traffic, o)
			lengths = append(lengths, len(o.members[0]))
		}
		slices.Sort(lengths)
		want := []int{8, 16} // a shift, more shifts
		if parity {
			want = []int{4, 8, 16, 32} // half a turn, and a side of its own turned
		}
		if lengths = slices.Compact(lengths); !slices.Equal(lengths, want) {
			t.Errorf("parity %v: orbits of %v transfers, want %v", parity, lengths, want)
		}
	}
	pairs, paths := traffic.pairs[1:], [][]Link(nil)
	for x := 1; x < traffic.Len(); x++ {
		paths = append(paths, traffic.Path(Transfer(x)))
	}
	less, err := NewTraffic(traffic.Links(), pairs, paths)
	if err != nil {
		t.Fatal(err)
	}
	for range less.orbits(t.Context()) {
		t.Error("a symmetry without one of the transfers")
	}
}

// TestTorusCutOff checks that a search that is stopped at any point is completed to a
// schedule.
func TestTorusCutOff(t *testing.T) {
	completed := 0
	rapid.Check(t, func(t *rapid.T) {
		traffic := torus(t, rapid.SliceOfN(rapid.IntRange(1, 4), 1, 3).Draw(t, "sides"), rapid.IntRange(1, 2).Draw(t, "hosts"), rapid.Bool().Draw(t, "parity"))
		m := &maker{t: traffic, o: Options{Moves: 320}, r: &Result{Bound: traffic.Duration()}}
		m.search(context.Background(), newSearcher(traffic, 0), rapid.Int64Range(1, 2000).Draw(t, "nodes"))
		if len(m.begun) == 0 {
			return
		}
		completed++
		m.complete(context.Background())
		if err := Verify(traffic, m.r.Schedule); err != nil {
			t.Fatal(err)
		}
	})
	if completed == 0 {
		t.Error("no search was cut off")
	}
	t.Logf("%d completed", completed)
}

func checkOrbits(t *testing.T, traffic *Traffic, o *orbits) {
	t.Helper()
	members := 0
	for a := range o.members {
		members += len(o.members[a])
		for b := range a + 1 {
			if a != b && naivelyCongest(o.quotient, Transfer(a), Transfer(b)) {
				continue
			}
			for _, x := range o.members[a] {
				for _, y := range o.members[b] {
					if x != y && naivelyCongest(traffic, x, y) {
						t.Fatalf("transfers %d and %d of orbits %d and %d share a link", x, y, a, b)
					}
				}
			}
		}
	}
	if members != traffic.Len() || o.quotient.Duration() != traffic.Duration() {
		t.Errorf("%d members, Λ = %d: want %d and %d", members, o.quotient.Duration(), traffic.Len(), traffic.Duration())
	}
}

// TestOptimal compares claims of optimality with trying all colourings: they are true, and
// made for almost all small traffics.
func TestOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	claimed, above := 0, 0
	const runs = 200
	for range runs {
		links := 3 + rng.IntN(5)
		var paths [][]Link
		for range 4 + rng.IntN(12) {
			var path []Link
			for _, l := range rng.Perm(links)[:1+rng.IntN(min(3, links))] {
				path = append(path, Link(l))
			}
			paths = append(paths, path)
		}
		traffic := makeTraffic(t, links, paths)
		r, err := Make(context.Background(), traffic, Options{Moves: 200})
		if err != nil {
			t.Fatal(err)
		}
		least := traffic.Duration()
		for !colourable(traffic, least) {
			least++
		}
		if least > traffic.Duration()+1 {
			above++
		}
		if r.Optimal() {
			claimed++
			if len(r.Schedule) != least || r.Bound > least {
				t.Errorf("%d steps are said to be the fewest, and none below %d: %d are", len(r.Schedule), r.Bound, least)
			}
		}
	}
	t.Logf("%d of %d claimed, %d need more than Λ+1 steps", claimed, runs, above)
	if claimed < runs {
		t.Errorf("optimality is claimed of %d of %d small traffics", claimed, runs)
	}
}
