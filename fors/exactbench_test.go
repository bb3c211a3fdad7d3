package fors

import "testing"

// BenchmarkExact plans the fabrics whose optimum is known.
func BenchmarkExact(b *testing.B) {
	scenarios := append(exactScenarios(), exactScenario{name: "FT(2;64,32)/0F", tree: fullTree(64, 32)})
	for _, c := range scenarios {
		b.Run(c.name, func(b *testing.B) {
			benchmark(b, func() *Plan { return must(PlanExact(c.tree)) })
		})
	}
}
