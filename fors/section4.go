package fors

// schedule is the inter-leaf schedule of the paper's section 4. It is the same
// for every source leaf up to a rotation of the leaves, so one leaf's worth is
// kept.
type schedule struct {
	M0, M1, f int
	phases    int     // P_f
	dest      []int32 // [phase][α]: D_leaf·M0 + D_server, −1 where T(s,p) = 0
}

// newSchedule evaluates the formulas of section 4 for 0 ≤ f < M0. They are
// followed and not the listing of Algorithm 1, which differs from them: it adds
// ⌈N_T/lcm⌉ to D_server where the formula adds ⌊N_T/lcm⌋ to D_leaf, and pairs
// are then met twice or never, as for M0 = M1 = 2, f = 0.
func newSchedule(M0, M1, f int) *schedule {
	remote := M0 * (M1 - 1) // P − M0
	sc := &schedule{M0: M0, M1: M1, f: f, phases: ceilDiv(M0*remote, M0-f)}
	sc.dest = make([]int32, sc.phases*M0)
	for i := range sc.dest {
		sc.dest[i] = -1
	}
	if remote == 0 {
		return sc
	}
	lcm := remote / gcd(M1-1, M0)
	for α := range M0 {
		θ := floorDiv((α-1)*(M0-f), M0) + 1
		for N_T := range remote {
			n := N_T + θ
			p := ceilDiv(n*M0, M0-f) - α // Θ_s; Θ̃ with ⌈·⌉, for Table A1's ⌊·⌋ makes phases negative
			D_server := n % M0
			D_leaf := (n + N_T/lcm) % (M1 - 1)
			sc.dest[p*M0+α] = int32(D_leaf*M0 + D_server)
		}
	}
	return sc
}

// row returns the destinations of a phase, indexed by α.
func (sc *schedule) row(p int) []int32 { return sc.dest[p*sc.M0 : (p+1)*sc.M0] }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// floorDiv rounds towards −∞, for b > 0.
func floorDiv(a, b int) int {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
