package bipartite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkColours tells why match is not a partition of a graph's edges, given as
// [left·n+right] counts, into perfect matchings.
func checkColours(n, degree int, edges, match []int32) error {
	left := slices.Clone(edges)
	for c := range degree {
		heard := make([]bool, n)
		for u, v := range match[c*n : (c+1)*n] {
			if v < 0 || int(v) >= n || heard[v] {
				return fmt.Errorf("colour %d: left vertex %d has right vertex %d, which is none or taken", c, u, v)
			}
			heard[v] = true
			if left[u*n+int(v)]--; left[u*n+int(v)] < 0 {
				return fmt.Errorf("colour %d: more edges from %d to %d than there are", c, u, v)
			}
		}
	}
	return nil // n·degree edges were found, so none is left
}

// graph is a regular multigraph in every form that the kernel takes.
type graph struct {
	n, degree int
	arcs      []Arc
	edges     []int32 // [left·n+right]
}

// sum makes a regular graph of permutations, each taken some times.
func sum(n int, perms [][]int, counts []int) graph {
	g := graph{n: n, edges: make([]int32, n*n)}
	for i, perm := range perms {
		g.degree += counts[i]
		for u, v := range perm {
			g.edges[u*n+v] += int32(counts[i])
		}
	}
	for u := range n {
		for v := range n {
			if c := g.edges[u*n+v]; c > 0 {
				g.arcs = append(g.arcs, Arc{int32(u), int32(v), c})
			}
		}
	}
	return g
}

// rows lists a graph's edges by left vertex.
func (g graph) rows() []int32 {
	var rows []int32
	for _, arc := range g.arcs {
		for range arc.Count {
			rows = append(rows, arc.Right)
		}
	}
	return rows
}

func drawGraph(t *rapid.T) graph {
	n := rapid.IntRange(1, 40).Draw(t, "n")
	most := rapid.SampledFrom([]int{1, 3, 50}).Draw(t, "count at most")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	var perms [][]int
	var counts []int
	for range rapid.IntRange(0, 20).Draw(t, "permutations") {
		perms = append(perms, rng.Perm(n))
		counts = append(counts, 1+rng.IntN(most))
	}
	return sum(n, perms, counts)
}

// TestColours checks both forms on any regular graph, for several workers and
// with scratch memory used before.
func TestColours(t *testing.T) {
	var reused Colourer
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		byRows := make([]int32, g.n*g.degree)
		if err := reused.Rows(g.n, g.degree, g.rows(), byRows); err != nil {
			t.Fatal(err)
		}
		if err := checkColours(g.n, g.degree, g.edges, byRows); err != nil {
			t.Fatalf("by rows: %v", err)
		}
		places := make([]int32, g.n*g.degree)
		if err := reused.Places(g.n, g.degree, g.rows(), places); err != nil {
			t.Fatal(err)
		}
		for i, place := range places {
			places[i] = g.rows()[i%g.n*g.degree+int(place)]
		}
		if !slices.Equal(places, byRows) {
			t.Fatal("places are not those of the vertices found by rows")
		}
		var first []int32
		for _, workers := range []int{1, 2, 4} {
			match := make([]int32, g.n*g.degree)
			reused.Workers = workers
			if err := reused.Arcs(g.n, g.degree, g.arcs, match); err != nil {
				t.Fatal(err)
			}
			if err := checkColours(g.n, g.degree, g.edges, match); err != nil {
				t.Fatalf("by arcs, %d workers: %v", workers, err)
			}
			if first == nil {
				first = match
			} else if !slices.Equal(first, match) {
				t.Fatalf("%d workers find other colours than one", workers)
			}
		}
	})
}

