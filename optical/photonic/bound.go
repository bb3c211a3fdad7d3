package photonic

import "slices"

// Theorem1 is the paper's lower bound on the hop sum of d topologies of degree 1
// (theorem 1): d·q(q+1)/2 + u(q+1) with q = ⌊(n−1)/d⌋ and u = (n−1) mod d. It
// holds only where each message stays within one topology.
func Theorem1(n, d int) int {
	q, u := (n-1)/d, (n-1)%d
	return d*q*(q+1)/2 + u*(q+1)
}

// reach bounds the number of destinations of a GPU at each number of hops, from 1, over
// d topologies of degree k, until all n−1 are reached. Within one topology they are k^h,
// so d·k^h in all: for k = 1 that is theorem 1. If chunks may wait for a later topology,
// h hops can be divided over d topologies in C(h+d−1, d−1) ways: C(h+d−1, d−1)·k^h.
func reach(n, k, d int, carry bool) []int {
	var at []int
	ways, power := 1, 1
	for left, h := n-1, 1; left > 0; h++ {
		// Both factors are capped at n: there are fewer destinations.
		power = min(n, power*k)
		count := d * power
		if carry {
			ways = min(n*h, ways*(h+d-1)) / h // exact until it reaches n
			count = ways * power
		}
		at = append(at, min(left, count))
		left -= at[h-1]
	}
	return at
}

// HopBound is the least hop sum of d topologies of degree k: each GPU sends over
// k links at a time, so it is the sum of a GPU's hops over k, rounded up. With
// carry false each message stays within one topology, and the bound for k = 1 is
// Theorem1.
func HopBound(n, k, d int, carry bool) int {
	sum := 0
	for i, count := range reach(n, k, d, carry) {
		sum += (i + 1) * count
	}
	return (sum + k - 1) / k
}

// transfer is the least time of all topologies together of a plan with d of them:
// HopBound for messages of one size. For many sizes, each GPU sends its larger
// messages over fewer hops, and all n·k links are busy all the time.
func (in *Instance) transfer(d int, carry bool) Time {
	n, k := in.GPUs, in.Degree
	if in.Sizes == nil {
		// Chunks can be spread finer than messages.
		sum := 0
		for i, count := range reach(n, k, d, carry) {
			sum += (i + 1) * count
		}
		return (Time(sum)*in.T() + Time(k) - 1) / Time(k)
	}
	at := reach(n, k, d, carry)
	times := make([]Time, 0, n)
	var all Time
	for src := range n {
		times = times[:0]
		for dst := range n {
			if b := in.size(src, dst); b > 0 {
				times = append(times, in.Link.Time(b))
			}
		}
		slices.Sort(times)
		next := len(times)
		for i, count := range at {
			for ; count > 0 && next > 0; count-- {
				next--
				all += Time(i+1) * times[next]
			}
		}
	}
	return (all + Time(n*k) - 1) / Time(n*k)
}

// Bound is a lower bound on the cost of any plan with d topologies, or, for
// d = 0, with any number. With carry false it is the paper's, for plans in which
// each message stays within one topology.
func (in *Instance) Bound(d int, carry bool) Time {
	if d > 0 {
		return Time(d)*in.Reconfig + in.transfer(d, carry)
	}
	best := in.Bound(1, carry)
	least := in.transfer(in.direct(), carry)
	for d := 2; d <= in.direct() && Time(d)*in.Reconfig+least < best; d++ {
		best = min(best, in.Bound(d, carry))
	}
	return best
}

// direct is the number of topologies that gives every pair a direct link: more are useless.
func (in *Instance) direct() int { return max(1, (in.GPUs-2+in.Degree)/in.Degree) }
