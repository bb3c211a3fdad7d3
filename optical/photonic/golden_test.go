package photonic

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// one is an instance in which a message is one chunk and T one microsecond.
func one(n, k int, r float64) *Instance {
	return &Instance{GPUs: n, Degree: k, Reconfig: Micros(r), Link: Link{Gbps: 8, Chunk: 1000}, Message: 1000}
}

// made plans with a fixed number of topologies, or any if 0, and fails the test if
// that is not possible.
func made(t *testing.T, in *Instance, d int) *Plan {
	t.Helper()
	p, err := Make(t.Context(), in, Options{Reconfigurations: d})
	if err != nil {
		t.Fatalf("%d GPUs of degree %d, d = %d: %v", in.GPUs, in.Degree, d, err)
	}
	return p
}

// TestCarryExample: shifts 1 and 3 of eight GPUs with waiting take 14T, so 28T at
// R = 7T, below the 30T of theorem 1 for two reconfigurations, the paper's
// optimum (section 2.3). By hand: 1, 2 = 1+1, 3, 4 = 1+3, 5 = 1+1+3, 6 = 3+3 and
// 7 = 1+3+3.
func TestCarryExample(t *testing.T) {
	p := made(t, one(8, 1, 7), 0)
	if p.Cost.US() != 28 || p.HopSum != 14 || len(p.Topologies) != 2 {
		t.Errorf("hop sum %v, total %v on %d topologies, want 14, 28, 2", p.HopSum, p.Cost.US(), len(p.Topologies))
	}
}

// TestCarry checks the hop sums with waiting for n = 64: theorem 1 has 1024, 693 and 528.
func TestCarry(t *testing.T) {
	for _, c := range []struct{ d, most int }{{2, 436}, {3, 266}, {4, 209}} {
		p := made(t, one(64, 1, 100), c.d)
		if p.HopSum > float64(c.most) || len(p.Topologies) != c.d {
			t.Errorf("d = %d: hop sum %v, want at most %d", c.d, p.HopSum, c.most)
		}
		if b := HopBound(64, 1, c.d); p.HopSum < float64(b) {
			t.Errorf("d = %d: hop sum %v is below the bound with waiting, %d", c.d, p.HopSum, b)
		}
	}
}

// TestDegree2BeatsBaselines: with two switches, at the R at which the best static
// topology and direct links cost the same, a number of topologies in between is
// better than both, for every n (all of them only with FORS_LONG=1).
func TestDegree2BeatsBaselines(t *testing.T) {
	step := 8
	if os.Getenv("FORS_LONG") != "" {
		step = 1
	}
	for n := 8; n <= 64; n += step {
		in := one(n, 2, 0)
		static, err := climb(bg, in, Options{Reconfigurations: 1})
		if err != nil {
			t.Fatal(err)
		}
		d := Time(in.direct())
		in.Reconfig = (static.Sum - d*in.T()) / (d - 1)
		base := min(in.Reconfig+static.Sum, d*(in.Reconfig+in.T()))
		if p := made(t, in, 0); p.Cost >= base {
			t.Errorf("n = %d, R = %v: %v with %d topologies, static or direct %v", n, in.Reconfig.US(), p.Cost.US(), len(p.Topologies), base.US())
		}
	}
}

// TestBoundWithCarry counts the bound's destinations by hand, and compares the bound with
// theorem 1 of the paper, d·q(q+1)/2 + u(q+1) with q = ⌊(n−1)/d⌋ and u = (n−1) mod d, which
// does not allow waiting.
func TestBoundWithCarry(t *testing.T) {
	if d := cmp.Diff([]int{2 * 2, 3 * 4, 4 * 8, 15}, reach(64, 2, 2)); d != "" {
		t.Errorf("destinations by hops of 64 GPUs, k = 2, d = 2 (-want +got):\n%s", d)
	}
	for n := 2; n <= 80; n++ {
		for d := 1; d < n; d++ {
			q, u := (n-1)/d, (n-1)%d
			if got, theorem1 := HopBound(n, 1, d), d*q*(q+1)/2+u*(q+1); got > theorem1 || d == 1 && got != theorem1 {
				t.Errorf("n = %d, d = %d: %d, theorem 1 says %d", n, d, got, theorem1)
			}
		}
	}
}
