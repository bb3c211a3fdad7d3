package bipartite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sparse is a small bipartite graph with weights.
type sparse struct {
	left, right  int
	start, edges []int32
	weight       []int64
}

func drawSparse(t *rapid.T, most int) *sparse {
	g := &sparse{left: rapid.IntRange(0, most).Draw(t, "left"), right: rapid.IntRange(0, most).Draw(t, "right"), start: []int32{0}}
	heavy := rapid.SampledFrom([]int64{2, 1000, 1 << 40}).Draw(t, "weight at most")
	for range g.left {
		for v := range g.right {
			if rapid.Bool().Draw(t, "edge") {
				g.edges = append(g.edges, int32(v))
				g.weight = append(g.weight, rapid.Int64Range(0, heavy).Draw(t, "weight"))
			}
		}
		g.start = append(g.start, int32(len(g.edges)))
	}
	return g
}

// sum checks that the picks are a matching and returns its weight.
func (g *sparse) sum(t interface{ Fatalf(string, ...any) }, pick []int32) (sum int64) {
	if len(pick) != g.left {
		t.Fatalf("%d picks for %d left vertices", len(pick), g.left)
	}
	taken := make([]bool, g.right)
	for u, e := range pick {
		if e < 0 {
			continue
		}
		if e < g.start[u] || e >= g.start[u+1] || taken[g.edges[e]] {
			t.Fatalf("left vertex %d has edge %d, which is not its own, or its right vertex is taken", u, e)
		}
		taken[g.edges[e]] = true
		sum += g.weight[e]
	}
	return sum
}

// matchings calls f for every matching.
func (g *sparse) matchings(pick []int32, taken []bool, f func(pick []int32)) {
	u := len(pick)
	if u == g.left {
		f(pick)
		return
	}
	g.matchings(append(pick, -1), taken, f)
	for e := g.start[u]; e < g.start[u+1]; e++ {
		if v := g.edges[e]; !taken[v] {
			taken[v] = true
			g.matchings(append(pick, e), taken, f)
			taken[v] = false
		}
	}
}

// covers reports whether a matching satisfies a coverage.
func (g *sparse) covers(pick []int32, c Coverage) bool {
	right := make([]bool, g.right)
	for u, e := range pick {
		if e >= 0 && c.ForRight[e] {
			right[g.edges[e]] = true
		}
		if c.Left[u] && (e < 0 || !c.ForLeft[e]) {
			return false
		}
	}
	for v, must := range c.Right {
		if must && !right[v] {
			return false
		}
	}
	return true
}

// TestWeigherMatch compares with all matchings.
func TestWeigherMatch(t *testing.T) {
	var w Weigher
	rapid.Check(t, func(t *rapid.T) {
		g := drawSparse(t, 5)
		pick, err := w.Match(context.Background(), g.right, g.start, g.edges, g.weight)
		if err != nil {
			t.Fatal(err)
		}
		got, best := g.sum(t, pick), int64(0)
		g.matchings(nil, make([]bool, g.right), func(p []int32) { best = max(best, g.sum(t, p)) })
		if got != best {
			t.Fatalf("weight %d, want %d", got, best)
		}
	})
}

// TestWeigherCover compares with all matchings that satisfy a coverage, and expects
// an error if there are none.
func TestWeigherCover(t *testing.T) {
	var w Weigher
	rapid.Check(t, func(t *rapid.T) {
		g := drawSparse(t, 5)
		bools := func(n int) []bool { return rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "must") }
		c := Coverage{bools(g.left), bools(g.right), bools(len(g.edges)), bools(len(g.edges))}
		best := int64(-1)
		g.matchings(nil, make([]bool, g.right), func(p []int32) {
			if g.covers(p, c) {
				best = max(best, g.sum(t, p))
			}
		})
		pick, err := w.Cover(context.Background(), g.right, g.start, g.edges, g.weight, c)
		if best < 0 {
			if err == nil {
				t.Fatalf("matched %v where nothing covers what it must", pick)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := g.sum(t, pick); got != best || !g.covers(pick, c) {
			t.Fatalf("weight %d, want %d; covering: %v", got, best, g.covers(pick, c))
		}
	})
}

// TestWeigherAgainstAssigner compares with the dense assignment, with zeros for
// missing edges.
func TestWeigherAgainstAssigner(t *testing.T) {
	var w Weigher
	var a Assigner
	rng := rand.New(rand.NewPCG(3, 1))
	for _, n := range []int{1, 10, 60, 120} {
		for _, degree := range []int{1, 4, n} {
			g := randomSparse(rng, n, degree)
			pick, err := w.Match(context.Background(), g.right, g.start, g.edges, g.weight)
			if err != nil {
				t.Fatal(err)
			}
			cost := make([]int64, n*n)
			for u := range n {
				for e := g.start[u]; e < g.start[u+1]; e++ {
					cost[u*n+int(g.edges[e])] = -g.weight[e]
				}
			}
			_, want, err := a.Assign(n, cost)
			if err != nil {
				t.Fatal(err)
			}
			if got := g.sum(t, pick); got != -want {
				t.Errorf("n=%d, degree %d: weight %d, want %d", n, degree, got, -want)
			}
		}
	}
}

func TestWeigherRefuses(t *testing.T) {
	var w Weigher
	if _, err := w.Match(context.Background(), 1, []int32{0, 1}, []int32{0}, []int64{-1}); err == nil {
		t.Error("a negative weight: no error")
	}
	if _, err := w.Match(context.Background(), 1, []int32{0, 1}, []int32{0}, []int64{1 << 62}); err == nil {
		t.Error("an excessive weight: no error")
	}
	if pick, err := w.Match(context.Background(), 0, nil, nil, nil); err != nil || len(pick) != 0 {
		t.Errorf("an empty graph: %v, %v", pick, err)
	}
}

// randomSparse has so many edges at every left vertex.
func randomSparse(rng *rand.Rand, n, degree int) *sparse {
	g := &sparse{left: n, right: n, start: []int32{0}}
	for range n {
		row := rng.Perm(n)[:min(n, degree)]
		slices.Sort(row)
		for _, v := range row {
			g.edges = append(g.edges, int32(v))
			g.weight = append(g.weight, rng.Int64N(1e9))
		}
		g.start = append(g.start, int32(len(g.edges)))
	}
	return g
}

// BenchmarkWeigher matches random graphs of 16 edges per vertex, and complete ones.
func BenchmarkWeigher(b *testing.B) {
	for _, size := range [][2]int{{100, 16}, {512, 16}, {64, 64}, {512, 512}} {
		g := randomSparse(rand.New(rand.NewPCG(7, 8)), size[0], size[1])
		b.Run(fmt.Sprintf("n=%d/degree=%d", size[0], size[1]), func(b *testing.B) {
			var w Weigher
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Match(context.Background(), g.right, g.start, g.edges, g.weight); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
