package fors

import (
	"fmt"
	"sync"
	"sync/atomic"

	"forsd/bipartite"
)

// seater gives the transfers of one leaf their senders, or their receivers. Its
// graph has groups of phases to the left, each with at most as many transfers as
// the leaf has servers, so that in a group each server has at most one.
type seater struct {
	*timetable
	colourer    bipartite.Colourer
	group       []int32 // [group] its first transfer, one more at the end
	rows, match []int32
	head        []int32  // [right vertex or leaf] first transfer of a group, −1 for none
	next        []int32  // [transfer of the group]
	vertex      []int32  // [leaf] its first right vertex
	count       []int32  // [leaf] transfers met so far
	leaf        []int32  // [right vertex] that it stands for
	vertexOf    []int32  // [server] right vertex as a sender
	name        []Server // [colour]
}

// eachLeaf runs a step for every leaf, on several goroutines.
func (x *timetable) eachLeaf(step func(w *seater, leaf int) error) error {
	errs := make([]error, x.leaves)
	var next atomic.Int32
	var wg sync.WaitGroup
	for range min(max(1, x.workers), x.leaves) {
		wg.Go(func() {
			w := &seater{timetable: x, vertex: make([]int32, x.leaves), count: make([]int32, x.leaves)}
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

// gather cuts the transfers of a leaf, which are in order of phases, into groups
// of whole phases and at most size transfers.
func (w *seater) gather(transfers, size int, phase func(i int) Phase) {
	w.group = append(w.group[:0], 0)
	first, i := 0, 0
	for i < transfers {
		end := i + 1
		for end < transfers && phase(end) == phase(i) {
			end++
		}
		if end-first > size {
			w.group = append(w.group, int32(i))
			first = i
		}
		i = end
	}
	if transfers > 0 {
		w.group = append(w.group, int32(transfers))
	}
}

// seatSenders gives the transfers of leaf A their senders. A leaf B of n_B
// servers stands to the right as n_B vertices of n_A transfers each, A itself as
// n_A − 1, and the rest of the right vertices stand for idling, so that the graph
// is n_A-regular; the colours are the senders. Each of them then sends n_B times
// to leaf B.
func (w *seater) seatSenders(A int, plan *Plan) error {
	size := w.size[A]
	out := w.out[w.start[A]:w.start[A+1]]
	w.gather(len(out), size, func(i int) Phase { return out[i].phase })
	groups := len(w.group) - 1
	w.leaf = w.leaf[:0]
	for B := range w.leaves {
		w.vertex[B], w.count[B] = int32(len(w.leaf)), 0
		if !w.joined(A, B) {
			continue
		}
		vertices := w.size[B]
		if A == B {
			vertices--
		}
		for range vertices {
			w.leaf = append(w.leaf, int32(B))
		}
	}
	w.rows, w.match = grow(w.rows, groups*size), grow(w.match, groups*size)
	idle := len(w.leaf) * size
	i := 0
	for g := range groups {
		for _, e := range out[w.group[g]:w.group[g+1]] {
			w.rows[i] = w.vertex[e.to] + w.count[e.to]/int32(size)
			w.count[e.to]++
			i++
		}
		for ; i < (g+1)*size; i++ {
			w.rows[i] = int32(idle / size)
			idle++
		}
	}
	if err := w.colourer.Rows(groups, size, w.rows, w.match); err != nil {
		return err
	}
	w.begin(w.leaves, size)
	for g := range groups {
		group := out[w.group[g]:w.group[g+1]]
		for i, e := range group {
			w.next[i], w.head[e.to] = w.head[e.to], int32(i)
		}
		for c := range size {
			v := w.match[c*groups+g]
			if int(v) >= len(w.leaf) {
				continue
			}
			e := &group[w.pop(w.leaf[v])]
			s := w.base[A] + Server(c)
			w.inSender[e.slot] = s
			plan.Lane[int(e.phase)*plan.Servers+int(s)] = e.lane
		}
	}
	return nil
}

// seatReceivers gives the transfers to leaf B their receivers. The senders are
// the right vertices, with n_B transfers each, and those left over stand for
// idling; one group more, which is no phase, is joined once to each of B's own
// servers, which send n_B − 1 times to others. So the graph is n_B-regular, and
// the colour that a server has in the last group is its own: it receives all
// transfers of that colour, and none from itself.
func (w *seater) seatReceivers(B int, plan *Plan) error {
	size := w.size[B]
	from, to := w.start[B], w.start[B+1]
	phase, sender := w.inPhase[from:to], w.inSender[from:to]
	w.gather(len(phase), size, func(i int) Phase { return phase[i] })
	groups := len(w.group) // with the one that is no phase
	senders := int32(0)
	w.vertexOf = grow(w.vertexOf, plan.Servers)
	for A := range w.leaves {
		w.vertex[A] = senders
		if !w.joined(A, B) {
			continue
		}
		for s := range w.size[A] {
			w.vertexOf[int(w.base[A])+s] = senders
			senders++
		}
	}
	w.rows, w.match = grow(w.rows, groups*size), grow(w.match, groups*size)
	idle := int(senders) * size
	i := 0
	for g := range groups - 1 {
		for _, s := range sender[w.group[g]:w.group[g+1]] {
			w.rows[i] = w.vertexOf[s]
			i++
		}
		for ; i < (g+1)*size; i++ {
			w.rows[i] = int32(idle / size)
			idle++
		}
	}
	for c := range size {
		w.rows[i+c] = w.vertex[B] + int32(c)
	}
	if err := w.colourer.Rows(groups, size, w.rows, w.match); err != nil {
		return err
	}
	w.name = grow(w.name, size)
	for c := range size {
		w.name[c] = w.base[B] + Server(w.match[c*groups+groups-1]-w.vertex[B])
	}
	w.begin(int(senders), size)
	for g := range groups - 1 {
		first := w.group[g]
		for i, s := range sender[first:w.group[g+1]] {
			v := w.vertexOf[s]
			w.next[i], w.head[v] = w.head[v], int32(i)
		}
		for c := range size {
			v := w.match[c*groups+g]
			if v >= senders {
				continue
			}
			i := first + w.pop(v)
			plan.To[int(phase[i])*plan.Servers+int(sender[i])] = w.name[c]
		}
	}
	return nil
}

// begin empties the lists of a group's transfers.
func (w *seater) begin(lists, size int) {
	w.head, w.next = grow(w.head, lists), grow(w.next, size)
	for i := range w.head {
		w.head[i] = -1
	}
}

// pop takes a transfer of the group off a list.
func (w *seater) pop(list int32) int32 {
	i := w.head[list]
	w.head[list] = w.next[i]
	return i
}
