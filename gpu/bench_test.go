package gpu

import (
	"fmt"
	"testing"
)

// BenchmarkPlan plans uniform random traffic of up to 1 MiB per pair of GPUs, or 0 to 3
// packets for the modes of frames.
func BenchmarkPlan(b *testing.B) {
	for _, servers := range []int{8, 40, 128} {
		traffic := uniform(Cluster{servers, 8}, 1)
		packets := &Traffic{Cluster: traffic.Cluster, Bytes: make([]int64, len(traffic.Bytes))}
		for at, v := range traffic.Bytes {
			packets.Bytes[at] = v >> 18
		}
		for _, x := range []struct {
			mode Mode
			t    *Traffic
		}{{Bytes, traffic}, {Rails, packets}, {MinMove, packets}, {Paper, packets}} {
			b.Run(fmt.Sprintf("n=%d/%s", servers, x.mode), func(b *testing.B) {
				b.ReportAllocs()
				var p Planner
				for b.Loop() {
					if _, err := p.Plan(b.Context(), x.t, Options{Mode: x.mode}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkServerStages makes only the stages of servers.
func BenchmarkServerStages(b *testing.B) {
	for _, servers := range []int{8, 32, 40, 128} {
		traffic := uniform(Cluster{servers, 8}, 1)
		for _, fewest := range []bool{false, true} {
			b.Run(fmt.Sprintf("n=%d/fewest=%v", servers, fewest), func(b *testing.B) {
				b.ReportAllocs()
				var p Planner
				stages := 0
				for b.Loop() {
					lengths, _, err := p.ServerStages(b.Context(), traffic, Options{Fewest: fewest})
					if err != nil {
						b.Fatal(err)
					}
					stages = len(lengths)
				}
				b.ReportMetric(float64(stages), "stages")
			})
		}
	}
}

// BenchmarkVerify replays a plan.
func BenchmarkVerify(b *testing.B) {
	for _, servers := range []int{8, 40} {
		traffic := uniform(Cluster{servers, 8}, 1)
		var p Planner
		plan, err := p.Plan(b.Context(), traffic, Options{Mode: Bytes})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("n=%d", servers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Verify(b.Context(), traffic, plan); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
