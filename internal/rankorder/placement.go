package rankorder

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// ringWeight makes a collision of the ring weigh more than all of recursive doubling.
const ringWeight = 1 << 24

// evaluations is the maximum number of exchanges of two hosts to evaluate. One round in wide
// evaluates exchanges between hosts of different leaves.
const (
	evaluations = 1_000_000
	wide        = 50
)

// placement assigns a host to each place, and counts the transfers that meet on links.
type placement struct {
	*routes
	perHost int
	host    []int32      // [place]
	steps   [][]transfer // the ring comes first
	of      [][]ref      // [place] transfers of its ranks
	load    [][]int32    // [step][link]
	cost    int          // pairs of transfers that meet on a link
	seen    []int32      // [transfer, over all steps] the last evaluation of it
	look    int32
	touched []ref
}

// ref is a transfer of a step.
type ref struct{ step, transfer, number int32 }

func newPlacement(r *routes, perHost int, host []int32) *placement {
	p := &placement{routes: r, perHost: perHost, host: host, of: make([][]ref, r.hosts)}
	ranks := r.hosts * perHost
	p.steps = append([][]transfer{ring(ranks)}, doubling(ranks)...)
	number := int32(0)
	for s, step := range p.steps {
		p.load = append(p.load, make([]int32, r.links))
		for i, t := range step {
			from, to := t.from/int32(perHost), t.to/int32(perHost)
			if from == to {
				continue
			}
			x := ref{int32(s), int32(i), number}
			number++
			p.of[from] = append(p.of[from], x)
			p.of[to] = append(p.of[to], x)
			p.add(x)
		}
	}
	p.seen = make([]int32, number)
	return p
}

// way returns the links of a transfer.
func (p *placement) way(x ref) []int32 {
	t := p.steps[x.step][x.transfer]
	from, to := p.host[t.from/int32(p.perHost)], p.host[t.to/int32(p.perHost)]
	return p.routes.way[p.leaf[from]][to]
}

func (p *placement) add(x ref) {
	for _, l := range p.way(x) {
		p.cost += weight(x) * int(p.load[x.step][l])
		p.load[x.step][l]++
	}
}

func (p *placement) remove(x ref) {
	for _, l := range p.way(x) {
		p.load[x.step][l]--
		p.cost -= weight(x) * int(p.load[x.step][l])
	}
}

func weight(x ref) int {
	if x.step == 0 {
		return ringWeight
	}
	return 1
}

// swap exchanges the hosts of two places.
func (p *placement) swap(a, b int) {
	p.look++
	p.touched = p.touched[:0]
	for _, place := range [2]int{a, b} {
		for _, x := range p.of[place] {
			if p.seen[x.number] != p.look {
				p.seen[x.number] = p.look
				p.touched = append(p.touched, x)
				p.remove(x)
			}
		}
	}
	p.host[a], p.host[b] = p.host[b], p.host[a]
	for _, x := range p.touched {
		p.add(x)
	}
}

// meets reports whether a transfer of a place meets another transfer.
func (p *placement) meets(place int) bool {
	for _, x := range p.of[place] {
		for _, l := range p.way(x) {
			if p.load[x.step][l] > 1 {
				return true
			}
		}
	}
	return false
}

// improve exchanges hosts while transfers meet. It exchanges the host of a place whose
// transfers meet others with the host that gains most, or loses least, and moves neither again
// soon (tabu search). Most of the time it evaluates only hosts of the same leaf, which do not
// affect a ring. It ends with the best order found, as soon as that is good.
func (p *placement) improve(ctx context.Context, good func(*placement) bool) {
	rng := rand.New(rand.NewPCG(1, uint64(p.hosts)))
	best, bestCost := slices.Clone(p.host), p.cost
	tabu := make([]int, p.hosts) // [place] its host stays until this round
	done := good(p)
	for round, left := 0, evaluations; left > 0 && !done && ctx.Err() == nil; round++ {
		a := rng.IntN(p.hosts)
		for i := 0; i < p.hosts && !p.meets(a); i++ {
			a = (a + 1) % p.hosts
		}
		within := rng.IntN(wide) > 0
		with, gain := -1, 0
		for i, first := 0, rng.IntN(p.hosts); i < p.hosts; i++ {
			b := (first + i) % p.hosts
			if b == a || within && p.leaf[p.host[a]] != p.leaf[p.host[b]] {
				continue
			}
			left--
			before := p.cost
			p.swap(a, b)
			after := p.cost
			p.swap(a, b)
			if (tabu[a] > round || tabu[b] > round) && after >= bestCost {
				continue
			}
			if with < 0 || before-after > gain {
				with, gain = b, before-after
			}
		}
		left--
		if with < 0 {
			continue
		}
		p.swap(a, with)
		tabu[a], tabu[with] = round+5+rng.IntN(5), round+5+rng.IntN(5)
		if p.cost < bestCost {
			bestCost = p.cost
			copy(best, p.host)
			done = good(p)
		}
	}
	*p = *newPlacement(p.routes, p.perHost, best)
}

// most returns the largest number of transfers on a link for the ring, and for a step of
// recursive doubling.
func (p *placement) most() (ring, doubling int) {
	for s, load := range p.load {
		for _, n := range load {
			if s == 0 {
				ring = max(ring, int(n))
			} else {
				doubling = max(doubling, int(n))
			}
		}
	}
	return ring, doubling
}

// better compares two placements by their busiest links.
func (p *placement) better(other *placement) bool {
	r, d := p.most()
	or, od := other.most()
	if r != or {
		return r < or
	}
	return d < od || d == od && p.cost < other.cost
}

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
