package fors

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkMake plans whole exchanges, f cables of one leaf being down.
func BenchmarkMake(b *testing.B) {
	for _, ft := range [][2]int{{20, 18}, {16, 32}, {32, 32}} {
		for _, f := range []int{0, 1, 3, 9} {
			tree := fullTree(ft[0], ft[1])
			for k := range f {
				tree.cutCables(0, k)
			}
			b.Run(fmt.Sprintf("FT(2;%d,%d)/%dF", ft[0], ft[1], f), func(b *testing.B) {
				benchmark(b, func() *Plan { return must(Make(bg, tree)) })
			})
		}
	}
}

// BenchmarkConservative plans exchanges with two or twenty random cables down.
func BenchmarkConservative(b *testing.B) {
	for _, ft := range [][2]int{{20, 18}, {32, 32}} {
		for _, cables := range []int{2, 20} {
			tree := randomFailures(fullTree(ft[0], ft[1]), cables, 1)
			b.Run(fmt.Sprintf("FT(2;%d,%d)/%d", ft[0], ft[1], cables), func(b *testing.B) {
				benchmark(b, func() *Plan { return must(PlanConservative(bg, tree)) })
			})
		}
	}
}

func benchmark(b *testing.B, plan func() *Plan) {
	b.ReportAllocs()
	var p *Plan
	for b.Loop() {
		p = plan()
	}
	b.ReportMetric(float64(p.Phases), "phases")
	b.ReportMetric(float64(p.Gap()), "gap")
}

func must(p *Plan, err error) *Plan {
	if err != nil {
		panic(err)
	}
	return p
}

// BenchmarkBounds computes the bounds of a heavily damaged tree.
func BenchmarkBounds(b *testing.B) {
	for _, cables := range []int{0, 3, 180} {
		tree := randomFailures(fullTree(20, 18), cables, 1)
		b.Run(fmt.Sprintf("%dF", cables), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ComputeBounds(tree)
			}
		})
	}
}

// randomFailures takes cables down at random places.
func randomFailures(t *Tree, cables int, seed uint64) *Tree {
	rng := rand.New(rand.NewPCG(seed, 0))
	for cables > 0 {
		leaf, k := rng.IntN(len(t.Up)), rng.IntN(t.Lanes)
		if t.Up[leaf][k] {
			t.cutCables(leaf, k)
			cables--
		}
	}
	return t
}
