package podplan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
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
				b.ReportMetric(peak(b), "MB/peak")
			}
		})
	}
}

// peak is the most memory that the process has had, in megabytes.
func peak(b *testing.B) (mega float64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(rest, &mega); err != nil {
		b.Fatal(err)
	}
	return mega / 1024
}

// BenchmarkRepair plans at once for k-ary trees without one cable or top.
func BenchmarkRepair(b *testing.B) {
	for _, c := range []struct {
		k    int
		fail string
	}{{8, "Top001"}, {16, "Leaf033/15"}, {16, "Mid074/16"}} {
		s := fabgen.KAry(c.k)
		s.LMC = 2
		b.Run(fmt.Sprintf("k=%d/%s", c.k, c.fail), func(b *testing.B) {
			f := fabgen.GenerateTree(s)
			base, err := topology.NewPodBaseline(f)
			if err != nil {
				b.Fatal(err)
			}
			fit := func() *topology.PodTree {
				tree, err := topology.FitPods(f, base, nil)
				if err != nil {
					b.Fatal(err)
				}
				return tree
			}
			if f, err = topology.NewFabric(f.Clone().Nodes, f.SM); err != nil {
				b.Fatal(err)
			}
			if _, err := f.Fail(c.fail); err != nil {
				b.Fatal(err)
			}
			tree := fit()
			planned := 0.0
			for b.Loop() {
				r, err := podplan.Make(context.Background(), tree, podplan.Settings{AtOnce: true})
				if err != nil {
					b.Fatal(err)
				}
				planned += r.Times.Plan.Seconds()
			}
			b.ReportMetric(1e3*planned/float64(b.N), "ms/plan")
		})
	}
}
