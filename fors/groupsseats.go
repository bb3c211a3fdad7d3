package fors

import (
	"context"

	"github.com/forsd/forsd/bipartite"
)

// groupSeater gives the units of one leaf their groups, or their receivers,
// which are the colours of a bipartite graph.
type groupSeater struct {
	*grouping
	seats    bipartite.Seats
	row, key []int32 // [unit of the leaf]
	vertex   []int32 // [leaf] the first vertex of its groups
	met      []int32 // [group] destinations of the block so far
	// For receivers.
	degree int        // servers of the leaf
	at     [2][]int32 // [side][vertex·degree + server] unit, or none
	late   []int32    // units without the receiver wished for
	path   []int32    // units that swap receivers
}

// seatGroups gives the units of leaf A their groups. The left vertices are the blocks, g
// times each, with q_A units at a time, so that a group has at most g in a block; the right
// vertices are the servers that A reaches, of q_A units each, one from each group. The
// receiver in the destination leaf is left open.
func (w *groupSeater) seatGroups(ctx context.Context, A int) error {
	degree, units := w.net.units[A], w.from.Of(A)
	w.row, w.key = w.row[:0], w.key[:0]
	block, met := int32(-1), 0
	for _, id := range units {
		u := &w.units[id]
		if u.block != block {
			block, met = u.block, 0
		}
		w.row = append(w.row, block*int32(w.g)+int32(met/degree))
		w.key = append(w.key, u.B)
		met++
	}
	if err := w.seats.Give(ctx, degree, w.blocks*w.g, w.leaves, w.row, w.key); err != nil {
		return err
	}
	for i, id := range units {
		w.units[id].group = int32(w.seats.Of(i))
	}
	return nil
}

// seatReceivers gives the units to leaf B their receivers: it colours the graph with the
// blocks, of at most n_B units, on the left, and the groups that reach B, of n_B units
// each, on the right, with the servers of B as colours. Units get the receiver that their
// lane wishes for unless two at a vertex wish for the same; the others get one that is free
// at both ends, or that an alternating path of two colours frees (König).
func (w *groupSeater) seatReceivers(_ context.Context, B int) error {
	w.empty(B)
	units := w.to.Of(B)
	w.late = w.late[:0]
	for _, id := range units {
		c := w.wished(id)
		w.units[id].wish = c
		if c == none || !w.free(0, id, c) || !w.free(1, id, c) {
			w.late = append(w.late, id)
		} else {
			w.give(id, c)
		}
	}
	for _, id := range w.late {
		w.give(id, w.makeFree(id))
	}
	for _, id := range units {
		if u := &w.units[id]; u.group == 0 && u.wish != none && u.wish != u.server {
			w.improve(id, u.wish) // group 0 has the base LIDs, which other traffic uses
		}
	}
	return nil
}

// empty numbers the groups that reach leaf B and leaves every colour free.
func (w *groupSeater) empty(B int) {
	w.vertex = grow(w.vertex, w.leaves)
	groups := int32(0)
	for A := range w.leaves {
		w.vertex[A] = groups
		if w.joined(A, B) {
			groups += int32(w.net.units[A])
		}
	}
	w.degree = w.size[B]
	for side, vertices := range []int{w.blocks, int(groups)} {
		w.at[side] = grow(w.at[side], vertices*w.degree)
		for i := range w.at[side] {
			w.at[side][i] = none
		}
	}
}

// improve gives a unit the receiver that its lane wishes for, if swapping the two
// receivers along the path that this takes fulfils more wishes than it breaks.
func (w *groupSeater) improve(id, c int32) {
	was := w.units[id].server
	w.path = append(w.path[:0], id)
	if !w.follow(0, w.vertexOf(0, id), c, was) {
		w.follow(1, w.vertexOf(1, id), c, was)
	}
	gain := 0
	for _, next := range w.path {
		switch u := &w.units[next]; u.wish {
		case u.server:
			gain--
		case was + c - u.server:
			gain++
		}
	}
	if gain > 0 {
		w.swap(was + c)
	}
}

// none stands for no unit and no server.
const none int32 = -1

