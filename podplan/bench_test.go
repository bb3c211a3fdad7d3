package podplan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// BenchmarkMake plans k-ary trees with 8 + 8 dead cables, builds their tables and verifies
// both.
func BenchmarkMake(b *testing.B) {
	for _, k := range []int{16, 24, 36} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			s := fabgen.KAry(k)
			s.LMC = 2
			f := fabgen.GenerateTree(s)
			base, err := topology.NewPodBaseline(f)
			if err != nil {
				b.Fatal(err)
			}
			for _, spec := range s.Draw(rand.New(rand.NewPCG(1, 1)), fabgen.Damage{LeafCables: 8, TopCables: 8}) {
				if _, err := f.Fail(spec); err != nil {
					b.Fatal(err)
				}
			}
			tree, err := topology.FitPods(f, base, nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r, err := podplan.Make(context.Background(), tree, podplan.Settings{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(r.Plan.Phases()), "phases")
				b.ReportMetric(float64(r.LIDs), "LIDs")
				b.ReportMetric(r.Times.Plan.Seconds(), "s/plan")
				b.ReportMetric(r.Times.Tables.Seconds(), "s/tables")
				b.ReportMetric(r.Times.Verify.Seconds(), "s/verify")
			}
		})
	}
}
