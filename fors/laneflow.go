package fors

import (
	"math/bits"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// LaneSet is a bitmap of lanes.
type LaneSet []uint64

// NewLaneSet returns an empty set of so many lanes.
func NewLaneSet(lanes int) LaneSet { return make(LaneSet, (lanes+63)/64) }

// Add puts a lane into the set.
func (s LaneSet) Add(k int) { s[k>>6] |= 1 << (k & 63) }

// Has reports whether the set contains lane k.
func (s LaneSet) Has(k int) bool { return s[k>>6]>>(k&63)&1 != 0 }

// Size returns the number of lanes in the set.
func (s LaneSet) Size() int {
	n := 0
	for _, x := range s {
		n += bits.OnesCount64(x)
	}
	return n
}

// LaneFlow finds what lanes must carry so that groups of transfers, each confined to a set of
// lanes, find room (Hall's condition): a bipartite flow network with the groups on one side
// and lanes of equal capacity on the other. It keeps its memory from use to use.
type LaneFlow struct {
	lanes  int
	sets   []LaneSet // [group], distinct
	weight []int     // [group] transfers
	next   LaneSet   // the set of the group being added
	flow   bipartite.Flow
}

// Reset begins with so many lanes, and no transfers.
func (w *LaneFlow) Reset(lanes int) {
	w.lanes = lanes
	w.next = NewLaneSet(lanes)
	w.Clear()
}

// Clear removes all transfers.
func (w *LaneFlow) Clear() { w.sets, w.weight = w.sets[:0], w.weight[:0] }

// common sets the set that add uses to a ∩ b ∩ open (a nil open is every lane) and reports
// whether it has a member.
func (w *LaneFlow) common(a, b, open LaneSet) bool {
	var members uint64
	for i := range w.next {
		w.next[i] = a[i] & b[i]
		if open != nil {
			w.next[i] &= open[i]
		}
		members |= w.next[i]
	}
	return members != 0
}

// Add counts transfers confined to a set of lanes.
func (w *LaneFlow) Add(in func(lane int) bool, transfers int) {
	clear(w.next)
	for k := range w.lanes {
		if in(k) {
			w.next.Add(k)
		}
	}
	w.add(transfers)
}

// add counts transfers confined to the set made by common.
func (w *LaneFlow) add(transfers int) {
	for g, set := range w.sets {
		if slices.Equal(set, w.next) {
			w.weight[g] += transfers
			return
		}
	}
	n := len(w.sets)
	if n < cap(w.sets) { // reuse the memory of a cleared set
		w.sets = w.sets[:n+1]
	} else {
		w.sets = append(w.sets, nil)
	}
	w.sets[n] = append(w.sets[n][:0], w.next...)
	w.weight = append(w.weight, transfers)
}

// Least returns the least lane capacity ≥ least under which every transfer finds a
// lane: by Hall's theorem the maximum over lane sets S of ⌈transfers confined to S / |S|⌉.
// Each failed flow exposes a set S that is too small, which raises the capacity to its
// quotient; a few rounds suffice.
func (w *LaneFlow) Least(least int) int {
	if len(w.sets) == 0 {
		return least
	}
	least = max(least, 1)
	for {
		transfers, lanes := w.violated(least)
		if lanes == 0 {
			return least
		}
		least = ceilDiv(transfers, lanes)
	}
}

// Crowded finds transfers confined to fewer lanes than there are such transfers; by Hall's
// theorem they exist unless all transfers can have different lanes. transfers counts those
// that share a set. It returns both numbers, zeros if there are none.
func Crowded(of int, sets []LaneSet, transfers []int) (crowd, lanes int) {
	return flowOf(of, sets, transfers).violated(1)
}

// LeastCapacity returns how many transfers each of so many lanes must carry at least so that
// each transfer finds a lane of its set; transfers counts those that share a set.
func LeastCapacity(of int, sets []LaneSet, transfers []int) int {
	return flowOf(of, sets, transfers).Least(0)
}

func flowOf(of int, sets []LaneSet, transfers []int) *LaneFlow {
	w := &LaneFlow{}
	w.Reset(of)
	for i, set := range sets {
		if transfers[i] > 0 {
			w.Add(set.Has, transfers[i])
		}
	}
	return w
}

// violated finds a lane set that carries more transfers than the capacity allows, on the near
// side of a minimum cut, and returns both numbers, zeros if there is none.
func (w *LaneFlow) violated(capacity int) (transfers, lanes int) {
	groups := int32(len(w.sets))
	source, sink := groups+int32(w.lanes), groups+int32(w.lanes)+1
	w.flow.Reset(int(sink) + 1)
	total := 0
	for g, set := range w.sets {
		total += w.weight[g]
		w.flow.Arc(source, int32(g), 0, w.weight[g])
		for k := range w.lanes {
			if set.Has(k) {
				w.flow.Arc(int32(g), groups+int32(k), 0, w.weight[g])
			}
		}
	}
	for k := range w.lanes {
		w.flow.Arc(groups+int32(k), sink, 0, capacity)
	}
	if w.flow.Maximum(source, sink) == total {
		return 0, 0
	}
	for g, weight := range w.weight {
		if w.flow.Reached(int32(g)) {
			transfers += weight
		}
	}
	for k := range w.lanes {
		if w.flow.Reached(groups + int32(k)) {
			lanes++
		}
	}
	return transfers, lanes
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
