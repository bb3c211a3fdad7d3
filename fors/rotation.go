package fors

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// PlanRotation plans the complete exchange so that every pair of servers has the lane of
// the linear shift if that is up: lanes that have not failed stay, and all lanes depend on
// the tree alone, not on earlier failures.
//
// Let all leaves have the same n slots, each with a lane of its own, over which all other
// leaves send to its server. In a phase a lane idles, or it leads from every leaf to the
// one a leaves further on: a rotation of the leaves. A server receives over its own lane
// alone, so a phase is given by one number for each lane, and any n numbers will do. Each
// lane has each of its rotations n times. In the other phases it idles at all leaves, and
// its server may receive from its own leaf. The numbers of idle lanes of any two phases
// differ by at most one.
//
// A transfer whose lane is dead takes an idle one. If it meets another one there, some
// transfers exchange lanes (Kempe), such that as few as possible leave a lane that is up;
// and rotations are exchanged between phases if that saves some. Senders are the colours of
// a graph of one leaf, because all leaves are alike.
//
// The plan has as many phases as its bound. PlanRotation fails with ErrNotApplicable if it
// finds none, if leaves have different slots, or one beyond the lanes, if two leaves share
// no lane, and if a lane is closed to a server.
func PlanRotation(ctx context.Context, t *Tree) (*Plan, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	return planRotation(ctx, t, ComputeBounds(t))
}

func planRotation(ctx context.Context, t *Tree, b Bounds) (*Plan, error) {
	r := newRotation(t, b.LowerBound)
	if r == nil {
		return nil, ErrNotApplicable
	}
	if err := r.giveLanes(ctx); err != nil {
		return nil, err
	}
	if err := r.seat(ctx); err != nil {
		return nil, err
	}
	r.plan.dropEmpty()
	r.plan.Bounds = b
	return r.plan, nil
}

// rotation is a plan by rotations. Until senders are known, the transfer to a slot has
// the row of the sender in the same slot.
type rotation struct {
	n, leaves int
	own       []Lane  // [slot]
	hurt      []int   // slots whose lane is dead at some leaf
	offset    []int16 // [phase·n + slot] leaves further on, 0 within the leaf, −1 if idle
	plan      *Plan
	board     *board
	cost      []int  // [phase], see solve
	left      int    // work left to a search
	late      []Pair // scratch memory
	kept      [2]Plan
	rng       *rand.Rand
}

// newRotation returns nil if the tree has no rotation.
func newRotation(t *Tree, phases int) *rotation {
	if t.Exchange != nil {
		return nil
	}
	r := &rotation{rng: rand.New(rand.NewPCG(1, 2))}
	for A, slots := range t.Slots {
		if len(slots) == 0 {
			continue
		}
		if r.own == nil {
			for _, α := range slots {
				r.own = append(r.own, Lane(α))
			}
		}
		if r.leaves++; !slices.EqualFunc(slots, r.own, func(α int, k Lane) bool { return α == int(k) }) {
			return nil
		}
		for B := range A {
			if len(t.Slots[B]) > 0 && commonLanes(t.Up[A], t.Up[B]) == 0 {
				return nil
			}
		}
	}
	r.n = len(r.own)
	if t.Closed != nil || int(r.own[r.n-1]) >= t.Lanes || phases < r.n*r.leaves-1 {
		return nil
	}
	for slot, k := range r.own {
		for A, slots := range t.Slots {
			if len(slots) > 0 && !t.Up[A][k] {
				r.hurt = append(r.hurt, slot)
				break
			}
		}
	}
	r.plan, r.board, r.cost = newPlan(Rotation, r.n*r.leaves, phases), newBoard(t), make([]int, phases)
	r.board.own = make([]Lane, r.plan.Servers)
	for d := range r.board.own {
		r.board.own[d] = r.own[d%r.n]
	}
	for i := range r.kept {
		r.kept[i] = *newPlan(Rotation, r.plan.Servers, 1)
	}
	r.rotate()
	return r
}

// rotate sets the offsets.
func (r *rotation) rotate() {
	n, phases := r.n, r.plan.Phases
	r.offset = make([]int16, phases*n)
	idle := n * (phases - n*(r.leaves-1)) // of all lanes together
	for i := range idle {
		r.offset[i*phases/idle*n+i%n] = -1
	}
	for slot := range n {
		next, locals := int16(1), n-1
		for at := slot; at < len(r.offset); at += n {
			switch {
			case r.offset[at] == 0:
				r.offset[at] = next
				if next++; int(next) == r.leaves {
					next = 1
				}
			case locals > 0:
				r.offset[at] = 0
				locals--
			}
		}
	}
}

// seat gives the transfers their senders, the same slots on every leaf. A slot receives
// from all of them in turn at each distance, and from the others within the leaf. They are
// the colours of a graph with the phases on the left, and one extra vertex: the colour of a
// slot there is its own.
func (r *rotation) seat(ctx context.Context) error {
	n, used, vertices := r.n, len(r.offset), int32(r.n*r.leaves)
	rows, idle := make([]int32, used+n), 0
	for i, a := range r.offset {
		if rows[i] = int32(i%n*r.leaves) + int32(a); a < 0 {
			rows[i] = vertices + int32(idle/n)
			idle++
		}
	}
	for i := range n {
		rows[used+i] = int32(i * r.leaves)
	}
	colour := make([]uint16, len(rows))
	var c bipartite.Colourer
	if err := c.Colours(ctx, len(rows)/n, n, rows, colour); err != nil {
		return err
	}
	sender := make([]int, n) // [colour] slot
	for slot, c := range colour[used:] {
		sender[c] = slot
	}
	for ph := range r.plan.Phases {
		to, lane := r.plan.Row(Phase(ph))
		was := &r.kept[0]
		copy(was.To, to)
		copy(was.Lane, lane)
		for slot, c := range colour[ph*n:][:n] {
			s := sender[c]
			for first := 0; first < len(to); first += n {
				to[first+s], lane[first+s] = was.To[first+slot], was.Lane[first+slot]
			}
		}
	}
	return nil
}
