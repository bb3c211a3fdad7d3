package photonic

// group is a group on 0, …, n−1 with the identity 0. A set of its elements gives a
// topology that joins v to v·g for each g in it, a Cayley graph. Multiplying all GPUs
// by one element from the left maps links to links, so all sources can use the same
// routes. The cyclic group gives circulants.
type group struct {
	n       int
	product []int32 // [a·n + b]
	inverse []int32
}

func (g *group) mul(a, b int32) int32 { return g.product[int(a)*g.n+int(b)] }

// class is the x by which b = a·x.
func (g *group) class(a, b int32) int32 { return g.mul(g.inverse[a], b) }

// metacyclic is the semidirect product of the cyclic groups of q and m elements:
// (i, x)(j, y) = (i+j, x·u^j + y), where u^q = 1 mod m; (i, x) has the number i·m + x.
// For u = 1 it is the direct product, and for q = 1 the cyclic group. Few short products
// coincide, so paths are short; those of Kautz graphs are even shorter, but lack the
// symmetry.
func metacyclic(q, m, u int) *group {
	n := q * m
	powers := make([]int, q)
	powers[0] = 1 % m
	for i := 1; i < q; i++ {
		powers[i] = powers[i-1] * u % m
	}
	g := &group{n: n, product: make([]int32, n*n), inverse: make([]int32, n)}
	for a := range n {
		for b := range n {
			c := int32((a/m+b/m)%q*m + (a%m*powers[b/m]+b%m)%m)
			g.product[a*n+b] = c
			if c == 0 {
				g.inverse[a] = int32(b)
			}
		}
	}
	return g
}

// cyclic is the group of n elements in which a·b is their sum.
func cyclic(n int) *group { return metacyclic(1, n, 1) }

// metacyclics are all groups of this kind with n elements, the cyclic one first.
func metacyclics(n int) []*group {
	var list []*group
	for q := 1; q < n; q++ {
		if n%q > 0 {
			continue
		}
		m := n / q
		for u := 1; u < m; u++ {
			power := 1
			for range q {
				power = power * u % m
			}
			if power == 1 && (q > 1 || u == 1) {
				list = append(list, metacyclic(q, m, u))
			}
		}
	}
	return list
}

// reach lowers hops, [element], by multiplying elements reached so far from the right, or from the
// left, by elements of a set, any number of times.
func (g *group) reach(hops, set []int32, left bool) {
	step, by := g.n, 1
	if left {
		step, by = by, step
	}
	for again := true; again; {
		again = false
		for v, h := range hops {
			row := g.product[v*step:]
			for _, s := range set {
				if to := &hops[row[int(s)*by]]; h+1 < *to {
					*to = h + 1
					again = true
				}
			}
		}
	}
}
