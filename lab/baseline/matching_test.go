package baseline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestMatch checks that matchings are maximum by König's theorem: a vertex cover has the same size.
func TestMatch(t *testing.T) {
	var m matcher
	rapid.Check(t, func(t *rapid.T) {
		n, right := rapid.IntRange(0, 30).Draw(t, "left"), rapid.IntRange(1, 30).Draw(t, "right")
		start, edges := []int32{0}, []int32{}
		for range n {
			edges = append(edges, rapid.SliceOfN(rapid.Int32Range(0, int32(right)-1), 0, 4).Draw(t, "edges")...)
			start = append(start, int32(len(edges)))
		}
		ofLeft, ofRight, size := m.match(right, start, edges)
		pairs := 0
		for u, v := range ofLeft {
			if v < 0 {
				continue
			}
			pairs++
			if ofRight[v] != int32(u) {
				t.Fatalf("left vertex %d is matched with %d, and that with %d", u, v, ofRight[v])
			}
			there := false
			for _, w := range edges[start[u]:start[u+1]] {
				there = there || w == v
			}
			if !there {
				t.Fatalf("no edge from %d to %d", u, v)
			}
		}
		if pairs != size {
			t.Fatalf("%d pairs, said to be %d", pairs, size)
		}
		if cover := coverSize(start, edges, ofLeft, ofRight); cover != size {
			t.Fatalf("%d pairs, and a cover of %d vertices", size, cover)
		}
	})
}

// coverSize makes a vertex cover from a matching: the left vertices that no
// alternating path from a free left vertex reaches, and the right vertices that one
// does. It is a cover if the matching is maximum; otherwise coverSize returns −1.
func coverSize(start, edges, ofLeft, ofRight []int32) int {
	seenLeft, seenRight := make([]bool, len(ofLeft)), make([]bool, len(ofRight))
	var visit func(u int32)
	visit = func(u int32) {
		if seenLeft[u] {
			return
		}
		seenLeft[u] = true
		for _, v := range edges[start[u]:start[u+1]] {
			seenRight[v] = true
			if ofRight[v] >= 0 {
				visit(ofRight[v])
			}
		}
	}
	size := 0
	for u, v := range ofLeft {
		if v < 0 {
			visit(int32(u))
		}
	}
	for u := range ofLeft {
		if !seenLeft[u] {
			size++
			continue
		}
		for _, v := range edges[start[u]:start[u+1]] {
			if !seenRight[v] {
				return -1
			}
		}
	}
	for _, seen := range seenRight {
		if seen {
			size++
		}
	}
	return size
}

// BenchmarkMatch matches sparse random graphs.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		rng := rand.New(rand.NewPCG(5, 6))
		start, edges := []int32{0}, []int32{}
		for range n {
			for range 4 {
				edges = append(edges, rng.Int32N(int32(n)))
			}
			start = append(start, int32(len(edges)))
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			var m matcher
			b.ReportAllocs()
			for b.Loop() {
				m.match(n, start, edges)
			}
		})
	}
}
