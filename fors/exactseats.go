package fors

import (
	"context"
	"fmt"
	"sync"

	"github.com/forsd/forsd/bipartite"
	"github.com/forsd/forsd/internal/parallel"
)

// timetable turns a spread into a plan. Its memory is reused, see timetables.
type timetable struct {
	*net
	plan    *Plan
	workers int
	frame   *frame
	n       int      // vertices of either side of it
	y       []int32  // the spread
	match   []int32  // [phase][left vertex of the frame] right vertex
	sender  []Server // [phase][right vertex] whose transfer arrives there, Idle if none
	locals  []Server // by leaf, in order of phases: senders of the same-leaf transfers
	ofLeaf  []int32  // [leaf] the first of its same-leaf transfers, one more at the end

	arcs     []bipartite.Arc // of the frame
	colourer bipartite.Colourer
	seaters  []*seater // one a worker
}

// timetables pools the memory of timetables.
var timetables = sync.Pool{New: func() any { return new(timetable) }}

// timetable turns a spread into a plan with the given number of phases.
func (n *net) timetable(ctx context.Context, servers, phases int, y []int32, workers int) (*Plan, error) {
	x := timetables.Get().(*timetable)
	defer func() {
		x.net, x.plan, x.frame, x.y = nil, nil, nil, nil
		timetables.Put(x)
	}()
	plan := newPlan(Exact, servers, phases)
	x.net, x.plan, x.workers, x.y = n, plan, max(1, workers), y
	x.ofLeaf = append(x.ofLeaf[:0], 0)
	transfers := 0
	for A, size := range n.size {
		x.ofLeaf = append(x.ofLeaf, x.ofLeaf[A]+int32(size*(size-1)))
		transfers += n.out(A) + size*(size-1)
	}
	if transfers == 0 {
		plan.idle()
		return plan, nil
	}
	x.locals = grow(x.locals, int(x.ofLeaf[n.leaves]))
	var wg sync.WaitGroup
	if x.workers > 1 {
		wg.Go(plan.idle) // while one worker builds the frame
	} else {
		plan.idle()
	}
	err := x.setPhases(ctx)
	wg.Wait()
	if err != nil {
		return nil, fmt.Errorf("set the phases of a spread: %w", err)
	}
	x.sender = grow(x.sender, len(x.match))
	if err := x.eachLeaf(ctx, (*seater).seatSenders); err != nil {
		return nil, err
	}
	if err := x.eachLeaf(ctx, (*seater).seatReceivers); err != nil {
		return nil, err
	}
	return plan, nil
}

// setPhases colours the frame.
func (x *timetable) setPhases(ctx context.Context) error {
	x.frame = newFrame(x.net, x.plan.Phases, x.y, x.arcs[:0])
	x.n = len(x.frame.Left.Of)
	x.match = grow(x.match, x.n*x.plan.Phases)
	x.colourer.Workers = x.workers
	err := x.frame.Colour(ctx, &x.colourer, x.match)
	x.arcs = x.frame.Arcs
	return err
}

// eachLeaf runs a step for every leaf, on several goroutines.
func (x *timetable) eachLeaf(ctx context.Context, step func(w *seater, ctx context.Context, leaf int) error) error {
	return eachLeaf(ctx, x.leaves, x.workers, func(i int) *seater {
		if i == len(x.seaters) {
			x.seaters = append(x.seaters, &seater{timetable: x})
		}
		return x.seaters[i]
	}, step)
}

// eachLeaf runs a step for every leaf, on several goroutines with a worker each.
func eachLeaf[W any](ctx context.Context, leaves, workers int, worker func(i int) W, step func(w W, ctx context.Context, leaf int) error) error {
	A, err := parallel.Each(ctx, leaves, workers, func(i int) func(int) error {
		w := worker(i)
		return func(A int) error { return step(w, ctx, A) }
	})
	if err != nil {
		return fmt.Errorf("seat the servers of leaf %d of %d: %w", A, leaves, err)
	}
	return nil
}

// seater gives the transfers of one leaf their senders or their receivers, which are the
// colours of a regular graph. The rows are groups of phases, each with at most as many
// transfers as the leaf has servers, so that each server has at most one transfer in a
// group.
type seater struct {
	*timetable
	bipartite.Seats
	size     int       // servers of the leaf
	used     int       // rows taken, in all groups
	left     int       // rows of the current group not used yet
	boarded  []boarded // [group][size] the transfers, then idle rows
	doors    []door    // [leaf] the right vertices of its servers
	vertexOf []int32   // [server] right vertex
}

// boarded is a transfer in a row of a group.
type boarded struct {
	phase Phase // −1 where the row idles
	// at is, for senders, where the receiving leaf finds the transfer: an index of
	// timetable.sender, or of the leaf's part of timetable.locals if the lane is Local. For
	// receivers it is the sender.
	at   int32
	lane Lane // for senders
}

// begin makes room for the transfers of a leaf.
func (w *seater) begin(leaf, transfers int) {
	w.size, w.used, w.left = w.net.size[leaf], 0, 0
	// Two consecutive groups have more transfers than one has room for.
	most := (2*(transfers/(w.size+1)) + 5) * w.size
	w.Rows, w.boarded = grow(w.Rows, most), grow(w.boarded, most)
}

// board assigns the next rows to the transfers of a phase, which are stored already: in the
// current group if they fit, otherwise in a new one.
func (w *seater) board(transfers int) {
	if from := w.used; transfers > w.left && w.left > 0 {
		to := from + w.left
		copy(w.Rows[to:], w.Rows[from:from+transfers])
		copy(w.boarded[to:], w.boarded[from:from+transfers])
		w.closeGroup()
	}
	if w.left == 0 && transfers > 0 {
		w.left = w.size
	}
	w.used += transfers
	w.left -= transfers
}

// closeGroup leaves the other rows of the current group idle.
func (w *seater) closeGroup() {
	for ; w.left > 0; w.left-- {
		w.Rows[w.used], w.boarded[w.used].phase = -1, -1
		w.used++
	}
}

// seat colours the rows. Right vertices below full have all their edges.
func (w *seater) seat(ctx context.Context, full int32) error {
	w.Rows = w.Rows[:w.used]
	return w.Colour(ctx, w.size, full)
}

// seatNamed seats the transfers that enter adds: they are with the servers that a leaf
// exchanges with, which are the right vertices, of as many transfers each as the leaf has
// servers; those of the leaf itself lack one. One additional group, which does not stand for
// phases, is joined once to each of these: the seat of a server there is its own. It has all
// transfers with that seat, and so none with itself. Seats up to names are those of the
// transfers, and own has the server of each seat.
func (w *seater) seatNamed(ctx context.Context, leaf int, enter func(leaf int)) (names int, own []Server, err error) {
	servers := int32(0)
	w.vertexOf = grow(w.vertexOf, w.plan.Servers)
	for A := range w.leaves {
		if !w.joined(A, leaf) {
			continue
		}
		for s := range w.net.size[A] {
			w.vertexOf[int(w.base[A])+s] = servers
			servers++
		}
	}
	w.begin(leaf, int(servers)*w.net.size[leaf])
	enter(leaf)
	w.closeGroup()
	names = w.used
	for i := range w.size {
		w.Rows[names+i] = w.vertexOf[int(w.base[leaf])+i]
	}
	w.board(w.size)
	if err := w.seat(ctx, servers); err != nil {
		return 0, nil, err
	}
	own = make([]Server, w.size)
	for i, seat := range w.Seat[names:w.used] {
		own[seat] = w.base[leaf] + Server(i)
	}
	return names, own, nil
}
