package fors

import (
	"context"
	"slices"
)

// tariff is prices on the resources of a flow, which prove a lower bound on the phases in
// which the demands pass if a resource carries cap units in each. If a unit pays for all
// resources of its way, it pays at least the price of its cheapest way, and in a phase a
// resource earns its price at most cap times. So for any prices ≥ 0 the phases are at least
//
//	Σ_demands need·min_way Σ_resources price / Σ_resources cap·price.
//
// On two levels, with transfers d[A][B] from leaf to leaf and the lanes k up at both, that is
// Σ_{A≠B} d[A][B]·min_k (u[A][k] + v[B][k]) / Σ_{A,k} (u[A][k] + v[A][k]). The best
// prices prove the optimum of the joint linear programme, whose dual solution they are; the
// leaf bound, which corresponds to a price of 1 on some lanes of one leaf, may be lower.
// All numbers are integers, so that the proof is exact.
type tariff struct {
	*Multiflow
	cap     []int64 // [resource] units a phase
	price   []int64 // [resource]
	rounded []int64 // of simplify, as price
	load    []int64 // [resource] units on it if all take their cheapest ways
	costs   []int64 // [way of a demand] its price
	flow    []int64 // [way] units on it, summed over the steps, the n-th n times
	steps   int64
	most    int64 // limit of prices, so that the sum paid by all units fits 63 bits
}

// newTariff begins without prices. The flow's room is that of one phase.
func newTariff(m *Multiflow) *tariff {
	n := len(m.Room)
	f := &tariff{Multiflow: m, cap: make([]int64, n), price: make([]int64, n), rounded: make([]int64, n), load: make([]int64, n), flow: make([]int64, len(m.Y))}
	for r, room := range m.Room {
		f.cap[r] = int64(room)
	}
	total := int64(1)
	for _, need := range m.need {
		total += int64(need)
	}
	f.most = min(1<<40, 1<<62/(total*int64(m.Width)))
	return f
}

// Prove returns a lower bound on the phases in which the demands pass if the room is that of
// one phase, at least the bound given. The search for prices is limited in work: a million is
// some milliseconds.
func (s *Multiflow) Prove(ctx context.Context, bound, work int) int {
	s.close()
	return newTariff(s).prove(ctx, bound, work)
}

// prove raises a bound as far as it finds prices that prove it, until the work limit (ways
// visited) is reached or ctx ends. It continues from the prices of the previous
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
	for ; work > 0 && f.steps < mostSteps && ctx.Err() == nil; work -= len(f.Y) + len(f.price)/2 {
		paid, cost := f.choose(), int64(0)
		for r, price := range f.price {
			cost += f.cap[r] * price
		}
		if cost > 0 {
			bound = max(bound, int((paid+cost-1)/cost))
		}
		f.adjust(int64(bound))
		if f.steps%simplifyEvery == 0 {
			bound = max(bound, f.simplify())
			work -= finest * len(f.Y)
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
	dearest := slices.Max(f.price)
	for c := int64(1); c <= finest && dearest > 0; c++ {
		cost := int64(0)
		for r, price := range f.price {
			f.rounded[r] = (2*c*price + dearest) / (2 * dearest)
			cost += f.cap[r] * f.rounded[r]
		}
		paid := int64(0)
		for i, need := range f.need {
			paid += int64(need) * slices.Min(f.costsOf(int32(i), f.rounded))
		}
		bound = max(bound, int((paid+cost-1)/cost))
	}
	return bound
}

// costsOf returns the prices of the ways of a demand.
func (f *tariff) costsOf(demand int32, price []int64) []int64 {
	f.costs = f.costs[:0]
	first, end := f.Ways(demand)
	for w := first; w < end; w++ {
		sum := int64(0)
		for _, r := range f.Resources(w) {
			if r >= 0 {
				sum += price[r]
			}
		}
		f.costs = append(f.costs, sum)
	}
	return f.costs
}

// choose loads the resources with all units on their cheapest ways, evenly if there are
// several, and returns their payment.
func (f *tariff) choose() (paid int64) {
	clear(f.load)
	f.steps++
	for i, need := range f.need {
		costs := f.costsOf(int32(i), f.price)
		least, ties := costs[0], int64(0)
		for _, cost := range costs {
			switch {
			case cost < least:
				least, ties = cost, 1
			case cost == least:
				ties++
			}
		}
		left := int64(need)
		paid += left * least
		for at, cost := range costs {
			if cost != least {
				continue
			}
			x := (left + ties - 1) / ties
			w := f.first[i] + int32(at)
			f.flow[w] += f.steps * x
			for _, r := range f.Resources(w) {
				if r >= 0 {
					f.load[r] += x
				}
			}
			left -= x
			ties--
		}
	}
	return paid
}

// adjust raises and lowers the prices, and halves them all where they get large.
func (f *tariff) adjust(Φ int64) {
	large := false
	for r, load := range f.load {
		f.price[r] = max(0, f.price[r]+load-Φ*f.cap[r])
		large = large || f.price[r] >= f.most/2
	}
	for r := range f.price {
		if large {
			f.price[r] /= 2
		}
	}
}

// round assigns to every lane the transfers that took it in the mean of all steps, rounded
// down, and the rest of a pair to the lanes with the largest fractions. The mean is close
// to a solution of the linear programme.
func (s *spread) round(f *tariff, phases int) {
	for r := range s.Room {
		s.Room[r] = int32(phases)
	}
	weight := f.steps * (f.steps + 1) / 2
	y := make([]int32, len(s.Y))
	for i, need := range f.need {
		first, end := f.Ways(int32(i))
		flow, left := f.flow[first:end], need
		fraction := f.costs[:0]
		for _, x := range flow {
			fraction = append(fraction, x%weight)
			left -= int32(x / weight)
		}
		for w, x := range flow {
			y[int(first)+w] = int32(x / weight)
		}
		for ; left > 0; left-- {
			largest := slices.Index(fraction, slices.Max(fraction))
			fraction[largest] = -1
			y[int(first)+largest]++
		}
	}
	s.set(func(way int) int32 { return y[way] })
}
