package fors

import (
	"math/bits"
	"slices"
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

	order    []int32 // groups, those with the fewest lanes first
	on       []int   // [group·lanes + lane] transfers assigned
	left     []int   // [group] transfers not assigned yet
	room     []int   // [lane] capacity left
	fromLane []int32 // [group] lane through which the search came, −1 unseen, −2 root
	fromSet  []int32 // [lane] group from which the search came, −1 unseen
	queue    []int32
}

// Reset begins with so many lanes, and no transfers.
func (w *LaneFlow) Reset(lanes int) {
	w.lanes = lanes
	w.next = NewLaneSet(lanes)
	w.room = make([]int, lanes)
	w.fromSet = make([]int32, lanes)
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
	w.sort()
	least = max(least, 1)
	for {
		transfers, lanes := w.violated(least)
		if lanes == 0 {
			return least
		}
		least = ceilDiv(transfers, lanes)
	}
}

// sort puts the groups in order.
func (w *LaneFlow) sort() {
	w.order = w.order[:0]
	for g := range w.sets {
		w.order = append(w.order, int32(g))
	}
	slices.SortStableFunc(w.order, func(a, b int32) int { return w.sets[a].Size() - w.sets[b].Size() })
}

// Crowded finds transfers confined to fewer lanes than there are such transfers; by Hall's
// theorem they exist unless all transfers can have different lanes. transfers counts those
// that share a set. It returns both numbers, zeros if there are none.
func Crowded(of int, sets []LaneSet, transfers []int) (crowd, lanes int) {
	w := flowOf(of, sets, transfers)
	w.sort()
	return w.violated(1)
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

// violated finds a lane set that carries more transfers than the capacity allows and
// returns both numbers, zeros if there is none.
func (w *LaneFlow) violated(capacity int) (transfers, lanes int) {
	w.on = grow(w.on, len(w.sets)*w.lanes)
	clear(w.on)
	w.left = append(w.left[:0], w.weight...)
	w.fromLane = grow(w.fromLane, len(w.sets))
	for k := range w.room {
		w.room[k] = capacity
	}
	for _, g := range w.order {
		w.fill(int(g))
	}
	for _, g := range w.order {
		for w.left[g] > 0 {
			if !w.augment(g) {
				return w.cut()
			}
		}
	}
	return 0, 0
}

// fill spreads a group evenly over its lanes as far as there is room.
func (w *LaneFlow) fill(g int) {
	lanes := w.sets[g].Size()
	for k := range w.lanes {
		if !w.sets[g].Has(k) {
			continue
		}
		x := min(ceilDiv(w.left[g], lanes), w.room[k])
		w.on[g*w.lanes+k] += x
		w.left[g] -= x
		w.room[k] -= x
		lanes--
	}
}

// augment assigns more of a group along a shortest path of reassignments.
func (w *LaneFlow) augment(root int32) bool {
	for g := range w.fromLane {
		w.fromLane[g] = -1
	}
	for k := range w.fromSet {
		w.fromSet[k] = -1
	}
	w.fromLane[root] = -2
	w.queue = append(w.queue[:0], root)
	for head := 0; head < len(w.queue); head++ {
		g := w.queue[head]
		for k := range w.lanes {
			if w.fromSet[k] >= 0 || !w.sets[g].Has(k) {
				continue
			}
			w.fromSet[k] = g
			if w.room[k] > 0 {
				w.push(k)
				return true
			}
			for h := range w.sets {
				if w.fromLane[h] == -1 && w.on[h*w.lanes+k] > 0 {
					w.fromLane[h] = int32(k)
					w.queue = append(w.queue, int32(h))
				}
			}
		}
	}
	return false
}

// push moves as much as the path found by augment allows; the path ends at lane.
func (w *LaneFlow) push(lane int) {
	amount := w.room[lane]
	g := int(w.fromSet[lane])
	for k := w.fromLane[g]; k >= 0; k = w.fromLane[g] {
		amount = min(amount, w.on[g*w.lanes+int(k)])
		g = int(w.fromSet[k])
	}
	amount = min(amount, w.left[g])
	w.left[g] -= amount
	w.room[lane] -= amount
	for k := lane; ; {
		g := int(w.fromSet[k])
		w.on[g*w.lanes+k] += amount
		from := int(w.fromLane[g])
		if from < 0 {
			return
		}
		w.on[g*w.lanes+from] -= amount
		k = from
	}
}

// cut reads the violated set off the failed search: the lanes and groups it visited; the
// groups have no other lanes.
func (w *LaneFlow) cut() (transfers, lanes int) {
	for g, from := range w.fromLane {
		if from != -1 {
			transfers += w.weight[g]
		}
	}
	for _, from := range w.fromSet {
		if from >= 0 {
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
