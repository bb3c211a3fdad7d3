package fors

import "forsd/bipartite"

// groupSeater gives the units of one leaf their groups, or their receivers,
// which are the colours of a regular graph, see seater.
type groupSeater struct {
	*grouping
	colourer bipartite.Colourer
	rows     []int32 // [row][degree] right vertices
	match    []int32 // [colour][row] right vertex
	vertex   []int32 // [leaf] the first right vertex that stands for it
	met      []int32 // [leaf] edges used of its vertex at hand
	head     []int32 // [list] the first unit of a row on it, −1 for none
	next     []int32 // [unit of a row] the next on its list
}

// idle fills the row at hand with edges to vertices that stand for idling, from
// the given one on, of which some edges are used.
func (w *groupSeater) idle(degree int, vertex, used *int32) {
	for len(w.rows)%degree != 0 {
		w.rows = append(w.rows, *vertex)
		if *used++; int(*used) == degree {
			*vertex, *used = *vertex+1, 0
		}
	}
}

// colour colours the rows.
func (w *groupSeater) colour(degree int) error {
	w.match = grow(w.match, len(w.rows))
	return w.colourer.Rows(len(w.rows)/degree, degree, w.rows, w.match)
}

// lists begins n empty lists of the units of a row.
func (w *groupSeater) lists(n, units int) {
	w.head, w.next = grow(w.head, n), grow(w.next, units)
	for i := range w.head {
		w.head[i] = -1
	}
}

func (w *groupSeater) push(list, unit int32) { w.next[unit], w.head[list] = w.head[list], unit }

func (w *groupSeater) pop(list int32) int32 {
	unit := w.head[list]
	w.head[list] = w.next[unit]
	return unit
}

// seatGroups gives the units of leaf A their groups. To the left stand the
// blocks, g times each, with q_A units a time, so that a group has at most g in
// a block; to the right the servers that A reaches, of q_A units each, one from
// each group. Which of its leaf's servers receives is left open.
func (w *groupSeater) seatGroups(A int) error {
	degree := w.net.units[A]
	w.vertex, w.met = grow(w.vertex, w.leaves), grow(w.met, w.leaves)
	servers := int32(0)
	for B := range w.leaves {
		w.vertex[B], w.met[B] = servers, 0
		if w.joined(A, B) {
			servers += int32(w.size[B])
		}
	}
	leafOf := make([]int32, 0, servers)
	for B := range w.leaves {
		if w.joined(A, B) {
			for range w.size[B] {
				leafOf = append(leafOf, int32(B))
			}
		}
	}
	units := w.from.of(A)
	starts := make([]int32, 0, w.blocks*w.g+1) // [row] its first unit
	w.rows = w.rows[:0]
	idle, used := servers, int32(0)
	for i, id := range units {
		u := &w.grouping.units[id]
		if i == 0 || w.grouping.units[units[i-1]].block != u.block {
			w.idle(degree, &idle, &used)
		}
		if len(w.rows)%degree == 0 {
			starts = append(starts, int32(i))
		}
		w.rows = append(w.rows, w.vertex[u.B])
		if w.met[u.B]++; int(w.met[u.B]) == degree {
			w.vertex[u.B], w.met[u.B] = w.vertex[u.B]+1, 0
		}
	}
	w.idle(degree, &idle, &used)
	starts = append(starts, int32(len(units)))
	if err := w.colour(degree); err != nil {
		return err
	}
	w.lists(w.leaves, len(units))
	rows := len(starts) - 1
	for row := range rows {
		for i := starts[row]; i < starts[row+1]; i++ {
			w.push(w.grouping.units[units[i]].B, i)
		}
		for c := range degree {
			if v := w.match[c*rows+row]; v < servers {
				w.grouping.units[units[w.pop(leafOf[v])]].group = int32(c)
			}
		}
	}
	return nil
}

// seatReceivers gives the units to leaf B their receivers. To the left stand the
// blocks, of at most n_B units; to the right the groups that reach B, of n_B
// units each, one for each server.
func (w *groupSeater) seatReceivers(B int) error {
	degree := w.size[B]
	w.vertex = grow(w.vertex, w.leaves)
	groups := int32(0)
	for A := range w.leaves {
		w.vertex[A] = groups
		if w.joined(A, B) {
			groups += int32(w.net.units[A])
		}
	}
	units := w.to.of(B)
	starts := make([]int32, w.blocks+1) // [block] its first unit
	w.rows = w.rows[:0]
	idle, used := groups, int32(0)
	for block, i := 0, 0; block < w.blocks; block++ {
		starts[block] = int32(i)
		for ; i < len(units) && int(w.grouping.units[units[i]].block) == block; i++ {
			w.rows = append(w.rows, w.groupOf(units[i]))
		}
		for len(w.rows) < (block+1)*degree {
			w.rows = append(w.rows, idle)
			if used++; int(used) == degree {
				idle, used = idle+1, 0
			}
		}
	}
	starts[w.blocks] = int32(len(units))
	if err := w.colour(degree); err != nil {
		return err
	}
	w.lists(int(groups), len(units))
	for block := range w.blocks {
		for i := starts[block]; i < starts[block+1]; i++ {
			w.push(w.groupOf(units[i]), i)
		}
		for c := range degree {
			if v := w.match[c*w.blocks+block]; v < groups {
				w.grouping.units[units[w.pop(v)]].server = int32(c)
			}
		}
	}
	return nil
}

// groupOf is the right vertex that stands for a unit's group, to its receivers.
func (w *groupSeater) groupOf(id int32) int32 {
	u := &w.grouping.units[id]
	return w.vertex[u.A] + u.group
}

// rotate writes the rows of leaf A's servers: the members of a group take turns
// at the destinations that it has in a block.
func (w *groupSeater) rotate(A int) error {
	w.met = grow(w.met, w.net.units[A]) // [group] destinations of the block so far
	block := int32(-1)
	for _, id := range w.from.of(A) {
		u := &w.grouping.units[id]
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

// turns enters the turns at a unit of its group's members, the servers from
// first on that are before end: the first one's is in phase slot of the block,
// and each other's is one phase before, round and round.
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
