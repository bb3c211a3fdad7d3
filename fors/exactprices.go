package fors

// tariff is prices on the links, by which a bound on the phases is proved. Where
// a transfer pays for the link out of its source leaf and for the one into its
// destination leaf, it pays no less than on the cheapest of its lanes, and in a
// phase a link earns its price once at most. So for any prices u, v ≥ 0 the
// phases are at least
//
//	Σ_{A≠B} d[A][B]·min_k (u[A][k] + v[B][k]) / Σ_{A,k} (u[A][k] + v[A][k]),
//
// where d is the transfers from leaf to leaf and k runs over the lanes up at
// both. The best prices prove the optimum of the joint linear programme (they are
// its dual solution), which the leaf bound may be under; the leaf bound itself is
// a price of 1 on some lanes of one leaf. All is in integers, so that what is
// proved holds exactly.
type tariff struct {
	*net
	pairs []fare
	ways  []int32    // lanes of all pairs, one pair after the other
	price [2][]int64 // [end][leaf·lanes + lane] u, v
	load  [2][]int64 // [end][leaf·lanes + lane] transfers on it if all take their cheapest lanes
	most  int64      // prices stay below it, so that what all transfers pay fits 63 bits
}

// fare is the transfers of two leaves and the lanes that they may take.
type fare struct {
	A, B        int
	transfers   int64
	first, last int // in ways
}

func newTariff(n *net) *tariff {
	f := &tariff{net: n}
	for end := range f.price {
		f.price[end], f.load[end] = make([]int64, n.leaves*n.lanes), make([]int64, n.leaves*n.lanes)
	}
	total := int64(1)
	for A := range n.leaves {
		for B := range n.leaves {
			if n.common[A*n.leaves+B] == 0 {
				continue
			}
			first := len(f.ways)
			for k, up := range n.lanesOf(A) {
				if up && n.up[B*n.lanes+k] {
					f.ways = append(f.ways, int32(k))
				}
			}
			transfers := int64(n.units[A] * n.size[B])
			f.pairs = append(f.pairs, fare{A, B, transfers, first, len(f.ways)})
			total += transfers
		}
	}
	f.most = 1 << 61 / total
	return f
}

// prove returns the best bound that it finds prices for, and ends when that is
// above Φ or when it has looked at lanes of pairs as often as work says. It goes
// on from the prices at which it ended before.
//
// All transfers take their cheapest lanes; then the price of a link rises by the
// transfers over Φ, or falls by those that lack. Prices w* of length 1 that prove
// more than Φ with a margin of γ, the difference between what is paid and Φ times
// what the links cost, are found after at most (G/γ)² steps, where G is the
// longest a step can be: each brings the prices closer to the direction of w* by
// γ or more, and as long as they prove nothing their squared length grows by G²
// at most.
func (f *tariff) prove(Φ, work int) (bound int) {
	for ; work > 0; work -= len(f.ways) + len(f.price[outward]) {
		paid, cost := f.choose(), int64(0)
		for _, prices := range f.price {
			for _, price := range prices {
				cost += price
			}
		}
		if cost > 0 {
			bound = max(bound, int((paid+cost-1)/cost))
		}
		if bound > Φ {
			return bound
		}
		f.adjust(int64(Φ))
	}
	return bound
}

// choose loads the links with all transfers on their cheapest lanes, evenly where
// there are several, and returns what they pay.
func (f *tariff) choose() (paid int64) {
	for end := range f.load {
		clear(f.load[end])
	}
	for _, pair := range f.pairs {
		u, v := f.price[outward][pair.A*f.lanes:][:f.lanes], f.price[inward][pair.B*f.lanes:][:f.lanes]
		out, in := f.load[outward][pair.A*f.lanes:][:f.lanes], f.load[inward][pair.B*f.lanes:][:f.lanes]
		ways := f.ways[pair.first:pair.last]
		least, ties := u[ways[0]]+v[ways[0]], int64(0)
		for _, k := range ways {
			switch price := u[k] + v[k]; {
			case price < least:
				least, ties = price, 1
			case price == least:
				ties++
			}
		}
		paid += pair.transfers * least
		left := pair.transfers
		for _, k := range ways {
			if u[k]+v[k] == least {
				x := (left + ties - 1) / ties
				out[k] += x
				in[k] += x
				left -= x
				ties--
			}
		}
	}
	return paid
}

// adjust raises and lowers the prices, and halves them all where they get large.
func (f *tariff) adjust(Φ int64) {
	large := false
	for end, prices := range f.price {
		for i, load := range f.load[end] {
			prices[i] = max(0, prices[i]+load-Φ)
			large = large || prices[i] >= f.most/2
		}
	}
	if !large {
		return
	}
	for _, prices := range f.price {
		for i := range prices {
			prices[i] /= 2
		}
	}
}
