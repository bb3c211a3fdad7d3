package liquid

import (
	"context"
	"math/rand/v2"
	"testing"
)

// torus is the exchange of all hosts of a torus with dimension-order routes: along a row
// first, the shorter way, in doubt upwards. Hosts are numbered switch by switch.
func torus(t testing.TB, rows, columns, hosts int) *Traffic {
	t.Helper()
	switches := rows * columns
	n := switches * hosts
	link := func(i, j, way int) Link { return Link(2*n + 4*(i*columns+j) + way) }
	way := func(from, to, side int) (step, direction, hops int) {
		if up := (to - from + side) % side; up <= side/2 {
			return 1, 0, up
		}
		return side - 1, 1, (from - to + side) % side
	}
	var pairs []Pair
	var paths [][]Link
	for s := range n {
		for d := range n {
			if s == d {
				continue
			}
			i, j := s/hosts/columns, s/hosts%columns
			path := []Link{Link(s), Link(n + d)}
			step, direction, hops := way(j, d/hosts%columns, columns)
			for range hops {
				path = append(path, link(i, j, direction))
				j = (j + step) % columns
			}
			step, direction, hops = way(i, d/hosts/columns, rows)
			for range hops {
				path = append(path, link(i, j, 2+direction))
				i = (i + step) % rows
			}
			pairs, paths = append(pairs, Pair{int32(s), int32(d)}), append(paths, path)
		}
	}
	x, err := NewTraffic(2*n+4*switches, pairs, paths)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestTorus schedules tori by their symmetry, within a number of nodes and moves, so that
// no clock decides: all liquid.
func TestTorus(t *testing.T) {
	for _, c := range []struct{ rows, columns, hosts, orbits int }{{6, 6, 2, 852}, {8, 8, 4, 8160}} {
		traffic := torus(t, c.rows, c.columns, c.hosts)
		r, err := Make(t.Context(), traffic, Options{Nodes: 1 << 20, Moves: 2000})
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(traffic, r.Schedule); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d×%d, %d hosts each: %d transfers, Λ = %d, %d steps by %s, orbits %d, %d nodes, %d moves", c.rows, c.columns, c.hosts, traffic.Len(), traffic.Duration(),
			len(r.Schedule), r.Method, r.Orbits, r.Nodes, r.Moves)
		if !r.Liquid || r.Orbits != c.orbits {
			t.Errorf("%d×%d: liquid %v by %d orbits, want true by %d", c.rows, c.columns, r.Liquid, r.Orbits, c.orbits)
		}
	}
}

// TestOrbits holds that no two transfers of an orbit share a link, nor those of two orbits
// that share none in the quotient, and that traffics without symmetry have no orbits.
func TestOrbits(t *testing.T) {
	traffic := torus(t, 4, 4, 2)
	list := traffic.orbits(t.Context())
	if len(list) != 2 || len(list[1].members) >= len(list[0].members) {
		t.Fatalf("%d symmetries: want one shift, and more shifts with fewer orbits", len(list))
	}
	for _, o := range list {
		checkOrbits(t, traffic, o)
	}
	pairs, paths := traffic.pairs[1:], [][]Link(nil)
	for x := 1; x < traffic.Len(); x++ {
		paths = append(paths, traffic.Path(Transfer(x)))
	}
	less, err := NewTraffic(traffic.Links(), pairs, paths)
	if err != nil {
		t.Fatal(err)
	}
	if less.orbits(t.Context()) != nil {
		t.Error("a symmetry without one of the transfers")
	}
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

// TestOptimal holds claims of optimality to trying all colourings: they are true, and made
// of almost all small traffics.
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
