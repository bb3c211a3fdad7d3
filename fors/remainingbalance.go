package fors

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
)

// balancer moves transfers between phases, so that leaves with more transfers than living
// lanes in one phase have fewer there. The transfers of two phases are paths and cycles in
// the graph of servers; swapping the phases of one of them leaves each server one transfer
// a phase, and moves same-leaf transfers, which need no lane, and idle ends to where lanes
// are scarce.
type balancer struct {
	plan   *Plan
	leaf   []int32 // [server]
	leaves int
	over   []int32      // [phase][end][leaf] transfers over living lanes
	from   []Server     // [phase][destination] its source, Idle if none
	rows   [2]phaseRows // the two current phases
	shift  [2][]int32   // [end][leaf] what a swap adds to the first phase
	gained []int32      // [end][leaf] sum of the swaps so far
	part   []int32      // [source] when it was last seen
	round  int32
	way    []Server // the sources of a path or cycle
	work   int      // steps left
	givers []giver
}

// phaseRows are the rows of a phase.
type phaseRows struct {
	to, from []Server
	lane     []Lane
	over     []int32 // [end][leaf]
}

func newBalancer(t *Tree, p *Plan) *balancer {
	n := len(t.Slots)
	x := &balancer{plan: p, leaf: t.leafOf(), leaves: n, over: make([]int32, 2*n*p.Phases), from: make([]Server, len(p.To)),
		gained: make([]int32, 2*n), part: make([]int32, p.Servers)}
	for i := range x.from {
		x.from[i] = Idle
	}
	for i, d := range p.To {
		if d != Idle {
			x.from[i/p.Servers*p.Servers+int(d)] = Server(i % p.Servers)
		}
	}
	for ph := range p.Phases {
		r := x.phase(ph)
		for A, up := range t.Up {
			living := int32(commonLanes(up, up))
			r.over[A], r.over[n+A] = -living, -living
		}
		for s, d := range r.to {
			if d != Idle && x.leaf[s] != x.leaf[d] {
				r.over[x.leaf[s]]++
				r.over[int32(n)+x.leaf[d]]++
			}
		}
	}
	for end := range x.shift {
		x.shift[end] = make([]int32, n)
	}
	return x
}

func (x *balancer) phase(ph int) phaseRows {
	to, lane := x.plan.Row(Phase(ph))
	return phaseRows{to, x.from[ph*x.plan.Servers:][:x.plan.Servers], lane, x.over[2*x.leaves*ph:][:2*x.leaves]}
}

// The work limits of balancing: phases examined for the one with the largest gain, steps
// from server to server in doing so, and steps in swaps with random phases.
const (
	balanceGivers = 32
	balanceWork   = 1 << 24
	wanderWork    = 1 << 23
)

// balance swaps parts of phases while that reduces the excess over living lanes, each phase
// with the one of largest gain. The remaining excess then walks at random from phase to
// phase until it meets room.
func (x *balancer) balance(ctx context.Context) {
	x.work = balanceWork
	for a := range x.plan.Phases {
		for more := true; more && ctx.Err() == nil; {
			more = x.relieve(a)
		}
	}
	x.wander(ctx, wanderWork/max(1, x.plan.Servers))
}

// wander swaps parts of phases that have excess with random phases, unless that adds to the
// excess, until the excess is gone or the given number of steps is done.
func (x *balancer) wander(ctx context.Context, steps int) {
	rng := rand.New(rand.NewPCG(1, 2))
	var tight []int // phases with excess
	for ph := range x.plan.Phases {
		if x.excess(ph) > 0 {
			tight = append(tight, ph)
		}
	}
	for ; steps > 0 && len(tight) > 0 && ctx.Err() == nil; steps-- {
		i := rng.IntN(len(tight))
		a, b := tight[i], rng.IntN(x.plan.Phases)
		if a == b {
			continue
		}
		calm := x.excess(b) == 0
		x.rows = [2]phaseRows{x.phase(a), x.phase(b)}
		x.swap(true, rng)
		if x.excess(a) == 0 {
			tight[i] = tight[len(tight)-1]
			tight = tight[:len(tight)-1]
		}
		switch busy := x.excess(b) > 0; {
		case calm && busy:
			tight = append(tight, b)
		case !calm && !busy:
			tight = slices.DeleteFunc(tight, func(ph int) bool { return ph == b })
		}
	}
}

func (x *balancer) excess(ph int) (sum int) {
	for _, over := range x.phase(ph).over {
		sum += int(max(0, over))
	}
	return sum
}

