package fors

import "math/bits"

// board holds one phase while its lanes are rearranged. In a phase the transfers between
// leaves are the edges of a bipartite multigraph, source leaves on the left and destination
// leaves on the right, and their lanes are a colouring, in which an edge may only have
// colours that are up at both ends and open at its destination.
type board struct {
	lanes, leaves, words int
	leaf                 []int32   // [server]
	up                   []uint64  // [leaf·words + word] lanes that are up
	open                 []LaneSet // [server], nil if every lane is open
	own                  []Lane    // [server] on which it receives while nothing has failed; nil if irrelevant

	to    []Server    // the phase's rows in its plan
	lane  []Lane      //
	from  []Server    // [destination] its source, Idle if none
	via   [2][]Server // [end][leaf·lanes + lane] the source whose transfer has the lane, Idle if none
	free  [2][]uint64 // [end][leaf·words + word] lanes that are up and not taken
	way   []Server    // a chain's transfers, by source
	steps int         // chains examined

	forcer forcer
}

func newBoard(t *Tree) *board {
	b := &board{lanes: t.Lanes, leaves: len(t.Slots), words: (t.Lanes + 63) / 64, leaf: t.leafOf()}
	b.open = openLanes(t, len(b.leaf))
	b.from = make([]Server, len(b.leaf))
	b.up = make([]uint64, b.leaves*b.words)
	for A := range t.Up {
		for k, up := range t.Up[A] {
			if up {
				b.up[A*b.words+k>>6] |= 1 << (k & 63)
			}
		}
	}
	for end := range b.via {
		b.via[end], b.free[end] = make([]Server, b.leaves*b.lanes), make([]uint64, b.leaves*b.words)
	}
	return b
}

// load loads a phase of a plan. Transfers that cannot stay, because their lane is down,
// closed or taken, or their destination already receives, are removed from the phase and
// appended to displaced.
func (b *board) load(p *Plan, ph Phase, displaced []Pair) []Pair {
	b.to, b.lane = p.Row(ph)
	for end := range b.via {
		for i := range b.via[end] {
			b.via[end][i] = Idle
		}
		copy(b.free[end], b.up)
	}
	for d := range b.from {
		b.from[d] = Idle
	}
	for i, d := range b.to {
		s := Server(i)
		if d == Idle {
			continue
		}
		A, B, k := b.leaf[s], b.leaf[d], b.lane[s]
		switch {
		case b.from[d] != Idle:
		case A == B:
			b.from[d], b.lane[s] = s, Local
			continue
		case k >= 0 && int(k) < b.lanes && b.isFree(outward, A, k) && b.isFree(inward, B, k) && b.usable(s, d, k):
			b.from[d] = s
			b.occupy(s, k)
			continue
		}
		b.to[s], b.lane[s] = Idle, Local
		displaced = append(displaced, Pair{s, d})
	}
	return displaced
}

func (b *board) isFree(end int, leaf int32, k Lane) bool {
	return b.free[end][int(leaf)*b.words+int(k)>>6]>>(k&63)&1 != 0
}

// usable reports whether a lane leads from s to d.
func (b *board) usable(s, d Server, k Lane) bool {
	i, bit := int(k)>>6, k&63
	return b.up[int(b.leaf[s])*b.words+i]>>bit&1 != 0 && b.up[int(b.leaf[d])*b.words+i]>>bit&1 != 0 &&
		(b.open == nil || b.open[d].Has(int(k)))
}

// occupy gives the transfer of s, which has none, a lane that is free at both ends.
func (b *board) occupy(s Server, k Lane) {
	b.lane[s] = k
	for end, leaf := range [2]int32{b.leaf[s], b.leaf[b.to[s]]} {
		b.via[end][int(leaf)*b.lanes+int(k)] = s
		b.free[end][int(leaf)*b.words+int(k)>>6] &^= 1 << (k & 63)
	}
}

