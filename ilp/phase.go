package ilp

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/forsd/forsd/fors"
)

// group is the transfers of a phase from one leaf to servers of one kind at
// another leaf. They are interchangeable: the model counts them and does not
// name them.
type group struct {
	from, to  int // leaves
	kind      int // of the destinations
	lanes     fors.LaneSet
	transfers []int // indices into the phase
}

// class is a set of lanes that are open to the same groups of a phase. They are
// interchangeable: the model only has their number as a capacity.
type class struct {
	lanes []fors.Lane
	open  []bool // [group]
	all   bool   // open to every group
}

// phase is the routing problem of one phase, in groups and classes.
type phase struct {
	leaves    int
	lanes     int
	transfers int
	groups    []group // by from, to and kind
	classes   []class // the one open to every group, if any, is last
	// ends lists the groups of a leaf's transfers: [leaf] those that it sends,
	// [leaves+leaf] those that it receives.
	ends [][]int
}

// newPhase groups the transfers of a phase, and leaves the lanes to classify. It fails
// for pairs that are not inter-leaf transfers of the tree.
func (w *network) newPhase(pairs []fors.Pair) (*phase, error) {
	type key struct{ from, to, kind, transfer int }
	keys := make([]key, len(pairs))
	for i, pair := range pairs {
		if min(pair.Src, pair.Dst) < 0 || int(max(pair.Src, pair.Dst)) >= len(w.leaf) {
			return nil, fmt.Errorf("transfer %d from server %d to server %d: the tree has %d servers", i, pair.Src, pair.Dst, len(w.leaf))
		}
		from, to := w.leaf[pair.Src], w.leaf[pair.Dst]
		if from == to {
			return nil, fmt.Errorf("transfer %d from server %d to server %d: both are on leaf %d, and such a transfer takes no lane", i, pair.Src, pair.Dst, from)
		}
		keys[i] = key{from, to, w.kind[pair.Dst], i}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return slices.Compare([]int{a.from, a.to, a.kind, a.transfer}, []int{b.from, b.to, b.kind, b.transfer})
	})
	ph := &phase{leaves: len(w.up), lanes: w.t.Lanes, transfers: len(pairs), ends: make([][]int, 2*len(w.up))}
	for i, k := range keys {
		if i == 0 || k.from != keys[i-1].from || k.to != keys[i-1].to || k.kind != keys[i-1].kind {
			ph.ends[k.from] = append(ph.ends[k.from], len(ph.groups))
			ph.ends[ph.leaves+k.to] = append(ph.ends[ph.leaves+k.to], len(ph.groups))
			ph.groups = append(ph.groups, group{from: k.from, to: k.to, kind: k.kind, lanes: w.lanes(k.from, k.to, k.kind)})
		}
		g := &ph.groups[len(ph.groups)-1]
		g.transfers = append(g.transfers, k.transfer)
	}
	return ph, nil
}

// classify groups the lanes into classes. Groups without remaining transfers do not
// count.
func (ph *phase) classify() {
	var live []int
	var sets []fors.LaneSet
	for g := range ph.groups {
		if len(ph.groups[g].transfers) > 0 {
			live, sets = append(live, g), append(sets, ph.groups[g].lanes)
		}
	}
	var universal []class
	for _, lanes := range refine(ph.lanes, sets) {
		c := class{lanes: lanes, open: make([]bool, len(ph.groups)), all: true}
		for i, set := range sets {
			c.open[live[i]] = set.Has(int(lanes[0]))
			c.all = c.all && c.open[live[i]]
		}
		if c.all {
			universal = append(universal, c)
		} else {
			ph.classes = append(ph.classes, c)
		}
	}
	ph.classes = append(ph.classes, universal...)
}

// demand returns the demand of the phase as a map key: phases with the same demand
// have the same groups and are the same problem.
func (ph *phase) demand() string {
	var key []byte
	for _, g := range ph.groups {
		for _, n := range []int{g.from, g.to, g.kind, len(g.transfers)} {
			key = binary.AppendUvarint(key, uint64(n))
		}
	}
	return string(key)
}

// degree is the number of transfers at an end.
func (ph *phase) degree(end int) int {
	n := 0
	for _, g := range ph.ends[end] {
		n += len(ph.groups[g].transfers)
	}
	return n
}

// name converts lanes per group, [group][…] in any order, to lanes per transfer.
func (ph *phase) name(byGroup [][]fors.Lane) []fors.Lane {
	lanes := make([]fors.Lane, ph.transfers)
	for g := range ph.groups {
		for i, transfer := range ph.groups[g].transfers {
			lanes[transfer] = byGroup[g][i]
		}
	}
	return lanes
}

// expand names the lanes of a class for the given number of transfers per group,
// and appends them to byGroup. It reports false if a leaf has more transfers than the
// class has lanes.
func (ph *phase) expand(c class, count func(g int) int, byGroup [][]fors.Lane) bool {
	colours := newColouring(ph.leaves, c.lanes)
	for g := range ph.groups {
		for range count(g) {
			if !colours.add(ph.groups[g].from, ph.groups[g].to) {
				return false
			}
		}
	}
	edge := 0
	for g := range ph.groups {
		for range count(g) {
			byGroup[g] = append(byGroup[g], colours.lane(edge))
			edge++
		}
	}
	return true
}
