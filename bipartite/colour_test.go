package bipartite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkColours returns an error if match is not a partition of a graph's edges, given
// as [left·n+right] counts, into perfect matchings.
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

// byColour turns colours of edges into rows of right vertices, [colour][left].
func byColour(n, degree int, rows []int32, colour []uint16) []int32 {
	match := slices.Repeat([]int32{-1}, n*degree)
	for i, c := range colour {
		match[int(c)*n+i/degree] = rows[i]
	}
	return match
}

// graph is a regular multigraph in every form that the kernel accepts.
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
		rows, colour := g.rows(), make([]uint16, g.n*g.degree)
		if err := reused.Colours(context.Background(), g.n, g.degree, rows, colour); err != nil {
			t.Fatal(err)
		}
		if err := checkColours(g.n, g.degree, g.edges, byColour(g.n, g.degree, rows, colour)); err != nil {
			t.Fatalf("by rows: %v", err)
		}
		var first []int32
		for _, workers := range []int{1, 2, 4} {
			match := make([]int32, g.n*g.degree)
			reused.Workers = workers
			if err := reused.Arcs(context.Background(), g.n, g.degree, g.arcs, match); err != nil {
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

// TestChainsBounded colours graphs whose chains may take no steps, or a few, so
// that they are halved if a chain is needed.
func TestChainsBounded(t *testing.T) {
	halved := 0
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		steps := rapid.IntRange(-1, 1).Draw(t, "steps for an edge")
		limited := func() *Colourer { return &Colourer{scratch: []*worker{{chainSteps: steps}}} }
		rows, colour := g.rows(), make([]uint16, g.n*g.degree)
		c := limited()
		if err := c.Colours(context.Background(), g.n, g.degree, rows, colour); err != nil {
			t.Fatal(err)
		}
		if err := checkColours(g.n, g.degree, g.edges, byColour(g.n, g.degree, rows, colour)); err != nil {
			t.Fatalf("by rows: %v", err)
		}
		if g.degree <= tableDegree && c.worker(0).levels != nil {
			halved++
		}
		match := make([]int32, g.n*g.degree)
		if err := limited().Arcs(context.Background(), g.n, g.degree, g.arcs, match); err != nil {
			t.Fatal(err)
		}
		if err := checkColours(g.n, g.degree, g.edges, match); err != nil {
			t.Fatalf("by arcs: %v", err)
		}
	})
	if halved == 0 {
		t.Error("no graph ran out of steps")
	}
}

// TestWide checks that wide tables give the same colours as narrow ones.
func TestWide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		if g.degree == 0 || g.degree > tableDegree {
			return
		}
		var narrow table[uint16]
		var wide table[uint32]
		a, b := make([]uint16, g.n*g.degree), make([]uint16, g.n*g.degree)
		steps := chainSteps * len(a)
		if end, _ := narrow.colour(g.n, g.degree, g.rows(), steps); end != coloured {
			t.Fatal("no colouring by a narrow table")
		}
		if end, _ := wide.colour(g.n, g.degree, g.rows(), steps); end != coloured {
			t.Fatal("no colouring by a wide table")
		}
		narrow.colours(a)
		wide.colours(b)
		if !slices.Equal(a, b) {
			t.Error("a wide table colours otherwise than a narrow one")
		}
	})
}

