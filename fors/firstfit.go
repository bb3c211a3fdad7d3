package fors

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
)

// fitter puts transfers one by one into the earliest phase in which the source does not
// send, the destination does not receive, and a lane between their leaves is free on both
// links. In its bitmaps of phases a set bit means occupied.
type fitter struct {
	lanes int // K
	plan  *Plan
	group []int     // [server] γ
	base  []Lane    // [server] its lane in the shift, α mod K
	up    []LaneSet // [γ]
	open  []LaneSet // [server], nil if every lane is open

	words         int      // of a bitmap
	sends, hears  []uint64 // [server][word]
	ascend, sinks []uint64 // [γ][word][lane], into the lane and out of it

	from, to   int    // leaves of the current transfer
	candidates []Lane // its lanes, ascending
}

// firstFit plans every pair by first fit in the order of the linear shift, in which a
// healthy tree leaves no conflicts. If leaves and not servers bound the plan, links are
// scarce: same-leaf pairs then come last and fill the rest. If the bound exceeds the number
// of servers by a third, which takes damage all over the tree, a second plan that begins
// with the pairs of fewest common lanes is made, and the shorter one returned: the second
// is much closer to the bound there, and worse on lighter damage.
func firstFit(ctx context.Context, t *Tree, sh *shape, b Bounds) (*Plan, error) {
	class := make([]int, sh.M1*sh.M1) // [γ of the source][γ of the destination]
	if b.Certificate == ByServers {
		return fitClasses(ctx, t, sh, b, class)
	}
	for γ := range sh.M1 {
		class[γ*sh.M1+γ] = t.Lanes + 1
	}
	p, err := fitClasses(ctx, t, sh, b, class)
	if err != nil || 3*b.LowerBound < 4*sh.servers {
		return p, err
	}
	for i := range class {
		if A, B := sh.leaf[i/sh.M1], sh.leaf[i%sh.M1]; A != B {
			class[i] = commonLanes(t.Up[A], t.Up[B])
		}
	}
	q, err := fitClasses(ctx, t, sh, b, class)
	if err != nil || q.Phases < p.Phases {
		return q, err
	}
	return p, nil
}

// commonLanes counts the lanes that are up at two leaves.
func commonLanes(a, b []bool) int {
	n := 0
	for k, up := range a {
		if up && b[k] {
			n++
		}
	}
	return n
}

// fitClasses places the pairs of leaves of the lowest class first, each class in
// the order of the linear shift.
func fitClasses(ctx context.Context, t *Tree, sh *shape, b Bounds, class []int) (*Plan, error) {
	w := newFitter(t, sh, b.LowerBound)
	classes := slices.Clone(class)
	slices.Sort(classes)
	for _, c := range slices.Compact(classes) {
		if err := w.fitClass(ctx, t, sh, class, c); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(w.plan.Unreachable, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(a.Dst, b.Dst))
	})
	return w.plan, nil
}

func (w *fitter) fitClass(ctx context.Context, t *Tree, sh *shape, class []int, c int) error {
	P := len(sh.at)
	for shift := 1; shift < P; shift++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		for src, s := range sh.at {
			if s == Idle {
				continue
			}
			dst := src + shift
			if dst >= P {
				dst -= P
			}
			d := sh.at[dst]
			if d == Idle || !t.sameExchange(s, d) || class[w.group[s]*sh.M1+w.group[d]] != c {
				continue
			}
			if w.group[s] == w.group[d] {
				w.fitLocal(s, d)
			} else {
				w.fitRemote(s, d)
			}
		}
	}
	return nil
}

func newFitter(t *Tree, sh *shape, lowerBound int) *fitter {
	d := newDemands(t)
	w := &fitter{
		lanes:      t.Lanes,
		plan:       &Plan{Engine: Conservative, Servers: sh.servers},
		group:      make([]int, sh.servers),
		base:       make([]Lane, sh.servers),
		up:         make([]LaneSet, sh.M1),
		open:       d.open,
		from:       -1,
		candidates: make([]Lane, 0, t.Lanes),
	}
	for γ, leaf := range sh.leaf {
		w.up[γ] = d.up[leaf]
	}
	for place, s := range sh.at {
		if s != Idle {
			w.group[s] = place / sh.M0
			w.base[s] = Lane(place % sh.M0 % max(t.Lanes, 1))
		}
	}
	likely := lowerBound + lowerBound/8 + 1 // phases
	w.plan.To, w.plan.Lane = make([]Server, 0, likely*sh.servers), make([]Lane, 0, likely*sh.servers)
	w.widen(likely/64 + 1)
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
				w.occupy(s, d, Local, i<<6+bits.TrailingZeros64(x))
				return
			}
		}
		w.widen(2 * w.words)
	}
}

// fitRemote places a pair of different leaves, or records that no lane joins them.
func (w *fitter) fitRemote(s, d Server) {
	A, B := w.group[s], w.group[d]
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
		first := x & -x
		var free uint64
		for _, k := range w.candidates {
			if free |= ^(ascend[k] | sinks[k]); free&first != 0 {
				break // no lane has an earlier phase
			}
		}
		if x &= free; x == 0 {
			continue
		}
		first = x & -x
		k := w.choose(ascend, sinks, first, w.base[d])
		ascend[k] |= first
		sinks[k] |= first
		w.occupy(s, d, k, i<<6+bits.TrailingZeros64(first))
		return true
	}
	return false
}

// choose returns the candidate that is free in a phase, given by its bit, and first from
// the base lane on.
func (w *fitter) choose(ascend, sinks []uint64, phase uint64, base Lane) Lane {
	choice := Local
	for _, k := range w.candidates {
		if (ascend[k]|sinks[k])&phase != 0 {
			continue
		}
		if k >= base {
			return k
		}
		if choice == Local {
			choice = k
		}
	}
	return choice
}

// findLanes makes the lanes from leaf A to server d of leaf B the candidates and reports
// whether any exist.
func (w *fitter) findLanes(A, B int, d Server) bool {
	if w.open == nil && w.from == A && w.to == B {
		return len(w.candidates) > 0
	}
	w.from, w.to = A, B
	w.candidates = w.candidates[:0]
	for i, x := range w.up[A] {
		x &= w.up[B][i]
		if w.open != nil {
			x &= w.open[d][i]
		}
		for ; x != 0; x &= x - 1 {
			w.candidates = append(w.candidates, Lane(i<<6+bits.TrailingZeros64(x)))
		}
	}
	return len(w.candidates) > 0
}

// occupy enters a transfer into the plan and marks its ends.
func (w *fitter) occupy(s, d Server, k Lane, ph int) {
	bit := uint64(1) << (ph & 63)
	w.sends[int(s)*w.words+ph>>6] |= bit
	w.hears[int(d)*w.words+ph>>6] |= bit
	for w.plan.Phases <= ph {
		w.plan.addPhase()
	}
	to, lane := w.plan.Row(Phase(ph))
	to[s], lane[s] = d, k
}
