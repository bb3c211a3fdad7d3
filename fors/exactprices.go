package fors

import (
	"context"
	"slices"
)

// tariff is prices on the links, which prove a lower bound on the phases. If a transfer
// pays for the link out of its source leaf and for the one into its destination leaf, it
// pays at least the price of its cheapest lane, and in a phase a link earns its price at
// most once. So for any prices u, v ≥ 0 the phases are at least
//
//	Σ_{A≠B} d[A][B]·min_k (u[A][k] + v[B][k]) / Σ_{A,k} (u[A][k] + v[A][k]),
//
// where d is the transfers from leaf to leaf and k runs over the lanes up at both. The best
// prices prove the optimum of the joint linear programme, whose dual solution they are; the
// leaf bound, which corresponds to a price of 1 on some lanes of one leaf, may be lower.
// All numbers are integers, so that the proof is exact.
type tariff struct {
	*net
	pairs   []fare
	ways    []int32    // lanes of all pairs, one pair after the other
	price   [2][]int64 // [end][leaf·lanes + lane] u, v
	rounded [2][]int64 // of simplify, as price
	load    [2][]int64 // [end][leaf·lanes + lane] transfers on it if all take their cheapest lanes
	flow    []int64    // [as ways] transfers on a lane, summed over the steps, the n-th n times
	steps   int64
	most    int64 // limit of prices, so that the sum paid by all transfers fits 63 bits
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
		links := n.leaves * n.lanes
		f.price[end], f.rounded[end], f.load[end] = make([]int64, links), make([]int64, links), make([]int64, links)
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
	f.most = min(1<<40, 1<<61/total)
	f.flow = make([]int64, len(f.ways))
	return f
}

// prove raises a bound as far as it finds prices that prove it, until the work limit (lanes
// of pairs visited) is reached or ctx ends. It continues from the prices of the previous
// call.
//
// All transfers take their cheapest lanes; then the price of a link rises by its transfers
// in excess of Φ, the current bound, or falls by those it lacks. If there are prices w* of
// length 1 that prove more than Φ with a margin of γ, the difference between the sum paid
// and Φ times the cost of the links, such prices are found after at most (G/γ)² steps,
// where G is the longest possible step: each goes γ or more in the direction of w*, and
// while they prove nothing their squared length grows by at most G². If there are none, for
// the same reason, no link carries more than Φ + G/√n in the mean of n steps. In the mean
// that round uses, later steps count more, because the first ones are far off.
func (f *tariff) prove(ctx context.Context, bound, work int) int {
	for ; work > 0 && f.steps < mostSteps && ctx.Err() == nil; work -= len(f.ways) + len(f.price[outward]) {
		paid, cost := f.choose(), int64(0)
		for _, prices := range f.price {
			for _, price := range prices {
				cost += price
			}
		}
		if cost > 0 {
			bound = max(bound, int((paid+cost-1)/cost))
		}
		f.adjust(int64(bound))
		if f.steps%simplifyEvery == 0 {
			bound = max(bound, f.simplify())
			work -= finest * len(f.ways)
		}
	}
	return bound
}

const (
	// mostSteps keeps the sums of flow in 63 bits, for up to 2²³ transfers between two
	// leaves.
	mostSteps = 1 << 20
	// finest is the largest number of different nonzero prices that simplify tries, and
	// simplifyEvery the number of steps between its calls.
	finest        = 8
	simplifyEvery = 64
)

// simplify returns the best bound that the prices prove when rounded to few different
// values. Optimal prices are mostly small integers or multiples of them: the steps only
// approach them, rounding hits them.
func (f *tariff) simplify() (bound int) {
	dearest := max(slices.Max(f.price[outward]), slices.Max(f.price[inward]))
	for c := int64(1); c <= finest && dearest > 0; c++ {
		cost := int64(0)
		for end, prices := range f.price {
			for i, price := range prices {
				x := (2*c*price + dearest) / (2 * dearest)
				f.rounded[end][i] = x
				cost += x
			}
		}
		paid := int64(0)
		for _, pair := range f.pairs {
			u, v := f.rounded[outward][pair.A*f.lanes:][:f.lanes], f.rounded[inward][pair.B*f.lanes:][:f.lanes]
			least := 2 * c
			for _, k := range f.ways[pair.first:pair.last] {
				least = min(least, u[k]+v[k])
			}
			paid += pair.transfers * least
		}
		bound = max(bound, int((paid+cost-1)/cost))
	}
	return bound
}

// choose loads the links with all transfers on their cheapest lanes, evenly where
// there are several, and returns what they pay.
func (f *tariff) choose() (paid int64) {
	for end := range f.load {
		clear(f.load[end])
	}
	f.steps++
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
		for i, k := range ways {
			if u[k]+v[k] == least {
				x := (left + ties - 1) / ties
				f.flow[pair.first+i] += f.steps * x
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

// round assigns to every lane the transfers that took it in the mean of all steps, rounded
// down, and the rest of a pair to the lanes with the largest fractions. The mean is close
// to a solution of the linear programme.
func (s *spread) round(f *tariff, phases int) {
	clear(s.y)
	clear(s.load[outward])
	clear(s.load[inward])
	weight := f.steps * (f.steps + 1) / 2
	fraction := make([]int64, s.lanes)
	for _, pair := range f.pairs {
		ways, flow := f.ways[pair.first:pair.last], f.flow[pair.first:pair.last]
		y := s.y[(pair.A*s.leaves+pair.B)*s.lanes:][:s.lanes]
		left := pair.transfers
		for i, k := range ways {
			y[k] = int32(flow[i] / weight)
			fraction[k] = flow[i] % weight
			left -= int64(y[k])
		}
		for ; left > 0; left-- {
			largest := ways[0]
			for _, k := range ways[1:] {
				if fraction[k] > fraction[largest] {
					largest = k
				}
			}
			fraction[largest] = -1
			y[largest]++
		}
		for _, k := range ways {
			s.load[outward][pair.A*s.lanes+int(k)] += y[k]
			s.load[inward][pair.B*s.lanes+int(k)] += y[k]
		}
	}
	s.Φ = int32(phases)
}
