package fors

import "context"

// seatSenders gives the transfers of leaf A their senders. A leaf B of n_B
// servers stands to the right as n_B vertices of n_A transfers each, A itself as
// n_A − 1, so that each sender meets leaf B n_B times.
func (w *seater) seatSenders(ctx context.Context, A int) error {
	w.doors = grow(w.doors, w.leaves)
	vertices := 0
	for B := range w.leaves {
		w.doors[B] = door{vertex: int32(vertices)}
		if A == B {
			vertices += w.net.size[A] - 1
		} else if w.joined(A, B) {
			vertices += w.net.size[B]
		}
	}
	w.begin(A, vertices*w.net.size[A])
	w.depart(A)
	if err := w.seat(ctx, int32(vertices)); err != nil {
		return err
	}
	locals := w.locals[w.ofLeaf[A]:w.ofLeaf[A+1]]
	boarded := w.boarded[:w.used]
	for i, c := range w.Seat[:w.used] {
		t, s := &boarded[i], w.base[A]+Server(c)
		switch {
		case t.phase < 0: // idle
		case t.lane == Local:
			locals[t.at] = s
		default:
			w.sender[t.at] = s
			w.plan.Lane[int(t.phase)*w.plan.Servers+int(s)] = t.lane
		}
	}
	return nil
}

// depart reads the transfers of leaf A off the phases and adds them. Same-leaf transfers go
// to the first phases in which servers are left.
func (w *seater) depart(A int) {
	outs, leaves := &w.frame.bins[outward], w.frame.bins[inward].Of
	first, bins, end := outs.first[A], outs.first[A]+outs.count[A], outs.first[A+1]
	only, size := outs.only[first:bins], int32(w.size)
	local, locals := w.size*(w.size-1), 0
	for phase := range w.plan.Phases {
		from := phase * w.n
		right, sender := w.match[from:from+w.n], w.sender[from:from+w.n]
		at := w.used
		for i, v := range right[first:bins] {
			B := leaves[v]
			if B < 0 {
				continue
			}
			if int(B) == A {
				sender[v] = Idle
				continue
			}
			k := only[i]
			if k < 0 {
				k = w.frame.pickLane(A, int(B), first+int32(i), v, w.y)
			}
			w.boarded[at] = boarded{Phase(phase), int32(from) + v, k}
			w.Rows[at] = w.doors[B].enter(size)
			at++
		}
		for _, v := range right[bins:end] {
			sender[v] = Idle
		}
		for free := min(local-locals, w.size-(at-w.used)); free > 0; free-- {
			w.boarded[at] = boarded{Phase(phase), int32(locals), Local}
			w.Rows[at] = w.doors[A].enter(size)
			at++
			locals++
		}
		w.board(at - w.used)
	}
	w.closeGroup()
}

// door is the right vertices of a leaf.
type door struct {
	vertex  int32 // right vertex
	entered int32 // edges of it
}

// enter returns the right vertex of a transfer, given the number of edges of each.
func (d *door) enter(size int32) int32 {
	v := d.vertex
	if d.entered++; d.entered == size {
		d.vertex, d.entered = v+1, 0
	}
	return v
}
