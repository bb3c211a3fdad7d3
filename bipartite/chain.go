package bipartite

import "math/bits"

// chain is a path from a right vertex on whose edges alternate between colours a and
// b. It ends at the first right vertex at which a is free; a left vertex with an edge
// of colour a also has one of colour b, since its row is complete.
type chain struct{ v, a, b uint32 }

// force colours an edge of u, given as a word of table.right, to which no colour
// is free at both ends. With a free at u and b free at v, either the chain from v
// swaps its colours, which makes a free at v, or the one from u with b, which
// makes b free at u (König 1916): the two do not meet. Of up to four such chains,
// for two colours b or else for two colours a, it takes the shortest, following all
// of them in lockstep. It returns false if it runs out of steps.
//
// It leaves the colours free at u and those free at the right vertices of the
// other late edges without one in common: b, which becomes free at the end of the
// chain, is not free at u.
func (t *table[V]) force(u, word uint32) bool {
	v := word & vertexMask
	a := uint32(bits.TrailingZeros64(t.row.free))
	b := uint32(bits.TrailingZeros64(t.free[v]))
	chains := [4]chain{{v, a, b}, {t.right[u<<t.k+b] & vertexMask, a, b}}
	n := 2
	if rest := t.free[v] &^ (1 << b); rest != 0 {
		b := uint32(bits.TrailingZeros64(rest))
		chains[2], chains[3] = chain{v, a, b}, chain{t.right[u<<t.k+b] & vertexMask, a, b}
		n = 4
	} else if rest := t.row.free &^ (1 << a); rest != 0 {
		a := uint32(bits.TrailingZeros64(rest))
		chains[2], chains[3] = chain{v, a, b}, chain{chains[1].v, a, b}
		n = 4
	}
	i := t.shortest(chains[:n])
	if i < 0 {
		return false
	}
	a, b = chains[i].a, chains[i].b
	t.row.free &^= 1 << a
	t.free[v] &^= 1 << b
	if i%2 != 0 {
		at := u<<t.k + b
		t.right[at], t.left[v<<t.k+b], word = word, V(u), t.right[at]
	}
	t.swap(u, word, a, b)
	return true
}

// shortest follows the chains and returns the first to end, or −1 if out of steps.
func (t *table[V]) shortest(chains []chain) int {
	k, free, left, right := t.k&7, t.free, t.left, t.right
	for t.steps >= 0 {
		for i := range chains {
			c := &chains[i]
			if free[c.v]>>(c.a&63)&1 != 0 {
				return i
			}
			u := uint32(left[c.v<<k+c.a])
			c.v = right[u<<k+c.b] & vertexMask
		}
		t.steps -= len(chains)
	}
	return -1
}

// swap gives an edge of u the colour a. The edge of colour a at its right vertex gets
// colour b, the next one a, and so on to the end of the chain.
func (t *table[V]) swap(u, word, a, b uint32) {
	k := t.k & 7
	for {
		t.right[u<<k+a] = word
		v := word & vertexMask
		if t.free[v]>>(a&63)&1 != 0 {
			t.left[v<<k+a] = V(u)
			t.free[v] = t.free[v]&^(1<<(a&63)) | 1<<(b&63)
			return
		}
		next := uint32(t.left[v<<k+a])
		t.left[v<<k+a], t.left[v<<k+b] = V(u), V(next)
		at := next<<k + b
		t.right[at], word = t.right[next<<k+a], t.right[at]
		u = next
	}
}