// wished returns the server that a unit's lane wishes for as its receiver: index α on its
// leaf, where group h takes lane (α+h) mod K. So lanes follow the indices of the servers as
// far as possible, for the benefit of other traffic, and the entries of two plans differ
// little.
func (w *groupSeater) wished(id int32) int32 {
	u := &w.units[id]
	if u.lane == Local {
		return none
	}
	α := (int(u.lane) - int(u.group)%w.lanes + w.lanes) % w.lanes
	return w.wish[int(u.B)*w.lanes+α]
}

// vertexOf returns the vertex of a unit on a side: 0 for blocks, 1 for groups.
func (w *groupSeater) vertexOf(side int, id int32) int {
	u := &w.units[id]
	if side == 0 {
		return int(u.block)
	}
	return int(w.vertex[u.A] + u.group)
}

// free reports whether no other unit at a vertex of this one has the colour.
func (w *groupSeater) free(side int, id, c int32) bool {
	return w.at[side][w.vertexOf(side, id)*w.degree+int(c)] == none
}

// give colours a unit.
func (w *groupSeater) give(id, c int32) {
	w.units[id].server = c
	for side := range w.at {
		w.at[side][w.vertexOf(side, id)*w.degree+int(c)] = id
	}
}

// makeFree returns a colour that is free at both ends of a unit. If there is none, let a be
// free at its block and b at its group: the path from the group with alternating colours a
// and b does not reach the block, which it could only enter by a, and swapping its colours
// frees a at the group.
func (w *groupSeater) makeFree(id int32) int32 {
	a, b := none, none
	for c := range int32(w.degree) {
		block, group := w.free(0, id, c), w.free(1, id, c)
		switch {
		case block && group:
			return c
		case block && a == none:
			a = c
		case group && b == none:
			b = c
		}
	}
	w.path = w.path[:0]
	w.follow(1, w.vertexOf(1, id), a, b)
	w.swap(a + b)
	return a
}

// follow appends to the path the units from a vertex of a side on, alternately with colours
// c and d. It reports whether the path has returned to its first unit.
func (w *groupSeater) follow(side, at int, c, d int32) (closed bool) {
	for {
		next := w.at[side][at*w.degree+int(c)]
		if next == none || len(w.path) > 0 && next == w.path[0] {
			return next != none
		}
		w.path = append(w.path, next)
		side = 1 - side
		at = w.vertexOf(side, next)
		c, d = d, c
	}
}

// swap swaps the two colours of the units on the path, whose sum is given.
func (w *groupSeater) swap(sum int32) {
	for _, next := range w.path {
		for side := range w.at {
			w.at[side][w.vertexOf(side, next)*w.degree+int(w.units[next].server)] = none
		}
	}
	for _, next := range w.path {
		w.give(next, sum-w.units[next].server)
	}
}

// rotate writes the rows of leaf A's servers: the members of a group take turns at its
// destinations in a block.
func (w *groupSeater) rotate(_ context.Context, A int) error {
	w.met = grow(w.met, w.net.units[A])
	block := int32(-1)
	for _, id := range w.from.Of(A) {
		u := &w.units[id]
		if u.block != block {
			block = u.block
			clear(w.met)
		}
		slot := int(w.met[u.group])
		w.met[u.group]++
		w.turns(u, w.base[A]+Server(int(u.group)*w.g), w.base[A]+Server(w.size[A]), slot)
	}
	return nil
}

// turns enters the turns of a unit's group members, the servers from first up to end: the
// first one's is in phase slot of the block, and each later one's is one phase earlier,
// cyclically.
func (w *groupSeater) turns(u *unit, first, end Server, slot int) {
	d, lane, servers := w.base[u.B]+Server(u.server), u.lane, w.plan.Servers
	begin := int(u.block) * w.g * servers
	to, lanes := w.plan.To[begin:begin+w.g*servers], w.plan.Lane[begin:begin+w.g*servers]
	row := slot * servers
	for s := first; s < min(end, first+Server(w.g)); s++ {
		if s != d {
			to[row+int(s)], lanes[row+int(s)] = d, lane
		}
		if row -= servers; row < 0 {
			row += len(to)
		}
	}
}
