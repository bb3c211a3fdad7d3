package photonic

import "slices"

// reach bounds the number of destinations of a GPU at each number of hops, from 1, over
// d topologies of degree k, until all n−1 are reached. Chunks may wait for a later
// topology, so h hops can be divided over d topologies in C(h+d−1, d−1) ways: there are at
// most C(h+d−1, d−1)·k^h. (If a message stayed within one topology, they would be d·k^h:
// the paper's theorem 1.)
func reach(n, k, d int) []int {
	var at []int
	ways, power := 1, 1
	for left, h := n-1, 1; left > 0; h++ {
		// Both factors are capped at n: there are fewer destinations.
		power = min(n, power*k)
		ways = min(n*h, ways*(h+d-1)) / h // exact until it reaches n
		at = append(at, min(left, ways*power))
		left -= at[h-1]
	}
	return at
}

// HopBound is the least hop sum of d topologies of degree k: each GPU sends over
// k links at a time, so it is the sum of a GPU's hops over k, rounded up.
func HopBound(n, k, d int) int {
	return (leastHops(n, k, d) + k - 1) / k
}

// leastHops is the least sum of a GPU's hops.
func leastHops(n, k, d int) (sum int) {
	for i, count := range reach(n, k, d) {
		sum += (i + 1) * count
	}
	return sum
}

// transfer is the least time of all topologies together of a plan with d of them:
// HopBound for messages of one size. For many sizes, each GPU sends its larger
// messages over fewer hops, and all n·k links are busy all the time.
func (in *Instance) transfer(d int) Time {
	n, k := in.GPUs, in.Degree
	if in.Sizes == nil {
		// Chunks can be spread finer than messages.
		return (Time(leastHops(n, k, d))*in.T() + Time(k) - 1) / Time(k)
	}
	at := reach(n, k, d)
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
// d = 0, with any number.
func (in *Instance) Bound(d int) Time {
	if d > 0 {
		return Time(d)*in.Reconfig + in.transfer(d)
	}
	best := in.Bound(1)
	least := in.transfer(in.direct())
	for d := 2; d <= in.direct() && Time(d)*in.Reconfig+least < best; d++ {
		best = min(best, in.Bound(d))
	}
	return best
}

// direct is the number of topologies that gives every pair a direct link: more are useless.
func (in *Instance) direct() int { return max(1, (in.GPUs-2+in.Degree)/in.Degree) }
