package bipartite

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// most is the largest number of edges, from the first on, that colours can be found for.
func (l *Lists) most(edges [][2]int32, taken map[[3]int32]bool) (best int) {
	if len(edges) == 0 {
		return 0
	}
	u, v := edges[0][0], edges[0][1]
	for c := range int32(l.colours) {
		left, right := [3]int32{0, u, c}, [3]int32{1, v, c}
		if l.lacks[int(u)*l.colours+int(c)] || l.lacks[int(v)*l.colours+int(c)] || taken[left] || taken[right] {
			continue
		}
		taken[left], taken[right] = true, true
		best = max(best, 1+l.most(edges[1:], taken))
		delete(taken, left)
		delete(taken, right)
		if best == len(edges) {
			return best
		}
	}
	return max(best, l.most(edges[1:], taken))
}

// Edges get colours that both ends have, no two of a vertex the same, and mostly as many edges
// as possible get one: all if no vertex lacks a colour.
func TestLists(t *testing.T) {
	draws, fewer := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n, colours := rapid.IntRange(1, 4).Draw(t, "n"), rapid.IntRange(1, 4).Draw(t, "colours")
		lacking := rapid.IntRange(0, 2).Draw(t, "lacking")
		lacks := rapid.SliceOfN(rapid.IntRange(0, 3), n*colours, n*colours).Draw(t, "lacks")
		l := NewLists(n, colours, func(v, c int) bool { return lacks[v*colours+c] < lacking })
		degree := map[[2]int32]int{}
		var edges [][2]int32
		for range rapid.IntRange(0, 9).Draw(t, "edges") {
			e := [2]int32{int32(rapid.IntRange(0, n-1).Draw(t, "left")), int32(rapid.IntRange(0, n-1).Draw(t, "right"))}
			if degree[[2]int32{0, e[0]}] < colours && degree[[2]int32{1, e[1]}] < colours {
				degree[[2]int32{0, e[0]}]++
				degree[[2]int32{1, e[1]}]++
				edges = append(edges, e)
			}
		}
		taken, got := map[[3]int32]bool{}, 0
		for i, c := range l.colourAll(edges[:len(edges)/2], edges[len(edges)/2:]) {
			if c < 0 {
				continue
			}
			got++
			for side, v := range edges[i] {
				if key := [3]int32{int32(side), v, c}; taken[key] || lacks[int(v)*colours+int(c)] < lacking {
					t.Fatalf("edge %d has colour %d, which vertex %d of side %d lacks or has given to another", i, c, v, side)
				} else {
					taken[key] = true
				}
			}
		}
		most := l.most(edges, map[[3]int32]bool{})
		if lacking == 0 && got < len(edges) {
			t.Fatalf("%d of %d edges have colours, and no vertex lacks one", got, len(edges))
		}
		if draws++; got < most {
			fewer++
		}
	})
	if fewer > draws/10 {
		t.Errorf("in %d of %d graphs more edges could have colours", fewer, draws)
	}
}

// Choose gives edges colours that both ends have, no two of a vertex the same, and of parallel edges
// the first; all edges if no vertex lacks a colour or has too many edges. It depends on nothing but the
// order of edges.
func TestChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, colours, lacking := rapid.IntRange(1, 5).Draw(t, "n"), rapid.IntRange(1, 6).Draw(t, "colours"), rapid.IntRange(0, 2).Draw(t, "lacking")
		lacks := rapid.SliceOfN(rapid.IntRange(0, 3), n*colours, n*colours).Draw(t, "lacks")
		l := NewLists(n, colours, func(v, c int) bool { return lacks[v*colours+c] < lacking })
		edges := make([][2]int32, rapid.IntRange(0, 30).Draw(t, "edges"))
		degree, most := map[[2]int32]int{}, 0
		for i := range edges {
			edges[i] = [2]int32{int32(rapid.IntRange(0, n-1).Draw(t, "left")), int32(rapid.IntRange(0, n-1).Draw(t, "right"))}
			for side, v := range edges[i] {
				degree[[2]int32{int32(side), v}]++
				most = max(most, degree[[2]int32{int32(side), v}])
			}
		}
		given := slices.Clone(edges)
		got := slices.Clone(l.Choose(edges))
		taken, waits := map[[3]int32]bool{}, map[[2]int32]bool{}
		for i, c := range got {
			if c < 0 {
				waits[edges[i]] = true
				continue
			}
			if waits[edges[i]] {
				t.Fatalf("edge %d has a colour, and a parallel one before it has none", i)
			}
			for side, v := range edges[i] {
				if key := [3]int32{int32(side), v, c}; taken[key] || lacks[int(v)*colours+int(c)] < lacking {
					t.Fatalf("edge %d has colour %d, which vertex %d of side %d lacks or has given to another", i, c, v, side)
				} else {
					taken[key] = true
				}
			}
		}
		if lacking == 0 && most <= colours && len(waits) > 0 {
			t.Fatalf("no vertex lacks a colour, and edges have none: %v", got)
		}
		if !slices.Equal(edges, given) || !slices.Equal(l.Choose(edges), got) {
			t.Fatal("the edges are changed, or the colours differ the second time")
		}
	})
}

// Stages that serve pairs less than their weight serve every entry in full, and are as much longer as
// Serve is told at most.
func TestServe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "n")
		x := make([]int64, n*n)
		for at := range x {
			x[at] = rapid.Int64Range(0, 20).Draw(t, "x")
		}
		most, part := rapid.IntRange(1, n).Draw(t, "most"), rapid.Int64Range(0, 2).Draw(t, "part of three")
		longer, stages := int64(0), [][]int64{}
		d := Decomposer{Longest: rapid.Bool().Draw(t, "longest"), Serve: func(match []int32, served []int64, late func(int, int64) int64) {
			pairs, stage := 0, int64(0)
			for i, j := range match {
				if j < 0 {
					continue
				}
				if pairs++; pairs > most {
					served[i] = served[i] * part / 3
					stage = max(stage, late(i, served[i]))
				}
			}
			longer += stage
			stages = append(stages, slices.Clone(served))
		}}
		weights, match, err := d.Decompose(context.Background(), n, x)
		if err != nil {
			t.Fatal(err)
		}
		rows, columns, _ := Sums(n, x)
		left, total := slices.Clone(x), int64(0)
		for s, w := range weights {
			total += w
			whole := 0
			for i, j := range match[s*n:][:n] {
				if j < 0 {
					continue
				}
				if left[i*n+int(j)] -= min(stages[s][i], left[i*n+int(j)]); stages[s][i] == w {
					whole++
				} else if stages[s][i] == 0 {
					t.Fatalf("stage %d matches row %d, and serves it nothing", s, i)
				}
			}
			if whole > most {
				t.Fatalf("stage %d serves %d pairs in full, and %d are wanted at most", s, whole, most)
			}
		}
		if slices.Max(left) > 0 || total != max(slices.Max(rows), slices.Max(columns))+longer {
			t.Fatalf("stages of %d, %d longer, leave %v", total, longer, left)
		}
	})
}
