package ilp

import (
	"fmt"

	"github.com/forsd/forsd/fors"
)

// network is a tree in the form that the models use: the leaf of every server, the lanes
// of every leaf, and the servers grouped by the lanes that are closed to them.
type network struct {
	t    *fors.Tree
	leaf []int          // [server]
	up   []fors.LaneSet // [leaf]
	kind []int          // [server] index into open
	open []fors.LaneSet // [kind] lanes on which servers of that kind can be addressed
}

func newNetwork(t *fors.Tree) *network {
	w := &network{t: t, up: make([]fors.LaneSet, len(t.Slots))}
	for leaf, slots := range t.Slots {
		for range slots {
			w.leaf = append(w.leaf, leaf)
		}
		w.up[leaf] = fors.NewLaneSet(t.Lanes)
		for k, up := range t.Up[leaf] {
			if up {
				w.up[leaf].Add(k)
			}
		}
	}
	w.kind = make([]int, len(w.leaf))
	known := map[string]int{}
	for d := range w.leaf {
		open := fors.NewLaneSet(t.Lanes)
		for k := range t.Lanes {
			if t.Closed == nil || !t.Closed(fors.Server(d), fors.Lane(k)) {
				open.Add(k)
			}
		}
		key := fmt.Sprint(open)
		kind, ok := known[key]
		if !ok {
			kind = len(w.open)
			known[key] = kind
			w.open = append(w.open, open)
		}
		w.kind[d] = kind
	}
	return w
}

// lanes returns the set of lanes from leaf A to servers of a kind at leaf B.
func (w *network) lanes(A, B, kind int) fors.LaneSet {
	set := make(fors.LaneSet, len(w.up[A]))
	for i := range set {
		set[i] = w.up[A][i] & w.up[B][i] & w.open[kind][i]
	}
	return set
}

// refine groups the lanes 0…K−1 into classes of lanes that are in the same sets, in
// the order of their first lanes. It omits lanes that are in none.
func refine(lanes int, sets []fors.LaneSet) [][]fors.Lane {
	class := make([]int, lanes) // [lane]
	used := fors.NewLaneSet(lanes)
	classes := 1
	for _, set := range sets {
		split := make([]int, classes) // [class] its part inside the set, or 0
		outside := make([]bool, classes)
		for k, c := range class {
			outside[c] = outside[c] || !set.Has(k)
		}
		for k, c := range class {
			if !set.Has(k) {
				continue
			}
			used.Add(k)
			if !outside[c] {
				continue
			}
			if split[c] == 0 {
				split[c] = classes
				classes++
			}
			class[k] = split[c]
		}
	}
	var out [][]fors.Lane
	index := make([]int, classes) // [class] 1 + index in out, or 0
	for k, c := range class {
		if !used.Has(k) {
			continue
		}
		if index[c] == 0 {
			out = append(out, nil)
			index[c] = len(out)
		}
		out[index[c]-1] = append(out[index[c]-1], fors.Lane(k))
	}
	return out
}
