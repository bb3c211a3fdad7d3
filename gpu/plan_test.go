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

// blockBound is Eq. 11 for the unbalanced blocks: the length of Theorem 4's frames
// without balancing.
func blockBound(t *Traffic) int64 {
	n, m := t.Servers, t.GPUs
	scale := make([]int64, n*n)
	column := make([]int64, m)
	for i := range n {
		for j := range n {
			if i == j {
				continue
			}
			clear(column)
			for l := range m {
				sum := int64(0)
				for k, v := range t.row(Rank(i*m+l), j) {
					sum += v
					column[k] += v
				}
				scale[i*n+j] = max(scale[i*n+j], sum)
			}
			for _, sum := range column {
				scale[i*n+j] = max(scale[i*n+j], sum)
			}
		}
	}
	return longest(n, scale)
}

// balancedBound is Eq. 11 for balanced blocks, Δ_ij = ⌈W_ij/m⌉: the length of the
// published scheme's frames.
func balancedBound(t *Traffic) int64 {
	return longest(t.Servers, shares(t.Pairs(), int64(t.GPUs)))
}

// excessOver sums the excess of ranks over a bound.
func excessOver(loads []int64, bound int64) (sum int64) {
	for _, v := range loads {
		sum += max(0, v-bound)
	}
	return sum
}

// For random frames, each mode's frame has the promised length, every packet arrives, and
// MinMove moves no more than necessary.
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
				if bound, paper := traffic.Bound(), balancedBound(traffic); paper < bound || paper > 0 && paper >= bound+int64(c.Servers) {
					t.Errorf("frame %d: Eq. 11 gives %d slots, Eq. 26 %d: want less than %d more", f, paper, bound, c.Servers)
				}
				for mode, length := range map[Mode]int64{
					Rails: traffic.Bound(), MinMove: traffic.Bound(), Paper: balancedBound(traffic), None: blockBound(traffic),
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

// loads returns the amounts that each rank sends to other servers and receives from
// them, Eqs. 4 and 5.
func (t *Traffic) loads() (out, in []int64) {
	out, in = make([]int64, t.Ranks()), make([]int64, t.Ranks())
	for source := range Rank(t.Ranks()) {
		for j := range t.Servers {
			if j == t.server(source) {
				continue
			}
			for k, v := range t.row(source, j) {
				out[source] += v
				in[j*t.GPUs+k] += v
			}
		}
	}
	return out, in
}
