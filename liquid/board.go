package liquid

import (
	"context"
	"math/bits"
	"slices"
)

// board is a partial schedule: the transfer on each link in each step. Its memory is
// proportional to links times steps, and it needs no conflict graph.
type board struct {
	t     *Traffic
	k     int        // steps
	room  int        // allocated steps
	words int        // of a set of steps
	owner []Transfer // [link·room+step] −1 without one
	taken []uint64   // [link·words…] the steps with an owner
	open  []uint64   // [class·words…] the steps that a class may use
	class []uint8    // [step] the slowest class that may use it
	step  []int32    // [transfer] −1 without one
	left  int        // transfers without a step
	free  []uint64   // scratch: a set of steps
}

// newBoard makes a board without steps, with room for some.
func newBoard(t *Traffic, room int) *board {
	b := &board{t: t, step: make([]int32, t.Len()), left: t.Len()}
	for x := range b.step {
		b.step[x] = -1
	}
	b.resize(max(room, 1))
	return b
}

// resize allocates room for more steps.
func (b *board) resize(room int) {
	words := (room + 63) / 64
	owner, taken := make([]Transfer, b.t.links*room), make([]uint64, b.t.links*words)
	open := make([]uint64, len(b.t.rates)*words)
	for l := range b.t.links {
		n := copy(owner[l*room:(l+1)*room], b.owner[l*b.room:(l+1)*b.room])
		for ; n < room; n++ {
			owner[l*room+n] = -1
		}
		copy(taken[l*words:], b.taken[l*b.words:(l+1)*b.words])
	}
	for c := range b.t.rates {
		copy(open[c*words:], b.open[c*b.words:(c+1)*b.words])
	}
	b.room, b.words, b.owner, b.taken, b.open, b.free = room, words, owner, taken, open, make([]uint64, words)
}

// addStep adds a step that lasts as long as a transfer of class c takes, for that
// class and all faster ones.
func (b *board) addStep(c uint8) {
	if b.k == b.room {
		b.resize(b.room + b.room/4 + 8)
	}
	for i := int(c); i < len(b.t.rates); i++ {
		b.open[i*b.words+b.k/64] |= 1 << (b.k % 64)
	}
	b.class = append(b.class, c)
	b.k++
}

// dropStep removes the last step, which must be empty.
func (b *board) dropStep() {
	b.k--
	b.class = b.class[:b.k]
	for i := range b.t.rates {
		b.open[i*b.words+b.k/64] &^= 1 << (b.k % 64)
	}
}

// roomFor returns the steps that transfer x may use and in which all its links are
// free. The next call overwrites the result.
func (b *board) roomFor(x Transfer) []uint64 {
	copy(b.free, b.open[int(b.t.class[x])*b.words:])
	for _, l := range b.t.Path(x) {
		for w, v := range b.taken[int(l)*b.words : (int(l)+1)*b.words] {
			b.free[w] &^= v
		}
	}
	return b.free
}

// firstFree returns the first step with room for x, or −1.
func (b *board) firstFree(x Transfer) int32 {
	open, path := b.open[int(b.t.class[x])*b.words:], b.t.Path(x)
	for w := range b.words {
		v := open[w]
		for _, l := range path {
			v &^= b.taken[int(l)*b.words+w]
		}
		if v != 0 {
			return int32(w<<6 + bits.TrailingZeros64(v))
		}
	}
	return -1
}

// blocked reports whether one of x's links is taken in a step.
func (b *board) blocked(x Transfer, step int32) bool {
	for _, l := range b.t.Path(x) {
		if b.taken[int(l)*b.words+int(step>>6)]>>(step&63)&1 != 0 {
			return true
		}
	}
	return false
}

// fits reports whether x may use a step and has room in it.
func (b *board) fits(x Transfer, step int32) bool {
	return b.open[int(b.t.class[x])*b.words+int(step>>6)]>>(step&63)&1 != 0 && !b.blocked(x, step)
}

// placeFirst puts x into the first step with room for it, if any.
func (b *board) placeFirst(x Transfer) {
	if step := b.firstFree(x); step >= 0 {
		b.place(x, step)
	}
}

// placeRest places transfers without a step in existing steps with room, until the
// context ends.
func (b *board) placeRest(ctx context.Context) {
	for x, step := range b.step {
		if x&1023 == 0 && ctx.Err() != nil {
			return
		}
		if step < 0 {
			b.placeFirst(Transfer(x))
		}
	}
}

// slowestLeft is the class of the slowest transfer without a step; one must exist.
func (b *board) slowestLeft() uint8 {
	slowest := uint8(len(b.t.rates) - 1)
	for x, step := range b.step {
		if step < 0 {
			slowest = min(slowest, b.t.class[x])
		}
	}
	return slowest
}

// time is the total duration of the board's steps, each with its slowest transfers.
func (b *board) time() float64 {
	time := 0.0
	for _, c := range b.class {
		time += b.t.duration(c)
	}
	return time
}

// place puts x, which has no step, into a step with room for it.
func (b *board) place(x Transfer, step int32) {
	for _, l := range b.t.Path(x) {
		b.owner[int(l)*b.room+int(step)] = x
		b.taken[int(l)*b.words+int(step>>6)] |= 1 << (step & 63)
	}
	b.step[x] = step
	b.left--
}

// remove takes x out of its step.
func (b *board) remove(x Transfer) {
	step := b.step[x]
	for _, l := range b.t.Path(x) {
		b.owner[int(l)*b.room+int(step)] = -1
		b.taken[int(l)*b.words+int(step>>6)] &^= 1 << (step & 63)
	}
	b.step[x] = -1
	b.left++
}

// completed returns a complete schedule: it places the transfers without a step, slower ones
// first, in the first step with room or in a new one, on a copy of the board.
func (b *board) completed() Schedule {
	c := *b
	c.owner, c.taken, c.open = slices.Clone(b.owner), slices.Clone(b.taken), slices.Clone(b.open)
	c.class, c.step, c.free = slices.Clone(b.class), slices.Clone(b.step), slices.Clone(b.free)
	for class := range b.t.rates {
		for x, step := range b.step {
			if step < 0 && int(b.t.class[x]) == class {
				c.placeSomewhere(Transfer(x))
			}
		}
	}
	return c.schedule()
}

// placeSomewhere places x in the first step with room, or in a new one.
func (b *board) placeSomewhere(x Transfer) {
	step := b.firstFree(x)
	if step < 0 {
		step = int32(b.k)
		b.addStep(b.t.class[x])
	}
	b.place(x, step)
}

// schedule returns the schedule of a board on which all transfers have a step.
func (b *board) schedule() Schedule { return scheduleOf(b.step, b.k) }
