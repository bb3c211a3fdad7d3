package ilp

import (
	"context"
	"errors"
	"fmt"

	"github.com/forsd/forsd/fors"
)

// Plan returns section 4's schedule for the tree's bandwidth reduction f, with the
// same-leaf transfers of fors.PlanAlgorithm and lanes by Route. Pairs whose leaves
// share no usable lane are omitted and listed. It fails if Route does, and for f = M0,
// for which no such schedule exists.
func Plan(ctx context.Context, t *fors.Tree) (*fors.Plan, error) {
	if !Available() {
		return nil, ErrNotBuiltIn
	}
	if err := check(t); err != nil {
		return nil, err
	}
	bounds := fors.ComputeBounds(t)
	sc, err := newSchedule(ctx, t, bounds.Reduction)
	if err != nil {
		return nil, err
	}
	lanes, err := Route(ctx, t, sc.remote)
	if err != nil {
		return nil, err
	}
	for p, pairs := range sc.remote {
		_, row := sc.plan.Row(fors.Phase(p))
		for i, pair := range pairs {
			row[pair.Src] = lanes[p][i]
		}
	}
	sc.plan.Bounds = bounds
	return sc.plan, nil
}

// schedule is a plan whose inter-leaf transfers have no lanes yet.
type schedule struct {
	plan   *fors.Plan
	remote [][]fors.Pair // [phase] its inter-leaf transfers, by source
}

// newSchedule takes the rows of section 4's schedule for f from the plan of an
// undamaged tree of the same size with M0−f lanes, and removes the empty places, the
// pairs without a lane and the phases that become idle.
func newSchedule(ctx context.Context, t *fors.Tree, f int) (*schedule, error) {
	w := newNetwork(t)
	at, M0 := places(t)
	if M0 == 0 {
		return nil, errors.New("plan a tree without servers: at least one is needed")
	}
	M1 := len(at) / M0
	if M1 == 1 {
		f = 0 // no transfer takes a lane
	}
	if f >= M0 {
		return nil, fmt.Errorf("plan for a bandwidth reduction of %d with %d servers a leaf: a leaf has no lane left, take it out of the exchange", f, M0)
	}
	whole, err := fors.PlanAlgorithm(ctx, wholeTree(M0, M1, M0-f))
	if err != nil {
		return nil, fmt.Errorf("plan for a bandwidth reduction of %d with %d servers on each of %d leaves: %w", f, M0, M1, err)
	}
	sc := &schedule{plan: &fors.Plan{Engine: fors.ILP, Servers: len(w.leaf), Unreachable: w.unreachable()}}
	for p := range whole.Phases {
		to, _ := whole.Row(fors.Phase(p))
		sc.add(w, to, at)
	}
	return sc, nil
}

// places lists the server at each place, γ·M0+α for slot α of the γ-th leaf with
// servers, or fors.Idle.
func places(t *fors.Tree) (at []fors.Server, M0 int) {
	for _, slots := range t.Slots {
		if n := len(slots); n > 0 {
			M0 = max(M0, slots[n-1]+1)
		}
	}
	next := fors.Server(0)
	for _, slots := range t.Slots {
		if len(slots) == 0 {
			continue
		}
		first := len(at)
		for range M0 {
			at = append(at, fors.Idle)
		}
		for _, α := range slots {
			at[first+α] = next
			next++
		}
	}
	return at, M0
}

// wholeTree returns an undamaged tree of M1 leaves with M0 servers each.
func wholeTree(M0, M1, lanes int) *fors.Tree {
	slots, up := make([]int, M0), make([]bool, lanes)
	for α := range slots {
		slots[α] = α
	}
	for k := range up {
		up[k] = true
	}
	t := &fors.Tree{Lanes: lanes, Slots: make([][]int, M1), Up: make([][]bool, M1)}
	for γ := range M1 {
		t.Slots[γ], t.Up[γ] = slots, up
	}
	return t
}

// add appends a phase, given by the place that each place sends to.
func (sc *schedule) add(w *network, to []fors.Server, at []fors.Server) {
	row := make([]fors.Server, sc.plan.Servers)
	for s := range row {
		row[s] = fors.Idle
	}
	var remote []fors.Pair
	sends := false
	for place, dest := range to {
		if dest == fors.Idle || at[place] == fors.Idle || at[dest] == fors.Idle {
			continue
		}
		pair := fors.Pair{Src: at[place], Dst: at[dest]}
		if w.leaf[pair.Src] != w.leaf[pair.Dst] {
			if !w.joined(pair) {
				continue
			}
			remote = append(remote, pair)
		}
		row[pair.Src], sends = pair.Dst, true
	}
	if !sends {
		return
	}
	sc.remote = append(sc.remote, remote)
	sc.plan.Phases++
	sc.plan.To = append(sc.plan.To, row...)
	for range row {
		sc.plan.Lane = append(sc.plan.Lane, fors.Local)
	}
}

// joined reports whether a lane leads from one server to the other.
func (w *network) joined(pair fors.Pair) bool {
	A, B, open := w.up[w.leaf[pair.Src]], w.up[w.leaf[pair.Dst]], w.open[w.kind[pair.Dst]]
	for i := range A {
		if A[i]&B[i]&open[i] != 0 {
			return true
		}
	}
	return false
}

// unreachable lists the ordered pairs on different leaves that no lane joins.
func (w *network) unreachable() []fors.Pair {
	var pairs []fors.Pair
	for s := range w.leaf {
		for d := range w.leaf {
			pair := fors.Pair{Src: fors.Server(s), Dst: fors.Server(d)}
			if w.leaf[s] != w.leaf[d] && !w.joined(pair) {
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}
