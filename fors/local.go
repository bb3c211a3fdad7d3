package fors

import (
	"context"
	"math/bits"
	"slices"
)

// packer places the M0(M0−1) ordered pairs of one leaf's places into phases: a
// place sends locally in phases in which it does not send to other leaves, and
// likewise receives. By section 4's symmetry the idle places are the same at
// every leaf, so one leaf is solved for all. This is the paper's g, which it
// leaves open beyond a count of idle slots; the count alone does not suffice
// (FT(2;20,18), f = 1).
type packer struct {
	n      int // places, M0
	phases int
	stride int // words of a bitmap
	words  int // words in use
	// Bitmaps of phases, [place][word]: idle while the section 4 schedule leaves
	// the place idle, free while no local pair has taken the slot either.
	idleSend, idleRecv []uint64
	freeSend, freeRecv []uint64
	// The pairs placed, −1 if none: receiver at [phase][sender], sender at
	// [phase][receiver].
	recvOf, sendOf []int16
	// The search in which a pair was last tried, [sender][receiver].
	tried  []uint32
	search uint32
}

// packLocal returns the receiver of each place's local transfer, [phase][α], −1 if none,
// and the number of phases: max(P_f, P−1), plus those needed for the pairs that fit
// nowhere.
func packLocal(ctx context.Context, sc *schedule) (local []int16, phases int, err error) {
	l := newPacker(sc)
	stuck := l.placeAll(ctx, l.order())
	for len(stuck) > 0 && ctx.Err() == nil {
		l.addPhase()
		l.search++
		stuck = l.placeAll(ctx, stuck)
	}
	return l.recvOf[:l.phases*l.n], l.phases, ctx.Err()
}

// newPacker allocates bitmaps for 2·M0 more phases than there are. That suffices: a pair
// has at most 2(M0−2) others at its ends, so among 2M0−3 idle phases one has a slot for it.
func newPacker(sc *schedule) *packer {
	n := sc.M0
	phases := max(sc.phases, n*sc.M1-1)
	l := &packer{n: n, stride: (phases+2*n)/64 + 1}
	maps := make([]uint64, 4*n*l.stride)
	size := n * l.stride
	l.idleSend, l.idleRecv = maps[:size], maps[size:2*size]
	l.freeSend, l.freeRecv = maps[2*size:3*size], maps[3*size:]
	pairs := make([]int16, 2*n*(phases+2*n))
	for i := range pairs {
		pairs[i] = -1
	}
	l.recvOf, l.sendOf = pairs[:len(pairs)/2], pairs[len(pairs)/2:]
	l.tried, l.search = make([]uint32, n*n), 1
	for range phases {
		l.addPhase()
	}
	for p := range sc.phases {
		word, bit := p>>6, uint64(1)<<(p&63)
		for α, code := range sc.row(p) {
			if code >= 0 {
				l.idleSend[α*l.stride+word] &^= bit
				l.idleRecv[int(code)%n*l.stride+word] &^= bit
			}
		}
	}
	copy(l.freeSend, l.idleSend)
	copy(l.freeRecv, l.idleRecv)
	return l
}

// addPhase appends a phase in which every place idles.
func (l *packer) addPhase() {
	word, bit := l.phases>>6, uint64(1)<<(l.phases&63)
	for i := word; i < len(l.idleSend); i += l.stride {
		l.idleSend[i] |= bit
		l.idleRecv[i] |= bit
		l.freeSend[i] |= bit
		l.freeRecv[i] |= bit
	}
	l.phases++
	l.words = word + 1
}

func (l *packer) split(pair uint32) (a, b int) { return int(pair) / l.n, int(pair) % l.n }

// order lists the pairs a·M0+b, those with the fewest possible phases first.
func (l *packer) order() []uint32 {
	keys := make([]uint64, 0, l.n*(l.n-1))
	for a := range l.n {
		for b := range l.n {
			if a == b {
				continue
			}
			count := 0
			for w := range l.words {
				count += bits.OnesCount64(l.idleSend[a*l.stride+w] & l.idleRecv[b*l.stride+w])
			}
			keys = append(keys, uint64(count)<<32|uint64(a*l.n+b))
		}
	}
	slices.Sort(keys)
	pairs := make([]uint32, len(keys))
	for i, key := range keys {
		pairs[i] = uint32(key)
	}
	return pairs
}

// placeAll places as many of the pairs as it can and returns the others. Pairs tried
// without success stay marked until a search succeeds, so a hopeless round costs no more
// than one search.
func (l *packer) placeAll(ctx context.Context, pairs []uint32) (stuck []uint32) {
	stuck = pairs[:0]
	for _, pair := range pairs {
		if a, b := l.split(pair); ctx.Err() != nil || !l.place(a, b) {
			stuck = append(stuck, pair)
		}
	}
	return stuck
}

// place puts a pair into the first phase that suits it, or else moves placed
// pairs along an ejection chain until it fits. It changes nothing when it fails.
func (l *packer) place(a, b int) bool {
	if l.placeFree(a, b) || l.eject(a, b) {
		l.search++
		return true
	}
	return false
}

func (l *packer) placeFree(a, b int) bool {
	send, recv := l.freeSend[a*l.stride:][:l.words], l.freeRecv[b*l.stride:][:l.words]
	for w, x := range send {
		if x &= recv[w]; x != 0 {
			l.put(a, b, w<<6+bits.TrailingZeros64(x))
			return true
		}
	}
	return false
}

// eject tries each phase in which one other pair is in the way, and moves that pair.
func (l *packer) eject(a, b int) bool {
	l.tried[a*l.n+b] = l.search
	send, recv := a*l.stride, b*l.stride
	for w := range l.words {
		for x := l.freeSend[send+w] & l.idleRecv[recv+w] &^ l.freeRecv[recv+w]; x != 0; x &= x - 1 {
			p := w<<6 + bits.TrailingZeros64(x)
			if l.displace(a, b, int(l.sendOf[p*l.n+b]), b, p) {
				return true
			}
		}
		for x := l.freeRecv[recv+w] & l.idleSend[send+w] &^ l.freeSend[send+w]; x != 0; x &= x - 1 {
			p := w<<6 + bits.TrailingZeros64(x)
			if l.displace(a, b, a, int(l.recvOf[p*l.n+a]), p) {
				return true
			}
		}
	}
	return false
}

// displace puts (a, b) into phase p in the place of (a2, b2) if that pair finds
// another phase.
func (l *packer) displace(a, b, a2, b2, p int) bool {
	if l.tried[a2*l.n+b2] == l.search {
		return false
	}
	l.occupy(a2, b2, p)
	l.put(a, b, p)
	if l.placeFree(a2, b2) || l.eject(a2, b2) {
		return true
	}
	l.occupy(a, b, p)
	l.put(a2, b2, p)
	return false
}

func (l *packer) put(a, b, p int) {
	word, bit := p>>6, uint64(1)<<(p&63)
	l.freeSend[a*l.stride+word] &^= bit
	l.freeRecv[b*l.stride+word] &^= bit
	l.recvOf[p*l.n+a], l.sendOf[p*l.n+b] = int16(b), int16(a)
}

func (l *packer) occupy(a, b, p int) {
	word, bit := p>>6, uint64(1)<<(p&63)
	l.freeSend[a*l.stride+word] |= bit
	l.freeRecv[b*l.stride+word] |= bit
	l.recvOf[p*l.n+a], l.sendOf[p*l.n+b] = -1, -1
}
