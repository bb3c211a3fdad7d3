package fors

// seatSenders gives the transfers of leaf A their senders. A leaf B of n_B
// servers stands to the right as n_B vertices of n_A transfers each, A itself as
// n_A − 1, so that each sender meets leaf B n_B times.
func (w *seater) seatSenders(A int) error {
	w.leaf = w.leaf[:0]
	w.vertex, w.met = grow(w.vertex, w.leaves), grow(w.met, w.leaves)
	for B := range w.leaves {
		w.vertex[B], w.met[B] = int32(len(w.leaf)), 0
		vertices := 0
		if A == B {
			vertices = w.net.size[A] - 1
		} else if w.joined(A, B) {
			vertices = w.net.size[B]
		}
		for range vertices {
			w.leaf = append(w.leaf, int32(B))
		}
	}
	w.begin(A, len(w.leaf), w.leaves)
	w.depart(A)
	groups, err := w.colour()
	if err != nil {
		return err
	}
	arrived := w.met
	for B := range arrived {
		arrived[B] = w.first[B*w.leaves+A]
	}
	for g := range groups {
		first := w.group[g]
		for i, B := range w.to[first:w.group[g+1]] {
			w.next[i], w.head[B] = w.head[B], int32(i)
		}
		for c := range w.size {
			v := w.match[c*groups+g]
			if int(v) >= len(w.leaf) {
				continue // idle
			}
			B := w.leaf[v]
			i := first + w.pop(B)
			s, phase := w.base[A]+Server(c), w.phaseOf[i]
			w.phase[arrived[B]], w.sender[arrived[B]] = phase, s
			arrived[B]++
			w.plan.Lane[int(phase)*w.plan.Servers+int(s)] = w.lane[i]
		}
	}
	return nil
}

// depart reads the transfers of leaf A off the phases and makes rows of them.
// Same-leaf transfers go to the first phases in which servers are left.
func (w *seater) depart(A int) {
	outs, leaves := &w.frame.bins[outward], w.frame.bins[inward].leaf
	first, last := outs.first[A], outs.first[A]+outs.count[A]
	local := w.size * (w.size - 1)
	to, lane := w.to[:0], w.lane[:0]
	for phase := range w.plan.Phases {
		before := len(to)
		for i, v := range w.timetable.match[phase*w.frame.n:][first:last] {
			B := leaves[v]
			if B < 0 || int(B) == A {
				continue
			}
			k := outs.only[first+int32(i)]
			if k < 0 {
				k = w.frame.take(A, int(B), first+int32(i), v, w.y)
			}
			to, lane = append(to, B), append(lane, k)
		}
		free := min(local, w.size-(len(to)-before))
		local -= free
		for range free {
			to, lane = append(to, int32(A)), append(lane, Local)
		}
		w.board(phase, len(to)-before)
		w.enter(to[before:])
	}
	w.to, w.lane = to, lane
	if len(w.rows) > 0 {
		w.closeGroup()
	}
}

// enter makes edges of a phase's transfers to some leaves.
func (w *seater) enter(to []int32) {
	rows, size := w.rows, int32(w.size)
	for _, B := range to {
		rows = append(rows, w.vertex[B])
		if w.met[B]++; w.met[B] == size {
			w.vertex[B], w.met[B] = w.vertex[B]+1, 0
		}
	}
	w.rows = rows
}
