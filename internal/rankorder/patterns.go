package rankorder

import (
	"math"
	"math/bits"
)

// transfer is a transfer from one rank to another.
type transfer struct{ from, to int32 }

// ring makes every rank send to the next.
func ring(ranks int) []transfer {
	if ranks < 2 {
		return nil
	}
	list := make([]transfer, ranks)
	for i := range list {
		list[i] = transfer{int32(i), int32((i + 1) % ranks)}
	}
	return list
}

// doubling returns the steps of recursive doubling in MPICH and Open MPI. If the number of
// ranks is not a power of two, the first ranks form pairs, and the odd rank of a pair
// represents both.
func doubling(ranks int) (steps [][]transfer) {
	power := 1 << (bits.Len(uint(ranks)) - 1)
	extra := ranks - power
	stand := func(v int) int32 {
		if v < extra {
			return int32(2*v + 1)
		}
		return int32(v + extra)
	}
	if extra > 0 {
		var there, back []transfer
		for v := range extra {
			there = append(there, transfer{int32(2 * v), int32(2*v + 1)})
			back = append(back, transfer{int32(2*v + 1), int32(2 * v)})
		}
		steps = append(steps, there, back)
	}
	for bit := 1; bit < power; bit *= 2 {
		var step []transfer
		for v := range power {
			step = append(step, transfer{stand(v), stand(v ^ bit)})
		}
		steps = append(steps, step)
	}
	return steps
}

// doublingBound counts the transfers that must leave a leaf. Of c corners of a cube of d
// dimensions, at least c·(d − log₂ c) edges lead out (Harper, 1964), so one of the d steps has
// at least a d-th of them, over the cables that the tables use. How many of a leaf's ranks are
// corners is not known if ranks form pairs, and the function is concave. If all numbers are
// powers of two, the ranks of a host have the same partner in every step that leaves the host.
func (r *routes) doublingBound(perHost int) int {
	if len(r.leaves) < 2 {
		return 0
	}
	if perHost > 1 && perHost&(perHost-1) == 0 && r.hosts&(r.hosts-1) == 0 {
		return perHost * r.doublingBound(1)
	}
	ranks := r.hosts * perHost
	d := bits.Len(uint(ranks)) - 1
	extra := ranks - 1<<d
	out := func(corners int) float64 {
		if corners < 1 {
			return 0
		}
		return float64(corners) * (float64(d) - math.Log2(float64(corners)))
	}
	bound := 1
	for l, on := range r.leaves {
		most := min(len(on)*perHost, 1<<d)
		edges := min(out(most), out(most-extra))
		bound = max(bound, int(math.Ceil(edges/float64(d)/float64(r.cables(l))-1e-9)))
	}
	return bound
}

// cables counts the links through which the tables leave a leaf.
func (r *routes) cables(leaf int) int {
	used := map[int32]bool{}
	for _, way := range r.way[leaf] {
		if len(way) > 0 {
			used[way[0]] = true
		}
	}
	return len(used)
}
