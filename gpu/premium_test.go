package gpu

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// premium plans the same traffic on a healthy cluster and on a site with failures. It returns the
// times, and how many times as long the site needs for its bytes, by the speeds of its NICs.
func premium(t *testing.T, p *Planner, traffic *Traffic, s *Site) (healthy, damaged, ratio float64) {
	t.Helper()
	whole := must(p.Plan(t.Context(), traffic, Options{}))
	plan := must(p.PlanSite(t.Context(), s, traffic.Bytes, Options{}))
	if err := VerifySite(t.Context(), s, traffic.Bytes, plan); err != nil {
		t.Fatal(err)
	}
	pairs, n := traffic.Pairs(), traffic.Servers
	for i := range n {
		out, in, speed := int64(0), int64(0), int64(0)
		for j := range n {
			out += pairs[i*n+j]
			in += pairs[j*n+i]
		}
		for _, x := range s.Servers[i].NICs {
			speed += x.Speed
		}
		ratio = max(ratio, float64(max(out, in))/float64(max(1, whole.Bound))*float64(s.Speed())/float64(speed))
	}
	return DefaultModel.Predict(whole).Total, DefaultModel.Predict(plan).Total, max(1, ratio)
}

// NICs that die or are slow cost what their bytes cost, and few starts of stages or none.
func TestFailuresHaveNoPremium(t *testing.T) {
	draws := 12
	if os.Getenv("FORS_LONG") != "" {
		draws = 2000
	}
	var p Planner
	worst, beyond := 0.0, 0
	for draw := range draws {
		rng := rand.New(rand.NewPCG(31, uint64(draw)))
		c := Cluster{2 + rng.IntN(9), 2 + rng.IntN(7)}
		traffic := must(NewTraffic(c))
		size, density, skew := int64(64)<<rng.IntN(14), 1+rng.IntN(100), rng.IntN(3)
		for at := range traffic.Bytes {
			switch {
			case rng.IntN(100) >= density:
			case skew == 0:
				traffic.Bytes[at] = size
			default:
				traffic.Bytes[at] = rng.Int64N(size) * []int64{1, 1, 1, 1, 1, 1, 1, 10}[rng.IntN(8)]
			}
		}
		s, speeds := c.Uniform(), [][]int{{0}, {0, 25, 50, 75, 30}}[rng.IntN(2)]
		var bad []string
		for range 1 + rng.IntN(c.Servers) {
			if server := rng.IntN(c.Servers); rng.IntN(c.GPUs) > 0 || s.Servers[server].GPUs > 2 {
				bad = append(bad, fmt.Sprintf("%d:%d:%d", server, rng.IntN(c.GPUs-1), speeds[rng.IntN(len(speeds))]))
			}
		}
		if err := s.Fail(bad, nil); err != nil {
			t.Fatal(err)
		}
		healthy, damaged, ratio := premium(t, &p, traffic, s)
		if healthy == 0 {
			continue
		}
		over := damaged / healthy / ratio
		// A GPU whose NIC is dead has to move its bytes before and after, which costs two starts.
		if starts := 2 * DefaultModel.Latency.Seconds(); over > 1.15 && damaged > healthy*ratio+starts {
			beyond++
			t.Logf("draw %d: %+v, up to %d bytes for %d %% of the pairs, skew %d, %q fail: %.1f µs, %.2f times the healthy %.1f, and the bytes' ratio is %.2f", draw, c, size, density, skew, bad, damaged*1e6, damaged/healthy, healthy*1e6, ratio)
		}
		worst = max(worst, over)
	}
	if beyond > draws/500 {
		t.Errorf("%d of %d draws take over 1.15 times the healthy time and the bytes' ratio", beyond, draws)
	}
	t.Logf("at most %.2f times the healthy time and the bytes' ratio", worst)
}
