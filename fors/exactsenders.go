package fors

// seatSenders gives the transfers of leaf A their senders. A leaf B of n_B
// servers stands to the right as n_B vertices of n_A transfers each, A itself as
// n_A − 1, so that each sender meets leaf B n_B times.
func (w *seater) seatSenders(A int) error {
	w.leaf = w.leaf[:0]
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
	from, to := outs.first[A], outs.first[A]+outs.count[A]
	local := w.size * (w.size - 1)
	w.to, w.lane = w.to[:0], w.lane[:0]
	for phase := range w.plan.Phases {
		before := len(w.to)
		for i, v := range w.timetable.match[phase*w.frame.n:][from:to] {
			B := leaves[v]
			if B < 0 || int(B) == A {
				continue
			}
			k := outs.only[from+int32(i)]
			if k < 0 {
				k = w.frame.take(A, int(B), from+int32(i), v, w.y)
			}
			w.to, w.lane = append(w.to, B), append(w.lane, k)
		}
		free := min(local, w.size-(len(w.to)-before))
		local -= free
		for range free {
			w.to, w.lane = append(w.to, int32(A)), append(w.lane, Local)
		}
		w.board(phase, len(w.to)-before)
		for _, B := range w.to[before:] {
			w.rows = append(w.rows, w.vertex[B])
			if w.met[B]++; int(w.met[B]) == w.size {
				w.vertex[B], w.met[B] = w.vertex[B]+1, 0
			}
		}
	}
	if len(w.rows) > 0 {
		w.closeGroup()
	}
}