// relieve swaps parts of a phase with excess with the phase of largest gain, among those
// that may have the largest, and reports whether any has a gain.
func (x *balancer) relieve(a int) bool {
	if x.excess(a) == 0 || x.work < 0 {
		return false
	}
	x.rows[0] = x.phase(a)
	x.givers = x.givers[:0]
	for b := range x.plan.Phases {
		if most := x.atMost(x.rows[0].over, x.phase(b).over); most > 0 && a != b {
			x.givers = append(x.givers, giver{b, most})
		}
	}
	slices.SortFunc(x.givers, func(a, b giver) int { return cmp.Or(b.most-a.most, a.phase-b.phase) })
	x.work -= x.plan.Phases * x.leaves
	best, most := -1, 0
	for _, g := range x.givers[:min(len(x.givers), balanceGivers)] {
		if g.most <= most {
			break
		}
		x.work -= x.plan.Servers
		x.rows[1] = x.phase(g.phase)
		if gain := x.swap(false, nil); gain > most {
			best, most = g.phase, gain
		}
	}
	if best < 0 {
		return false
	}
	x.rows[1] = x.phase(best)
	x.swap(true, nil)
	return true
}

// giver is a phase and an upper bound of its gain.
type giver struct{ phase, most int }

// atMost returns an upper bound of the gain by swaps between two phases.
func (x *balancer) atMost(a, b []int32) (sum int) {
	for i, over := range a {
		sum += int(min(max(0, over), max(0, -b[i])))
		sum += int(min(max(0, b[i]), max(0, -over)))
	}
	return sum
}

// swap goes through the paths and cycles of the two phases and returns by how much the
// profitable swaps reduce the excess; given a source of random numbers, it includes every
// other one that makes no difference. If apply is set, it makes the swaps.
func (x *balancer) swap(apply bool, sideways *rand.Rand) (gain int) {
	x.round++
	clear(x.gained)
	for s := range x.part {
		if x.part[s] == x.round || x.rows[0].to[s] == Idle && x.rows[1].to[s] == Idle {
			continue
		}
		x.trace(Server(s))
		g := x.weigh()
		if g < 0 || g == 0 && (sideways == nil || sideways.IntN(2) == 0) {
			continue
		}
		gain += g
		for end := range x.shift {
			for A, shift := range x.shift[end] {
				x.gained[end*x.leaves+A] += shift
			}
		}
		if apply {
			x.exchange()
		}
	}
	if apply {
		for i, change := range x.gained {
			x.rows[0].over[i] += change
			x.rows[1].over[i] -= change
		}
	}
	return gain
}

// trace finds the path or cycle through a source.
func (x *balancer) trace(first Server) {
	x.way = append(x.way[:0], first)
	x.part[first] = x.round
	for i := range 2 { // out along the one phase and back along the other
		for s := first; ; {
			d := x.rows[i].to[s]
			if d == Idle {
				break
			}
			if s = x.rows[1-i].from[d]; s == Idle || x.part[s] == x.round {
				break
			}
			x.part[s] = x.round
			x.way = append(x.way, s)
		}
	}
}

// weigh returns by how much a swap of the way reduces the excess.
func (x *balancer) weigh() (gain int) {
	clear(x.shift[outward])
	clear(x.shift[inward])
	for _, s := range x.way {
		for i, change := range [2]int32{-1, 1} {
			if d := x.rows[i].to[s]; d != Idle && x.leaf[d] != x.leaf[s] {
				x.shift[outward][x.leaf[s]] += change
				x.shift[inward][x.leaf[d]] += change
			}
		}
	}
	for end := range x.shift {
		for A, shift := range x.shift[end] {
			if shift != 0 {
				i := end*x.leaves + A
				a, b := x.rows[0].over[i]+x.gained[i], x.rows[1].over[i]-x.gained[i]
				gain += int(max(0, a) + max(0, b) - max(0, a+shift) - max(0, b-shift))
			}
		}
	}
	return gain
}

// exchange swaps the way.
func (x *balancer) exchange() {
	a, b := &x.rows[0], &x.rows[1]
	for _, s := range x.way {
		if d := a.to[s]; d != Idle {
			a.from[d] = Idle
		}
		if d := b.to[s]; d != Idle {
			b.from[d] = Idle
		}
	}
	for _, s := range x.way {
		a.to[s], b.to[s] = b.to[s], a.to[s]
		a.lane[s], b.lane[s] = b.lane[s], a.lane[s]
		if d := a.to[s]; d != Idle {
			a.from[d] = s
		}
		if d := b.to[s]; d != Idle {
			b.from[d] = s
		}
	}
}
