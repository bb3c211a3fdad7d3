package planner

import (
	"cmp"
	"slices"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// keeping bounds from above how many entries of leaves tables may keep that put no more than room
// on a cable. A unit is what one leaf sends to a server of another. By Lagrangian relaxation,
// what leaves send to each other, and cables out of them, have prices; each cable into a leaf
// carries the units that are worth most to it at these (a knapsack).
type keeping struct {
	t           *topology.FatTree
	room        int
	size        []int   // [leaf] servers
	keep        [][]int // [from·leaves + to][lane] units now up by a lane that may stay
	units       int     // in keep, and those that no tables keep though their cables are up
	worth       []float64
	price       []float64
	sent, used  []int // [from·leaves + to], [from·lanes + lane] units in the knapsacks
	leaves      int
	least, step float64
	stalled     int // rounds without a better bound
}

// fewestMoved is how many entries move at least, of those of leaves whose way is up, if no cable
// may carry more than room: a bound, which is good enough if it is more than few. With some
// tables as many move as moved. Base LIDs that are not apart have
// the lanes of their number where these are up.
func fewestMoved(now *topology.FatTree, before *lft.Tables, room, moved, few int) int {
	leaves := len(now.Leaves)
	b := &keeping{t: now, room: room, size: make([]int, leaves), keep: make([][]int, leaves*leaves), leaves: leaves, step: 1,
		worth: make([]float64, leaves*leaves), price: make([]float64, leaves*now.Lanes)}
	for i := range b.keep {
		b.keep[i] = make([]int, now.Lanes)
	}
	for _, i := range now.Servers {
		h := &now.Hosts[i]
		b.size[h.Leaf]++
		for from := range now.Leaves {
			k := laneOf(now, before, from, h)
			if from == h.Leaf || k < 0 {
				continue
			}
			b.units++
			if own := now.LIDLane(h, 0); h.Moved || k == own || !now.LaneUp(from, own) || !now.LaneUp(h.Leaf, own) {
				b.keep[from*leaves+h.Leaf][k]++
			}
		}
	}
	b.least = float64(b.units)
	for range 400 {
		b.round(moved)
		if b.units-int(b.least) > few {
			break
		}
	}
	return b.units - int(b.least+1e-6)
}

// laneOf is the lane by which a leaf sends to a base LID, −1 if a cable on the way is down.
func laneOf(t *topology.FatTree, tables *lft.Tables, from int, h *topology.Host) int {
	port := tables.Port(tables.Find(t.Leaves[from].GUID), h.LID)
	for k := range t.Lanes {
		if !t.LaneUp(from, k) || t.Leaves[from].Cables[k].LeafPort != port {
			continue
		}
		s := &t.Spines[t.LaneOf[k]]
		for j := s.First; j < s.First+s.Cables; j++ {
			if t.LaneUp(h.Leaf, j) && t.Leaves[h.Leaf].Cables[j].SpinePort == tables.Port(tables.Find(s.GUID), h.LID) {
				return k
			}
		}
	}
	return -1
}

// item is a unit that a cable may carry.
type item struct {
	from, lane int
	gain       float64
}

// items lists units that are worth something to a cable into a leaf.
func (b *keeping) items(to, down int) (all []item) {
	for from, n := range b.size {
		if n == 0 || from == to {
			continue
		}
		var some []item
		for k, s := range b.t.LaneOf {
			if s != b.t.LaneOf[down] || !b.t.LaneUp(from, k) {
				continue
			}
			for i := range min(b.room/n, b.size[to]) {
				x := item{from, k, -b.worth[from*b.leaves+to] - b.price[from*b.t.Lanes+k]}
				if i < b.keep[from*b.leaves+to][k] {
					x.gain++
				}
				if x.gain > 0 {
					some = append(some, x)
				}
			}
		}
		slices.SortStableFunc(some, func(x, y item) int { return cmp.Compare(y.gain, x.gain) })
		all = append(all, some[:min(len(some), b.room/n, b.size[to])]...)
	}
	return all
}

// fill puts the units worth most into a cable into a leaf, and returns what they are worth.
func (b *keeping) fill(to, down int) float64 {
	items, width := b.items(to, down), b.room+1
	best, taken := make([]float64, width), make([]bool, len(items)*width)
	for i, x := range items {
		for w := b.room; w >= b.size[x.from]; w-- {
			if with := best[w-b.size[x.from]] + x.gain; with > best[w] {
				best[w], taken[i*width+w] = with, true
			}
		}
	}
	w := b.room
	for i, x := range slices.Backward(items) {
		if taken[i*width+w] {
			b.sent[x.from*b.leaves+to]++
			b.used[x.from*b.t.Lanes+x.lane]++
			w -= b.size[x.from]
		}
	}
	return best[b.room]
}

// round computes the bound at these prices, and changes them towards one by which so many units
// move (Polyak's step).
func (b *keeping) round(moved int) {
	b.sent, b.used = make([]int, len(b.worth)), make([]int, len(b.price))
	bound, norm := 0.0, 0.0
	for to, n := range b.size {
		for k := range b.t.Lanes {
			if n > 0 && b.t.LaneUp(to, k) {
				bound += b.fill(to, k)
			}
		}
	}
	short, spare := make([]float64, len(b.worth)), make([]float64, len(b.price))
	for from, n := range b.size {
		for to, m := range b.size {
			if at := from*b.leaves + to; n > 0 && m > 0 && from != to && joined(b.t, from, to) {
				short[at] = float64(m - b.sent[at])
				bound += b.worth[at] * float64(m)
				norm += short[at] * short[at]
			}
		}
		for k := range b.t.Lanes {
			if at := from*b.t.Lanes + k; n > 0 {
				most := b.room / n
				bound += b.price[at] * float64(most)
				if spare[at] = float64(most - b.used[at]); spare[at] < 0 || b.price[at] > 0 {
					norm += spare[at] * spare[at]
				}
			}
		}
	}
	if b.stalled++; bound < b.least-1e-6 {
		b.least, b.stalled = bound, 0
	} else if b.stalled > 10 {
		b.step, b.stalled = b.step/2, 0
	}
	if norm == 0 {
		return
	}
	step := b.step * (bound - float64(b.units-moved) + 0.5) / norm
	for i := range short {
		b.worth[i] -= step * short[i]
	}
	for i := range spare {
		b.price[i] = max(0, b.price[i]-step*spare[i])
	}
}
