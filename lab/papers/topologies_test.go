package papers

import (
	"testing"
	"time"

	"github.com/forsd/forsd/liquid"
)

// TestDirects schedules the smaller topologies: routes reach their destinations over existing
// links, no schedule is below the bounds, and none takes longer than the published time.
func TestDirects(t *testing.T) {
	published := map[string]float64{"NDv2, 2 chassis": 64.2, "NDv2, 15 GPUs": 59, "DGX-2, 2 chassis": 34}
	for _, d := range Directs() {
		traffic, err := d.traffic()
		if err != nil {
			t.Fatal(err)
		}
		for x := range traffic.Len() {
			p, path := traffic.Pair(liquid.Transfer(x)), map[int]int{}
			for _, l := range traffic.Path(liquid.Transfer(x)) {
				path[d.wires[l].from] = d.wires[l].to
			}
			u := int(p.Src)
			for range len(path) {
				u = path[u]
			}
			if u != int(p.Dst) {
				t.Fatalf("%s: the route from %d to %d ends at %d", d.Name, p.Src, p.Dst, u)
			}
		}
		if d.nodes > 40 {
			continue
		}
		row, err := d.Schedule(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if row.Time < row.Bound-1e-9 || row.Bound < row.AnyRoutes-1e-9 || row.Time > row.Dsatur || row.Time > row.RoundRobin {
			t.Errorf("%+v: want any routes ≤ Λ ≤ time ≤ others", row)
		}
		if most := published[d.Name]; most > 0 && row.Time > most {
			t.Errorf("%s takes %v, published are %v", d.Name, row.Time, most)
		}
	}
}
