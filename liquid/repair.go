package liquid

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
)

// repairer finds steps for the transfers that have none. It puts one into the
// step where those in its way cost least, and takes these out; they come next: a
// local search on partial colourings, as PartialCol (Blöchliger and Zufferey,
// Computers & Operations Research 35, 2008). A transfer does not return at once to
// where it was.
//
// Where more than one would have to go, it depends. Four fifths of the time the
// search is cold: it mostly leaves things as they are and turns to the next
// transfer, which suits schedules with hardly a step to spare. The rest it is hot:
// it goes on as long as the transfers left over are not many more than at best,
// and those that were taken out often cost more, so that no few of them go on to
// chase each other, which suits schedules that are nearly done.
type repairer struct {
	*board
	rng   *rand.Rand
	queue []Transfer // transfers without a step, from head on
	head  int
	out   []int32 // [transfer] how often it was taken out
	last  []int32 // [transfer] the step it was taken out of last
	until []int64 // [transfer] the move before which it does not return there
	moves int64
	least int     // transfers left over at best
	price []int32 // scratch: [step]
}

// What a transfer in the way costs when the search is cold: oneOut, and how often
// it was taken out, which decides between steps with as many in the way.
const (
	oneOut    = 1 << 16
	mostOften = 1<<12 - 1
)

// How the search goes on where more than one transfer is in the way.
const (
	season = 100_000 // moves
	summer = 20_000  // of them hot, the first ones
	more   = 30      // transfers left over, than at best, that are borne when hot
	warm   = 0.003   // chance to take out one more when cold
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

// run moves transfers until all have a step, or there was
// not one more with a step than ever before in the given number of moves.
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

// worth tells whether to put x into a step, where others are in its way.
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

// inTheWay is the number of transfers in a step that x congests with.
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

// cheapest is the step in which those in x's way cost least, any of equals, −1
// where there is none. One that is in the way on two links counts twice.
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

// clearWay takes those out of a step that are in x's way.
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
