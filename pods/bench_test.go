package pods

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkMake(b *testing.B) {
	for _, k := range []int{16, 24, 36} {
		for _, dead := range []int{1, 8, 40} {
			b.Run(fmt.Sprintf("k=%d/%d+%d", k, dead, dead), func(b *testing.B) {
				tree := kAry(k)
				hurt(tree, rand.New(rand.NewPCG(1, uint64(k))), dead, dead, 0, 0)
				b.ReportAllocs()
				for b.Loop() {
					p, err := Make(context.Background(), tree, WholeLeaves)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(p.Phases()), "phases")
					b.ReportMetric(float64(p.LowerBound), "bound")
				}
			})
		}
	}
}
