package gpu

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// frame is a random frame: each pair of GPUs of different servers has a Poisson
// number of packets, some pairs many more.
func frame(c Cluster, rng *rand.Rand) *Traffic {
	t, err := NewTraffic(c)
	if err != nil {
		panic(err)
	}
	ranks := c.Ranks()
	packets := rng.IntN(12*ranks + 1)
	hot := rng.IntN(ranks)
	for range packets {
		source, destination := rng.IntN(ranks), rng.IntN(ranks)
		if rng.IntN(4) == 0 {
			source = hot
		}
		if source/c.GPUs != destination/c.GPUs {
			t.Bytes[source*ranks+destination] += 1 + rng.Int64N(3)
		}
	}
	return t
}

// excessOver sums up what ranks have above a bound.
func excessOver(loads []int64, bound int64) (sum int64) {
	for _, v := range loads {
		sum += max(0, v-bound)
	}
	return sum
}

// On random frames, the frame that is carried out has the length that each mode
// promises, every packet arrives, and MinMove moves no more than it must.
func TestFrames(t *testing.T) {
	for _, c := range []struct {
		Cluster
		frames int
	}{{Cluster{8, 2}, 1000}, {Cluster{16, 8}, 60}, {Cluster{64, 8}, 6}} {
		t.Run(fmt.Sprintf("n=%d,m=%d", c.Servers, c.GPUs), func(t *testing.T) {
			t.Parallel()
			if os.Getenv("FORS_LONG") == "1" {
				c.frames = 1000
			}
			rng := rand.New(rand.NewPCG(uint64(c.Servers), uint64(c.GPUs)))
			var p Planner
			for f := range c.frames {
				traffic := frame(c.Cluster, rng)
				if bound, paper := traffic.Bound(), traffic.BalancedBound(); paper < bound || paper > 0 && paper >= bound+int64(c.Servers) {
					t.Errorf("frame %d: Eq. 11 gives %d slots, Eq. 26 %d: want less than %d more", f, paper, bound, c.Servers)
				}
				for mode, length := range map[Mode]int64{
					Rails: traffic.Bound(), MinMove: traffic.Bound(), Paper: traffic.BalancedBound(), None: traffic.BlockBound(),
				} {
					plan, err := p.Plan(t.Context(), traffic, Options{Mode: mode})
					if err != nil {
						t.Fatalf("frame %d, mode %s: %v", f, mode, err)
					}
					if err := Verify(t.Context(), traffic, plan); err != nil {
						t.Fatalf("frame %d, mode %s: %v", f, mode, err)
					}
					if plan.Length != length {
						t.Errorf("frame %d, mode %s: length %d, want %d", f, mode, plan.Length, length)
					}
					out, in := traffic.loads()
					if before, after := excessOver(out, plan.Bound), excessOver(in, plan.Bound); mode == MinMove && (plan.MovesBefore != before || plan.MovesAfter != after) {
						t.Errorf("frame %d: %d and %d packets are moved, the least is %d and %d", f, plan.MovesBefore, plan.MovesAfter, before, after)
					}
				}
			}
		})
	}
}
