package fors

import "testing"

// BenchmarkExact plans the fabrics whose optimum is known.
func BenchmarkExact(b *testing.B) {
	for _, c := range exactScenarios() {
		b.Run(c.name, func(b *testing.B) {
			benchmark(b, func() *Plan { return must(PlanExact(bg, c.tree)) })
		})
	}
}
