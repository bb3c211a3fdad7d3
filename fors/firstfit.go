package fors

import (
	"cmp"
	"math/bits"
	"slices"
)

// fitter puts transfers one by one into the earliest phase in which the source
// does not send yet, the destination does not receive yet, and a lane between
// their leaves is free on its way up and on its way down. Its bitmaps of phases
// have a bit set where something is taken.
type fitter struct {
	lanes  int // K
	plan   *Plan
	leafOf []int32   // [server]
	alpha  []int32   // [server] α
	up     []laneSet // [leaf]
	open   []laneSet // [server], nil when every lane is open

	words         int      // of a bitmap
	sends, hears  []uint64 // [server][word]
	ascend, sinks []uint64 // [leaf][word][lane], into the lane and out of it
	candidates    []Lane   // of the transfer at hand
}

// firstFit plans every pair by first fit in the order of the linear shift, in
// which a healthy tree leaves no conflicts. Where leaves and not servers bound
// the plan, links are what is scarce: same-leaf pairs then come last and fill
// what remains.
func firstFit(t *Tree, sh *shape, b Bounds) *Plan {
	w := newFitter(t, sh, b.LowerBound)
	if b.Certificate == ByLeaf {
		w.fitShift(sh, true, false)
		w.fitShift(sh, false, true)
	} else {
		w.fitShift(sh, true, true)
	}
	slices.SortFunc(w.plan.Unreachable, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(a.Dst, b.Dst))
	})
	return w.plan
}

// fitShift places the pairs of different leaves, those of one leaf, or both.
func (w *fitter) fitShift(sh *shape, remote, local bool) {
	for shift := 1; shift < len(sh.at); shift++ {
		dst := shift
		for _, s := range sh.at {
			d := sh.at[dst]
			if dst++; dst == len(sh.at) {
				dst = 0
			}
			if s == Idle || d == Idle {
				continue
			}
			if same := w.leafOf[s] == w.leafOf[d]; same && local {
				w.fitLocal(s, d)
			} else if !same && remote {
				w.fitRemote(s, d)
			}
		}
	}
}

func newFitter(t *Tree, sh *shape, lowerBound int) *fitter {
	d := newDemands(t)
	w := &fitter{
		lanes:      t.Lanes,
		plan:       NewPlan(Conservative, sh.servers, 0),
		leafOf:     make([]int32, sh.servers),
		alpha:      make([]int32, sh.servers),
		up:         d.up,
		open:       d.open,
		candidates: make([]Lane, 0, t.Lanes),
	}
	for place, s := range sh.at {
		if s != Idle {
			w.leafOf[s] = int32(sh.leaf[place/sh.M0])
			w.alpha[s] = int32(place % sh.M0)
		}
	}
	w.widen(lowerBound*5/4/64 + 1)
	return w
}

// widen gives the bitmaps more words.
func (w *fitter) widen(words int) {
	w.sends = restride(w.sends, w.words, words, w.plan.Servers)
	w.hears = restride(w.hears, w.words, words, w.plan.Servers)
	w.ascend = restride(w.ascend, w.words*w.lanes, words*w.lanes, len(w.up))
	w.sinks = restride(w.sinks, w.words*w.lanes, words*w.lanes, len(w.up))
	w.words = words
}

// restride copies a matrix into one with longer rows.
func restride(old []uint64, from, to, rows int) []uint64 {
	m := make([]uint64, rows*to)
	for r := range rows {
		copy(m[r*to:], old[r*from:(r+1)*from])
	}
	return m
}

// ends returns the bitmaps of phases in which s sends and in which d receives.
func (w *fitter) ends(s, d Server) (sends, hears []uint64) {
	return w.sends[int(s)*w.words:][:w.words], w.hears[int(d)*w.words:][:w.words]
}

// fitLocal places a same-leaf pair.
func (w *fitter) fitLocal(s, d Server) {
	for {
		sends, hears := w.ends(s, d)
		for i, x := range sends {
			if x = ^(x | hears[i]); x != 0 {
				w.take(s, d, Local, i<<6+bits.TrailingZeros64(x))
				return
			}
		}
		w.widen(2 * w.words)
	}
}

// fitRemote places a pair of different leaves, or records that no lane joins them.
func (w *fitter) fitRemote(s, d Server) {
	A, B := int(w.leafOf[s]), int(w.leafOf[d])
	if !w.findLanes(A, B, d) {
		w.plan.Unreachable = append(w.plan.Unreachable, Pair{s, d})
		return
	}
	for !w.fitCandidates(s, d, A, B) {
		w.widen(2 * w.words)
	}
}

// fitCandidates places a pair on a candidate lane, unless the bitmaps are full.
func (w *fitter) fitCandidates(s, d Server, A, B int) bool {
	sends, hears := w.ends(s, d)
	for i, x := range sends {
		if x = ^(x | hears[i]); x == 0 {
			continue
		}
		ascend := w.ascend[(A*w.words+i)*w.lanes:][:w.lanes]
		sinks := w.sinks[(B*w.words+i)*w.lanes:][:w.lanes]
		var free uint64
		for _, k := range w.candidates {
			free |= ^(ascend[k] | sinks[k])
		}
		if x &= free; x == 0 {
			continue
		}
		first := x & -x
		for _, k := range w.candidates {
			if (ascend[k]|sinks[k])&first == 0 {
				ascend[k] |= first
				sinks[k] |= first
				w.take(s, d, k, i<<6+bits.TrailingZeros64(first))
				return true
			}
		}
	}
	return false
}

// findLanes makes the lanes from leaf A to server d of leaf B the candidates,
// beginning with α(d), its lane in the shift, and tells whether there are any.
func (w *fitter) findLanes(A, B int, d Server) bool {
	w.candidates = w.candidates[:0]
	if w.lanes == 0 {
		return false
	}
	k := int(w.alpha[d]) % w.lanes
	for range w.lanes {
		if w.up[A].has(k) && w.up[B].has(k) && (w.open == nil || w.open[d].has(k)) {
			w.candidates = append(w.candidates, Lane(k))
		}
		if k++; k == w.lanes {
			k = 0
		}
	}
	return len(w.candidates) > 0
}

// take enters a transfer into the plan and marks its ends.
func (w *fitter) take(s, d Server, k Lane, ph int) {
	bit := uint64(1) << (ph & 63)
	w.sends[int(s)*w.words+ph>>6] |= bit
	w.hears[int(d)*w.words+ph>>6] |= bit
	for w.plan.Phases <= ph {
		w.plan.addPhase()
	}
	to, lane := w.plan.Row(Phase(ph))
	to[s], lane[s] = d, k
}
