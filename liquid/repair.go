package liquid

import (
	"context"
	"math/bits"
	"math/rand/v2"
)

// repairer finds steps for the transfers that have none. It puts one into a step
// where it costs least and takes those out that are in its way; these come next.
// A transfer costs the more the more often it was taken out, so that no few of
// them go on to chase each other, and does not return at once to where it was.
type repairer struct {
	*board
	rng     *rand.Rand
	queue   []Transfer // transfers without a step, a ring
	head    int
	cost    []int32 // [transfer] 1 + how often it was taken out
	last    []int32 // [transfer] the step it was taken out of last
	until   []int64 // [transfer] the move before which it does not return there
	moves   int64
	price   []int32 // scratch: [step]
	evicted []Transfer
}

func newRepairer(b *board, seed uint64) *repairer {
	r := &repairer{board: b, rng: rand.New(rand.NewPCG(seed, 1))}
	r.cost, r.last, r.until = make([]int32, b.t.Len()), make([]int32, b.t.Len()), make([]int64, b.t.Len())
	for x := range r.cost {
		r.cost[x], r.last[x] = 1, -1
		if b.step[x] < 0 {
			r.queue = append(r.queue, Transfer(x))
		}
	}
	return r
}

// run makes up to the given number of moves, and tells whether all transfers have
// a step.
func (r *repairer) run(ctx context.Context, moves int64) bool {
	for end := r.moves + moves; r.head < len(r.queue); r.moves++ {
		if r.moves >= end || r.moves&255 == 0 && ctx.Err() != nil {
			return false
		}
		x := r.queue[r.head]
		if r.head++; r.head > 4096 && 2*r.head > len(r.queue) {
			r.queue = r.queue[:copy(r.queue, r.queue[r.head:])]
			r.head = 0
		}
		step, free := r.freeStep(x)
		if !free {
			if step = r.cheapest(x); step < 0 {
				r.queue = append(r.queue, x)
				continue
			}
			r.clearWay(x, step)
		}
		r.place(x, step)
	}
	return true
}

// freeStep is a step with room for x, any of them.
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

// cheapest is the step in which those in x's way cost least, any of equals, −1
// where there is none. One that is in the way on two links counts twice.
func (r *repairer) cheapest(x Transfer) int32 {
	if cap(r.price) < r.k {
		r.price = make([]int32, r.room)
	}
	price := r.price[:r.k]
	clear(price)
	for _, l := range r.t.Path(x) {
		for s, y := range r.owner[int(l)*r.room : int(l)*r.room+r.k] {
			if y >= 0 {
				price[s] += r.cost[y]
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

// clearWay takes those out of a step that are in x's way.
func (r *repairer) clearWay(x Transfer, step int32) {
	for _, l := range r.t.Path(x) {
		y := r.owner[int(l)*r.room+int(step)]
		if y < 0 {
			continue
		}
		r.remove(y)
		r.cost[y]++
		r.last[y], r.until[y] = step, r.moves+10+int64(r.rng.IntN(10))+int64(len(r.queue)-r.head)
		r.queue = append(r.queue, y)
	}
}
