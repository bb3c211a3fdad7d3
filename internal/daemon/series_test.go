package daemon

import (
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/fabgen"
)

// mostSeries limits the Prometheus series of one forsd with every warning in force.
// Nearly half are the warnings and the Go runtime's.
const mostSeries = 300

// TestSeriesAreBounded counts the series of a small fabric and of one with 2048 hosts,
// each with dead cables and with every warning.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	counts := map[int]int{}
	for _, leaves := range []int{4, 64} {
		d := newDaemon(t)
		const spines, perLeaf = 16, 32
		f := fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: leaves, Hosts: []int{perLeaf}, LMC: 4})
		d.bringUp(t, f)
		hosts := len(d.state.Now().Latest.Tree.Hosts)
		d.see(t, lacking(lacking(f, perLeaf, 1, 3), perLeaf, 2, 5))
		for _, k := range kinds() {
			d.health.Raise(k.Code, "it is", time.Now().Add(-time.Hour))
		}
		change, now := d.state.Now().Change, time.Now().Add(time.Second)
		change.Verified, change.Published, change.Written, change.ReadBack = now, now, now, now
		d.backend.Metrics.Observe(change)
		families, err := d.backend.Metrics.Registry.Gather()
		ok(t, err)
		for _, f := range families {
			for _, m := range f.Metric {
				n := 1
				if h := m.Histogram; h != nil {
					n = len(h.Bucket) + 3 // the last bucket, the sum, the count
				}
				if s := m.Summary; s != nil {
					n = len(s.Quantile) + 2
				}
				counts[hosts] += n
			}
		}
		t.Logf("%d hosts: %d series, of which %d are warnings", hosts, counts[hosts], len(kinds()))
	}
	if counts[2048] == 0 || counts[2048] > mostSeries {
		t.Errorf("2048 hosts have %d series: at most %d", counts[2048], mostSeries)
	}
	for hosts, n := range counts {
		if n != counts[2048] {
			t.Errorf("%d hosts have %d series, and 2048 have %d", hosts, n, counts[2048])
		}
	}
}
