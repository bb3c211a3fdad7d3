package fors

import (
	"fmt"
	"sync"
	"sync/atomic"

	"forsd/bipartite"
)

// timetable turns a spread into a plan. Its memory is used again, see timetables.
type timetable struct {
	*net
	plan    *Plan
	workers int
	frame   *frame
	y       []int32 // the spread
	match   []int32 // [phase][left vertex of the frame] right vertex
	// Transfers of known sender, by destination leaf, source leaf, phase.
	first  []int32 // [B·leaves + A] the first from leaf A to leaf B
	phase  []Phase
	sender []Server

	arcs     []bipartite.Arc // of the frame
	colourer bipartite.Colourer
	seaters  []*seater // one a worker
}

// timetables keeps the memory of timetables between plans.
var timetables = sync.Pool{New: func() any { return new(timetable) }}

// timetable sets the rows of an idle plan to a complete exchange, given a spread
// for its number of phases.
func (n *net) timetable(plan *Plan, y []int32, workers int) error {
	x := timetables.Get().(*timetable)
	defer func() {
		x.net, x.plan, x.frame, x.y = nil, nil, nil, nil
		timetables.Put(x)
	}()
	x.net, x.plan, x.workers, x.y = n, plan, max(1, workers), y
	x.first = append(grow(x.first, n.leaves*n.leaves)[:0], 0)
	for B, size := range n.size {
		for A := range n.leaves {
			transfers := 0
			if A == B {
				transfers = size * (size - 1)
			} else if n.joined(A, B) {
				transfers = size * n.size[A]
			}
			x.first = append(x.first, x.first[len(x.first)-1]+int32(transfers))
		}
	}
	transfers := int(x.first[len(x.first)-1])
	if transfers == 0 {
		return nil
	}
	x.phase, x.sender = grow(x.phase, transfers), grow(x.sender, transfers)
	if err := x.setPhases(); err != nil {
		return fmt.Errorf("set the phases of a spread: %w", err)
	}
	if err := x.eachLeaf((*seater).seatSenders); err != nil {
		return err
	}
	return x.eachLeaf((*seater).seatReceivers)
}

// setPhases colours the frame.
func (x *timetable) setPhases() error {
	x.frame = newFrame(x.net, x.plan.Phases, x.y)
	x.frame.arcs = x.arcs[:0]
	x.frame.connect(x.y)
	x.arcs = x.frame.arcs
	x.match = grow(x.match, x.frame.n*x.plan.Phases)
	x.colourer.Workers = x.workers
	return x.colourer.Arcs(x.frame.n, x.plan.Phases, x.arcs, x.match)
}

// eachLeaf runs a step for every leaf, on several goroutines.
func (x *timetable) eachLeaf(step func(w *seater, leaf int) error) error {
	errs := make([]error, x.leaves)
	var next atomic.Int32
	var wg sync.WaitGroup
	for i := range min(x.workers, x.leaves) {
		if i == len(x.seaters) {
			x.seaters = append(x.seaters, &seater{timetable: x})
		}
		w := x.seaters[i]
		wg.Go(func() {
			for A := int(next.Add(1) - 1); A < x.leaves; A = int(next.Add(1) - 1) {
				errs[A] = step(w, A)
			}
		})
	}
	wg.Wait()
	for A, err := range errs {
		if err != nil {
			return fmt.Errorf("seat the servers of leaf %d of %d: %w", A, x.leaves, err)
		}
	}
	return nil
}

// seater gives the transfers of one leaf their senders, or their receivers, which
// are the colours of a regular graph. To the left it has groups of phases, each
// with at most as many transfers as the leaf has servers, so that in a group
// each server has at most one.
type seater struct {
	*timetable
	colourer bipartite.Colourer
	size     int   // servers of the leaf
	idle     int32 // right vertex that stands for idling, of which some edges are used
	used     int
	rows     []int32 // [group][size] right vertices
	group    []int32 // [group] its first transfer, one more at the end
	match    []int32 // [server of the leaf][group] right vertex
	phaseOf  []Phase // [transfer]
	head     []int32 // [list] first transfer of a group on it, −1 for none
	next     []int32 // [transfer of a group] the next on its list
	vertex   []int32 // [leaf] the first right vertex that stands for it
	// For senders.
	to   []int32 // [transfer] leaf
	lane []Lane  // [transfer]
	met  []int32 // [leaf] edges used of the vertex at hand; then arrivals from A
	leaf []int32 // [right vertex] that it stands for
	// For receivers.
	start    []int32  // [phase] its first transfer
	source   []Server // [transfer] sender
	vertexOf []int32  // [server] right vertex
}

// begin clears the rows for a leaf and the lists of a group's transfers, given
// the number of right vertices that do not stand for idling.
func (w *seater) begin(leaf, vertices, lists int) {
	w.size = w.net.size[leaf]
	w.idle, w.used = int32(vertices), 0
	w.rows, w.group, w.phaseOf = w.rows[:0], append(w.group[:0], 0), w.phaseOf[:0]
	w.head, w.next = grow(w.head, lists), grow(w.next, w.size)
	for i := range w.head {
		w.head[i] = -1
	}
}

// board enters a phase with some transfers: into the group at hand if they fit.
func (w *seater) board(phase, transfers int) {
	if len(w.rows)-(len(w.group)-1)*w.size+transfers > w.size {
		w.closeGroup()
	}
	for range transfers {
		w.phaseOf = append(w.phaseOf, Phase(phase))
	}
}

// closeGroup fills the group at hand with edges to vertices that stand for idling.
func (w *seater) closeGroup() {
	for end := len(w.group) * w.size; len(w.rows) < end; {
		w.rows = append(w.rows, w.idle)
		if w.used++; w.used == w.size {
			w.idle, w.used = w.idle+1, 0
		}
	}
	w.group = append(w.group, int32(len(w.phaseOf)))
}

// colour seats the groups.
func (w *seater) colour() (groups int, err error) {
	groups = len(w.rows) / w.size
	w.match = grow(w.match, len(w.rows))
	return groups, w.colourer.Rows(groups, w.size, w.rows, w.match)
}

// pop takes a transfer of a group off a list.
func (w *seater) pop(list int32) int32 {
	i := w.head[list]
	w.head[list] = w.next[i]
	return i
}
