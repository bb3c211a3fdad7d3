package fors

import (
	"math/bits"
	"math/rand/v2"
)

// forcer finds a lane for a transfer if no chain of swaps does. It gives the transfer the
// lane of others, which then seek new ones, and so on. A transfer driven off a lane does
// not return to it soon.
type forcer struct {
	rng      *rand.Rand
	until    []int32 // [source·lanes + lane] the step before which it does not come back
	step     int32
	homeless []Server // sources
	before   struct {
		lane []Lane
		via  [2][]Server
		free [2][]uint64
	}
}

// The most transfers that are driven off lanes for one, and the number of steps they stay
// away.
const (
	forceSteps = 300
	forceAway  = 12
)

// force puts a transfer between idle servers into the phase by driving others off their
// lanes, and reports whether all found new ones; otherwise nothing changes.
func (b *board) force(s, d Server) bool {
	if b.fit(s, d) {
		return true
	}
	if b.next(outward, b.leaf[s], 0) < 0 || b.next(inward, b.leaf[d], 0) < 0 {
		return false // every lane has a transfer, and none too many
	}
	f := &b.forcer
	if f.rng == nil {
		f.rng, f.until = rand.New(rand.NewPCG(1, 2)), make([]int32, len(b.leaf)*b.lanes)
	}
	f.before.lane = append(f.before.lane[:0], b.lane...)
	for end := range b.via {
		f.before.via[end] = append(f.before.via[end][:0], b.via[end]...)
		f.before.free[end] = append(f.before.free[end][:0], b.free[end]...)
	}
	b.to[s], b.from[d] = d, s
	f.homeless = append(f.homeless[:0], s)
	f.step += forceAway
	for range forceSteps {
		last := len(f.homeless) - 1
		x := f.homeless[last]
		f.homeless = f.homeless[:last]
		b.placeByForce(x)
		if len(f.homeless) == 0 {
			return true
		}
		f.step++
	}
	b.to[s], b.from[d] = Idle, Idle
	copy(b.lane, f.before.lane)
	for end := range b.via {
		copy(b.via[end], f.before.via[end])
		copy(b.free[end], f.before.free[end])
	}
	return false
}

// placeByForce gives a transfer a lane: one that a chain can free, or else the lane on which
// it displaces the fewest transfers.
func (b *board) placeByForce(x Server) {
	f, d := &b.forcer, b.to[x]
	k := b.direct(x, d)
	if k < 0 {
		k = b.exchange(x, d)
	}
	if k < 0 {
		k = b.leastTaken(x, d)
		for end, leaf := range [2]int32{b.leaf[x], b.leaf[d]} {
			if y := b.via[end][int(leaf)*b.lanes+int(k)]; y != Idle {
				b.leave(y)
				f.until[int(y)*b.lanes+int(k)] = f.step + forceAway
				f.homeless = append(f.homeless, y)
			}
		}
	}
	b.occupy(x, k)
}

// leastTaken returns the lane of a transfer that is taken at fewest of its ends, a random
// one of those, preferring lanes that it may return to.
func (b *board) leastTaken(x, d Server) Lane {
	f, A, B := &b.forcer, int(b.leaf[x])*b.words, int(b.leaf[d])*b.words
	choice, least, equals := Lane(-1), 0, 0
	for i := range b.words {
		usable := b.up[A+i] & b.up[B+i]
		if b.open != nil {
			usable &= b.open[d][i]
		}
		out, in := b.free[outward][A+i], b.free[inward][B+i]
		for ; usable != 0; usable &= usable - 1 {
			bit := bits.TrailingZeros64(usable)
			k := i<<6 + bit
			taken := 2 - int(out>>bit&1) - int(in>>bit&1)
			if f.until[int(x)*b.lanes+k] > f.step {
				taken += 2
			}
			switch {
			case choice < 0 || taken < least:
				choice, least, equals = Lane(k), taken, 1
			case taken == least:
				if equals++; f.rng.IntN(equals) == 0 {
					choice = Lane(k)
				}
			}
		}
	}
	return choice
}
