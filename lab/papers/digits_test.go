package papers

import (
	"testing"

	"github.com/forsd/forsd/optical/photonic"
)

// one is an exchange of messages that take a microsecond a hop.
func one(n, k int, r float64) *photonic.Instance {
	return &photonic.Instance{GPUs: n, Degree: k, Reconfig: photonic.Micros(r), Link: photonic.Link{Gbps: 8, Chunk: 1000}, Message: 1000}
}

// TestDigits replays exchanges by digits of all small sizes: they carry everything in as many
// phases as there are digits if a reconfiguration costs nothing, and in none if it costs most.
func TestDigits(t *testing.T) {
	for n := 2; n <= 90; n++ {
		for _, k := range []int{1, 2, 3, 4} {
			for _, base := range []int{2, 3} {
				if base == 3 && k%2 == 1 {
					continue
				}
				phases := 0
				for w := 1; w < n; w *= base {
					phases++
				}
				for _, r := range []float64{0, 5, 1e6} {
					in := one(n, k, r)
					p, err := Digits(in, base)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := photonic.Replay(t.Context(), in, p); err != nil {
						t.Fatalf("%d GPUs, %d switches, base %d: %v", n, k, base, err)
					}
					if d := len(p.Topologies); r == 0 && d != phases && n > 4 || r == 1e6 && d != 1 || d > phases {
						t.Errorf("%d GPUs, %d switches, base %d, R = %v: %d topologies of %d phases", n, k, base, r, d, phases)
					}
				}
			}
		}
	}
	// 81 GPUs: four phases, in each of which 27 messages go each way.
	in := one(81, 2, 0)
	if p, err := Digits(in, 3); err != nil || p.HopSum != 4*27 {
		t.Errorf("ReTri of 81 GPUs: %v, %v", p, err)
	}
	// 64 GPUs: six phases of 32 messages.
	in = one(64, 1, 0)
	if p, err := Digits(in, 2); err != nil || p.HopSum != 6*32 {
		t.Errorf("Bruck of 64 GPUs: %v, %v", p, err)
	}
	if _, err := Digits(one(9, 1, 0), 3); err == nil {
		t.Error("ReTri on one switch: no error")
	}
}
