package libforsmpi

import (
	"strconv"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
)

// BenchmarkAlltoall measures what FORS_SYNC costs in shared memory: an exchange of 36
// ranks of FT(2;6,6) with a dead cable, by MPI's own algorithm, by a linear shift, and by
// the plan. The time of an operation is that of a whole job.
func BenchmarkAlltoall(b *testing.B) {
	shim := needs(b)
	table := file(b, plan(b, fabgen.Spec{Spines: 6, Leaves: 6, LMC: 3}, cable{0, 0}))
	j := job{ranks: 36, urgent: true, command: []string{compile(b, "mpicc", "../../examples/alltoall_bench.c"), "-n", "20", "256", "4096", "65536"}}
	for _, sync := range []string{"none", "links", "6", "barrier"} {
		b.Run("sync="+sync, func(b *testing.B) {
			sums := map[string]float64{}
			for range b.N {
				out, _ := j.with(shim, table, "FORS_SYNC="+sync).run(b)
				for line := range strings.Lines(out) {
					f := strings.Fields(line)
					if len(f) != 13 || f[2] != "us" {
						continue // of the heading
					}
					for i, way := range []string{"own", "plan", "shift"} {
						us, err := strconv.ParseFloat(f[1+4*i], 64)
						if err != nil {
							b.Fatalf("%s: %v", line, err)
						}
						sums["us-"+way+"-"+f[0]+"B"] += us
					}
				}
			}
			if len(sums) != 9 {
				b.Fatalf("measured: %v", sums)
			}
			for unit, sum := range sums {
				b.ReportMetric(sum/float64(b.N), unit)
			}
		})
	}
}