// leave takes its lane from the transfer of s.
func (b *board) leave(s Server) {
	k := b.lane[s]
	for end, leaf := range [2]int32{b.leaf[s], b.leaf[b.to[s]]} {
		b.via[end][int(leaf)*b.lanes+int(k)] = Idle
		b.free[end][int(leaf)*b.words+int(k)>>6] |= 1 << (k & 63)
	}
}

// idle reports whether s does not send and d does not receive.
func (b *board) idle(s, d Server) bool { return b.to[s] == Idle && b.from[d] == Idle }

// fit puts a transfer between idle servers into the phase if a lane is free or can be
// freed, and reports whether it did.
func (b *board) fit(s, d Server) bool {
	A, B := b.leaf[s], b.leaf[d]
	if A == B {
		b.to[s], b.from[d], b.lane[s] = d, s, Local
		return true
	}
	k := b.direct(s, d)
	if k < 0 {
		if k = b.exchange(s, d); k < 0 {
			return false
		}
	}
	b.to[s], b.from[d] = d, s
	b.occupy(s, k)
	return true
}

// direct returns the first lane that is free at both ends, or −1.
func (b *board) direct(s, d Server) Lane {
	out, in := b.free[outward][int(b.leaf[s])*b.words:][:b.words], b.free[inward][int(b.leaf[d])*b.words:][:b.words]
	for i, x := range out {
		if x &= in[i]; b.open != nil {
			x &= b.open[d][i]
		}
		if x != 0 {
			return Lane(i<<6 + bits.TrailingZeros64(x))
		}
	}
	return -1
}

// exchange frees a lane for a transfer from s to d by a chain of transfers that swap two
// lanes (Kempe), and returns it, or −1: a lane free at one end is freed at the other, in
// exchange for another one free there.
func (b *board) exchange(s, d Server) Lane {
	ends := [2]int32{b.leaf[s], b.leaf[d]}
	for end, leaf := range ends {
		peer := ends[1-end]
		for k := b.next(1-end, peer, 0); k >= 0; k = b.next(1-end, peer, k+1) {
			if !b.usable(s, d, k) {
				continue
			}
			for c := b.next(end, leaf, 0); c >= 0; c = b.next(end, leaf, c+1) {
				if b.chain(end, leaf, k, c) {
					return k
				}
			}
		}
	}
	return -1
}

// next returns the first lane from k on that is free at an end of a leaf, or −1.
func (b *board) next(end int, leaf int32, k Lane) Lane {
	free := b.free[end][int(leaf)*b.words:][:b.words]
	for i := int(k) >> 6; i < b.words; i++ {
		x := free[i]
		if i == int(k)>>6 {
			x &= ^uint64(0) << (k & 63)
		}
		if x != 0 {
			return Lane(i<<6 + bits.TrailingZeros64(x))
		}
	}
	return -1
}

// chain frees lane k at an end of a leaf where lane c is free: the transfer on k takes c,
// the one on c at its other end takes k, and so on. It reports whether all of them may;
// otherwise nothing changes.
func (b *board) chain(end int, leaf int32, k, c Lane) bool {
	b.way = b.way[:0]
	for x := b.via[end][int(leaf)*b.lanes+int(k)]; x != Idle; x = b.via[end][int(leaf)*b.lanes+int(k)] {
		d := b.to[x]
		if !b.usable(x, d, c) {
			return false
		}
		b.way = append(b.way, x)
		if end = 1 - end; end == inward {
			leaf = b.leaf[d]
		} else {
			leaf = b.leaf[x]
		}
		k, c = c, k
	}
	// k is the lane that the last transfer takes; those before it take c and k in
	// turn, backwards.
	for _, x := range b.way {
		b.leave(x)
	}
	for i := len(b.way) - 1; i >= 0; i-- {
		b.occupy(b.way[i], k)
		k, c = c, k
	}
	return true
}
