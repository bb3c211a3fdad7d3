package liquid

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
)

// repairer finds steps for the transfers that have none: a tabu search on partial
// colourings, like PartialCol (Blöchliger and Zufferey, Computers & Operations Research
// 35, 2008). It puts a transfer into the step where the conflicting transfers cost least,
// and evicts these; they come next. For some moves a transfer does not return to the step
// that it was evicted from.
//
// If more than one transfer conflicts, the phase decides. For four fifths of the moves the
// search is cold: it mostly skips the transfer, which suits schedules with hardly a step
// to spare. Otherwise it is hot: it evicts them unless many more transfers than the least
// so far would be left over, and transfers that were evicted often cost more, so that the
// search does not cycle among a few. This suits schedules that are nearly complete.
type repairer struct {
	*board
	rng   *rand.Rand
	queue []Transfer // transfers without a step, from head on
	head  int
	out   []int32 // [transfer] number of evictions
	last  []int32 // [transfer] the step of the last eviction
	until []int64 // [transfer] the move before which it does not return there
	moves int64
	least int     // fewest transfers left over so far
	price []int32 // scratch: [step]
}

// The cost of a conflicting transfer when the search is cold: oneOut plus its number of
// evictions, which decides between steps with as many conflicts.
const (
	oneOut    = 1 << 16
	mostOften = 1<<12 - 1
)

// The handling of more than one conflicting transfer.
const (
	season = 100_000 // moves
	summer = 20_000  // the first of them, which are hot
	more   = 30      // transfers left over beyond the fewest so far that are tolerated when hot
	warm   = 0.003   // probability to evict one more when cold
)

func (r *repairer) hot() bool { return r.moves%season < summer }

func newRepairer(b *board, seed uint64) *repairer {
	r := &repairer{board: b, rng: rand.New(rand.NewPCG(seed, 1))}
	r.out, r.last, r.until = make([]int32, b.t.Len()), make([]int32, b.t.Len()), make([]int64, b.t.Len())
	for x := range r.out {
		r.last[x] = -1
		if b.step[x] < 0 {
			r.queue = append(r.queue, Transfer(x))
		}
	}
	return r
}

// run moves transfers until all have a step, or until the given number of moves has not
// lowered the fewest left over.
func (r *repairer) run(ctx context.Context, moves int64) {
	r.least = r.left
	for end := r.moves + moves; r.left > 0; r.moves++ {
		if r.moves >= end || r.moves&255 == 0 && ctx.Err() != nil {
			return
		}
		if r.left < r.least {
			r.least, end = r.left, r.moves+moves
		}
		x := r.queue[r.head]
		if r.head++; r.head > 4096 && 2*r.head > len(r.queue) {
			r.queue = r.queue[:copy(r.queue, r.queue[r.head:])]
			r.head = 0
		}
		step, free := r.freeStep(x)
		if !free {
			if step = r.cheapest(x); step < 0 || !r.worth(x, step) {
				r.queue = append(r.queue, x)
				continue
			}
			r.clearWay(x, step)
		}
		r.place(x, step)
	}
}

// freeStep returns a random step with room for x.
func (r *repairer) freeStep(x Transfer) (step int32, ok bool) {
	free := r.roomFor(x)
	n := 0
	for _, v := range free {
		n += bits.OnesCount64(v)
	}
	if n == 0 {
		return -1, false
	}
	n = r.rng.IntN(n)
	for w, v := range free {
		c := bits.OnesCount64(v)
		if n >= c {
			n -= c
			continue
		}
		for ; n > 0; n-- {
			v &= v - 1
		}
		return int32(w<<6 + bits.TrailingZeros64(v)), true
	}
	return -1, false
}

// worth reports whether to put x into a step in which it conflicts with others.
func (r *repairer) worth(x Transfer, step int32) bool {
	n := r.inTheWay(x, step)
	switch {
	case n == 1:
		return true
	case r.hot():
		return r.left-1+n <= r.least+more
	}
	return r.rng.Float64() < math.Pow(warm, float64(n-1))
}

// inTheWay is the number of transfers in a step that x conflicts with.
func (r *repairer) inTheWay(x Transfer, step int32) int {
	n, path := 0, r.t.Path(x)
	for i, l := range path {
		y := r.owner[int(l)*r.room+int(step)]
		again := y < 0
		for _, m := range path[:i] {
			again = again || r.owner[int(m)*r.room+int(step)] == y
		}
		if !again {
			n++
		}
	}
	return n
}

// cheapest returns the step in which conflicts with x cost least, at random among equals,
// or −1. A transfer that conflicts on two links counts twice.
func (r *repairer) cheapest(x Transfer) int32 {
	if cap(r.price) < r.k {
		r.price = make([]int32, r.room)
	}
	price := r.price[:r.k]
	clear(price)
	one, often := int32(oneOut), int32(mostOften)
	if r.hot() {
		one, often = 1, math.MaxInt32
	}
	for _, l := range r.t.Path(x) {
		for s, y := range r.owner[int(l)*r.room : int(l)*r.room+r.k] {
			if y >= 0 {
				price[s] += one + min(often, r.out[y])
			}
		}
	}
	class := int(r.t.class[x])
	open := r.open[class*r.words : (class+1)*r.words]
	best, equals := int32(-1), 0
	for s, p := range price {
		if open[s>>6]>>(s&63)&1 == 0 || int32(s) == r.last[x] && r.moves < r.until[x] {
			continue
		}
		switch {
		case best < 0 || p < price[best]:
			best, equals = int32(s), 1
		case p == price[best]:
			if equals++; r.rng.IntN(equals) == 0 {
				best = int32(s)
			}
		}
	}
	return best
}

// clearWay evicts the transfers of a step that conflict with x.
func (r *repairer) clearWay(x Transfer, step int32) {
	for _, l := range r.t.Path(x) {
		y := r.owner[int(l)*r.room+int(step)]
		if y < 0 {
			continue
		}
		r.remove(y)
		r.out[y]++
		r.last[y], r.until[y] = step, r.moves+10+int64(r.rng.IntN(10))+int64(len(r.queue)-r.head)
		r.queue = append(r.queue, y)
	}
}
