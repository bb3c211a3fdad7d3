package photonic

import "testing"

// TestLeftover replays direct links whose last classes share all switches, for messages of
// any number of chunks: they cost less than whole messages, and no less than the bound.
func TestLeftover(t *testing.T) {
	for n := 3; n <= 24; n++ {
		for k := 2; k <= 7; k++ {
			for _, bytes := range []int64{1000, 1500, 2000, 7001, 8000} {
				in := one(n, k, 0.25)
				in.Message = bytes
				p := planLeftover(in, nil)
				if (p == nil) != ((n-1)%k == 0) {
					t.Fatalf("%d GPUs, %d switches: plan %v", n, k, p)
				}
				if p == nil {
					continue
				}
				if _, err := Replay(bg, in, p); err != nil {
					t.Fatalf("%d GPUs, %d switches, %d bytes: %v", n, k, bytes, err)
				}
				whole := Time(in.direct()) * (in.Reconfig + in.T())
				if bound := in.Bound(0); p.Cost > whole || p.Cost < bound {
					t.Errorf("%d GPUs, %d switches, %d bytes: %v, by whole messages %v, bound %v", n, k, bytes, p.Cost, whole, bound)
				}
				if again := planLeftover(in, p); again != nil && again.Cost >= p.Cost {
					t.Errorf("%d GPUs, %d switches: a plan of no use", n, k)
				}
			}
		}
	}
}
