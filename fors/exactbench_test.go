package fors

import "testing"

// BenchmarkExact plans the fabrics whose optimum is known.
func BenchmarkExact(b *testing.B) {
	for _, c := range exactScenarios() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := PlanExact(c.tree); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