// TestSearch finds perfect matchings without walks, by search alone.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		if g.degree == 0 {
			return
		}
		var w worker
		rows := g.rows()
		adj := &adjacency{degree: int32(g.degree), mask: 1<<31 - 1}
		for _, v := range rows {
			adj.right = append(adj.right, uint32(v))
		}
		for u := range g.n {
			adj.start, adj.end = append(adj.start, int32(u*g.degree)), append(adj.end, int32((u+1)*g.degree))
		}
		w.owner = slices.Repeat([]int32{-1}, g.n)
		w.pick = make([]int32, g.n)
		for u := range g.n {
			w.search(g.n, adj, int32(u))
		}
		match := make([]int32, g.n)
		for u := range g.n {
			match[u] = rows[w.pick[u]]
		}
		if err := checkColours(g.n, 1, g.edges, match); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRefused gives graphs that are not regular.
func TestRefused(t *testing.T) {
	var c Colourer
	for _, g := range []struct {
		name      string
		n, degree int
		arcs      []Arc
	}{
		{"too few edges", 2, 2, []Arc{{0, 0, 2}, {1, 1, 1}}},
		{"too many edges", 2, 2, []Arc{{0, 0, 2}, {1, 1, 3}}},
		{"missing vertex", 2, 1, []Arc{{0, 0, 1}}},
		{"right vertex twice", 2, 1, []Arc{{0, 1, 1}, {1, 1, 1}}},
		{"out of order", 2, 1, []Arc{{1, 1, 1}, {0, 0, 1}}},
		{"out of range", 1, 1, []Arc{{0, 1, 1}}},
		{"no edges", 1, 1, []Arc{{0, 0, 0}}},
		{"surplus vertex", 1, 1, []Arc{{0, 0, 1}, {1, 0, 1}}},
	} {
		if err := c.Arcs(g.n, g.degree, g.arcs, make([]int32, g.n*g.degree)); err == nil {
			t.Errorf("%s: no error", g.name)
		}
	}
	if err := c.Rows(2, 2, []int32{0, 1, 0, 0}, make([]int32, 4)); err == nil {
		t.Error("uneven rows: no error")
	}
	if err := c.Rows(2, 2, []int32{0, 1, 0, 2}, make([]int32, 4)); err == nil {
		t.Error("rows out of range: no error")
	}
	if err := c.Rows(2, 2, []int32{0, 1, 0, 1}, make([]int32, 3)); err == nil {
		t.Error("short result: no error")
	}
	if err := c.Arcs(1, 1, []Arc{{0, 0, 1}}, nil); err == nil {
		t.Error("no room for the result: no error")
	}
}

// random is a graph of degree permutations.
func random(n, degree, count int) graph {
	rng := rand.New(rand.NewPCG(1, 2))
	var perms [][]int
	var counts []int
	for left := degree; left > 0; left -= count {
		perms = append(perms, rng.Perm(n))
		counts = append(counts, min(count, left))
	}
	return sum(n, perms, counts)
}

// BenchmarkArcs colours graphs of the size of a fat tree's phases.
func BenchmarkArcs(b *testing.B) {
	for _, size := range []struct{ n, degree, count int }{{378, 359, 20}, {378, 359, 1}, {1024, 1023, 32}} {
		g := random(size.n, size.degree, size.count)
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("n=%d/D=%d/count=%d/workers=%d", size.n, size.degree, size.count, workers), func(b *testing.B) {
				c := Colourer{Workers: workers}
				match := make([]int32, g.n*g.degree)
				b.ReportAllocs()
				for b.Loop() {
					if err := c.Arcs(g.n, g.degree, g.arcs, match); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(match)), "ns/edge")
			})
		}
	}
}

// BenchmarkRows colours graphs of the size of a leaf's senders.
func BenchmarkRows(b *testing.B) {
	for _, size := range [][2]int{{359, 20}, {359, 16}, {1023, 32}, {359, 19}} {
		g := random(size[0], size[1], 1)
		b.Run(fmt.Sprintf("n=%d/D=%d", size[0], size[1]), func(b *testing.B) {
			var c Colourer
			source, rows, match := g.rows(), make([]int32, g.n*g.degree), make([]int32, g.n*g.degree)
			b.ReportAllocs()
			for b.Loop() {
				copy(rows, source)
				if err := c.Rows(g.n, g.degree, rows, match); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(match)), "ns/edge")
		})
	}
}
