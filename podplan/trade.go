package podplan

import (
	"iter"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
)

// Where each lane has an LID, a base LID that leaves a way that lives trades it with the LID
// that has its new one: at its leaf the two change planes, and the mid of the old plane leads
// the other LID over the old lane. So plans for single senders have all lanes as before.

// mayTrade reports if no mid and no top has a choice of cables downwards.
func (w *baseWays) mayTrade() bool {
	return w.Tree.MidsPerPod() == w.Tree.Planes && !slices.Contains(w.many, true)
}

// planeOf returns the plane of a way, −1 of none.
func (w *baseWays) planeOf(way int16) int {
	if lanes := len(w.Tree.Lanes); int(way) >= lanes {
		return int(way) - lanes
	} else if way >= 0 {
		return w.Tree.Lanes[way].Plane
	}
	return -1
}

// trade gives a plan by lanes the LIDs that have them now, and lists their entries.
func (w *baseWays) trade(r *Result) []iter.Seq[lft.Entry] {
	offset := r.offsets()
	traded := func(at int) int {
		if w.way[at] < 0 || w.whole[at] < 0 || w.way[at] == w.whole[at] {
			return -1
		}
		return offset(int32(at%w.n), w.way[at])
	}
	r.crossing(func(slot, a int, d int32) {
		at := a*w.n + int(d)
		o := traded(at)
		switch {
		case o < 0:
		case r.Plan.Way[slot] == w.whole[at]:
			r.Offset[slot] = uint8(o)
		case r.Plan.Way[slot] == w.way[at]:
			r.Offset[slot] = 0
		}
	})
	var all []lft.Entry
	for at := range w.way {
		if o := traded(at); o >= 0 {
			w.entries(at/w.n, at%w.n, w.whole[at], func(e lft.Entry) {
				e.LID += ib.LID(o)
				all = append(all, e)
			})
		}
	}
	return []iter.Seq[lft.Entry]{slices.Values(all)}
}
