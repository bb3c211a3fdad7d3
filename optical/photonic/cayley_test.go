package photonic

import "testing"

// TestMetacyclic checks the group axioms, and counts the groups of eight elements: the
// cyclic one, direct products and the symmetries of the square.
func TestMetacyclic(t *testing.T) {
	for n := 2; n <= 24; n++ {
		for _, g := range metacyclics(n) {
			for a := range int32(n) {
				if g.mul(a, 0) != a || g.mul(0, a) != a || g.mul(a, g.inverse[a]) != 0 {
					t.Fatalf("n = %d: %d has no unit or inverse", n, a)
				}
				for b := range int32(n) {
					if g.mul(a, g.class(a, b)) != b {
						t.Fatalf("n = %d: the class from %d to %d does not lead there", n, a, b)
					}
					for c := range int32(n) {
						if g.mul(g.mul(a, b), c) != g.mul(a, g.mul(b, c)) {
							t.Fatalf("n = %d: (%d·%d)·%d is not %d·(%d·%d)", n, a, b, c, a, b, c)
						}
					}
				}
			}
		}
	}
	abelian, other := 0, 0
	for _, g := range metacyclics(8) {
		same := true
		for a := range int32(8) {
			for b := range int32(8) {
				same = same && g.mul(a, b) == g.mul(b, a)
			}
		}
		if same {
			abelian++
		} else {
			other++
		}
	}
	if abelian == 0 || other == 0 {
		t.Errorf("of eight elements there are %d abelian groups and %d others, want some of both", abelian, other)
	}
}

// TestCayley checks the costs of Cayley graphs for two switches: without reconfiguration
// less than the best circulant and Kautz graph, with waiting close to the bound.
func TestCayley(t *testing.T) {
	for _, c := range []struct {
		n, d int
		most float64
	}{{8, 1, 7}, {16, 1, 20}, {32, 1, 62}, {64, 1, 144}, {64, 2, 94}, {64, 3, 78}, {64, 4, 69}, {256, 2, 560}} {
		p := made(t, one(c.n, 2, 10), c.d)
		if p.HopSum > c.most || p.HopSum < float64(HopBound(c.n, 2, c.d)) {
			t.Errorf("n = %d, d = %d: hop sum %v (%s), want at most %v and at least %d", c.n, c.d, p.HopSum, p.Family, c.most, HopBound(c.n, 2, c.d))
		}
	}
}