// TestChainsShort checks that random graphs of any degree stay far below the limit of
// steps along chains, and that a graph too large for a narrow table works.
func TestChainsShort(t *testing.T) {
	for _, size := range [][2]int{{359, 20}, {378, 44}, {500, 64}, {5000, 4}, {20000, 3}, {70000, 2}} {
		n, degree := size[0], size[1]
		rng := rand.New(rand.NewPCG(1, 2))
		rows := make([]int32, n*degree)
		for j := range degree {
			for u, v := range rng.Perm(n) {
				rows[u*degree+(u+j)%degree] = int32(v)
			}
		}
		var w worker
		w.chainSteps = chainSteps / 2
		if end, _ := w.tabulate(n, degree, rows); end != coloured {
			t.Errorf("n=%d, degree %d: chains take more than half of the steps allowed", n, degree)
		}
		colour := make([]uint16, n*degree)
		if err := new(Colourer).Colours(context.Background(), n, degree, rows, colour); err != nil {
			t.Fatal(err)
		}
		match := byColour(n, degree, rows, colour)
		arcs, byArcs := make([]Arc, n*degree), make([]int32, n*degree)
		for i, v := range rows {
			arcs[i] = Arc{int32(i / degree), v, 1}
		}
		if err := new(Colourer).Arcs(context.Background(), n, degree, arcs, byArcs); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(match, byArcs) {
			t.Errorf("n=%d, degree %d: arcs are coloured otherwise than rows", n, degree)
		}
		seen := make([]bool, n)
		for c := range degree {
			clear(seen)
			for u, v := range match[c*n : (c+1)*n] {
				if v < 0 || seen[v] {
					t.Fatalf("n=%d, degree %d: colour %d of left vertex %d leads to %d, which is none or taken", n, degree, c, u, v)
				}
				seen[v] = true
			}
		}
	}
}

// TestSearch finds perfect matchings only by search, without walks.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		if g.degree == 0 {
			return
		}
		var w worker
		adj := &adjacency{degree: int32(g.degree), arcs: g.arcs, end: make([]int32, g.n), start: make([]int32, g.n)}
		for i := len(g.arcs) - 1; i >= 0; i-- {
			adj.start[g.arcs[i].Left] = int32(i)
		}
		for i, arc := range g.arcs {
			adj.end[arc.Left] = int32(i + 1)
		}
		w.owner = slices.Repeat([]int32{-1}, g.n)
		w.pick = make([]int32, g.n)
		for u := range g.n {
			w.search(g.n, adj, int32(u))
		}
		match := make([]int32, g.n)
		for u := range g.n {
			match[u] = g.arcs[w.pick[u]].Right
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
		if err := c.Arcs(context.Background(), g.n, g.degree, g.arcs, make([]int32, g.n*g.degree)); err == nil {
			t.Errorf("%s: no error", g.name)
		}
	}
	if err := c.Colours(context.Background(), 2, 2, []int32{0, 1, 0, 0}, make([]uint16, 4)); err == nil {
		t.Error("uneven rows: no error")
	}
	if err := c.Colours(context.Background(), 2, 2, []int32{0, 1, 0, 2}, make([]uint16, 4)); err == nil {
		t.Error("rows out of range: no error")
	}
	if err := c.Colours(context.Background(), 2, 2, []int32{0, 1, 0, 1}, make([]uint16, 3)); err == nil {
		t.Error("short result: no error")
	}
	high := slices.Repeat([]int32{0}, 2*(tableDegree+1))
	if err := c.Colours(context.Background(), 2, tableDegree+1, high, make([]uint16, len(high))); err == nil {
		t.Error("uneven rows of high degree: no error")
	}
	short := Colourer{scratch: []*worker{{chainSteps: -1}}}
	if err := short.Colours(context.Background(), 4, 2, []int32{0, 1, 2, 3, 0, 2, 1, 1}, make([]uint16, 8)); err == nil {
		t.Error("uneven rows that run out of steps: no error")
	}
	if err := c.Arcs(context.Background(), 1, 1, []Arc{{0, 0, 1}}, nil); err == nil {
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
					if err := c.Arcs(context.Background(), g.n, g.degree, g.arcs, match); err != nil {
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
	for _, size := range [][2]int{{359, 20}, {378, 44}, {1023, 32}, {2047, 64}} {
		g := random(size[0], size[1], 1)
		b.Run(fmt.Sprintf("n=%d/D=%d", size[0], size[1]), func(b *testing.B) {
			var c Colourer
			rows, colour := g.rows(), make([]uint16, g.n*g.degree)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Colours(context.Background(), g.n, g.degree, rows, colour); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rows)), "ns/edge")
		})
	}
}
