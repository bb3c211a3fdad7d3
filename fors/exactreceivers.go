package fors

// seatReceivers gives the transfers to leaf B their receivers. The senders are
// the right vertices, of n_B transfers each. One group more, which is no phase,
// is joined once to each of B's own servers, which send n_B − 1 times to others:
// the colour that a server has there is its own. It receives all transfers of
// that colour, and so none from itself.
func (w *seater) seatReceivers(B int) error {
	senders := int32(0)
	w.vertex, w.vertexOf = grow(w.vertex, w.leaves), grow(w.vertexOf, w.plan.Servers)
	for A := range w.leaves {
		w.vertex[A] = senders
		if !w.joined(A, B) {
			continue
		}
		for s := range w.net.size[A] {
			w.vertexOf[int(w.base[A])+s] = senders
			senders++
		}
	}
	w.begin(B, int(senders), int(senders))
	w.arrive(B)
	for c := range w.size {
		w.rows = append(w.rows, w.vertex[B]+int32(c))
	}
	groups, err := w.colour()
	if err != nil {
		return err
	}
	for g := range groups - 1 {
		first := w.group[g]
		for i, s := range w.source[first:w.group[g+1]] {
			v := w.vertexOf[s]
			w.next[i], w.head[v] = w.head[v], int32(i)
		}
		for c := range w.size {
			v := w.match[c*groups+g]
			if v >= senders {
				continue // idle
			}
			i := first + w.pop(v)
			name := w.match[c*groups+groups-1] - w.vertex[B]
			w.plan.To[int(w.phaseOf[i])*w.plan.Servers+int(w.source[i])] = w.base[B] + Server(name)
		}
	}
	return nil
}

// arrive sorts the transfers to leaf B by phase and makes rows of them.
func (w *seater) arrive(B int) {
	from, to := w.first[B*w.leaves], w.first[(B+1)*w.leaves]
	phases, senders := w.phase[from:to], w.sender[from:to]
	w.start = grow(w.start, w.plan.Phases+2)
	clear(w.start)
	start := w.start[1:] // filled from place 1 on, so that it ends up one lower
	for _, p := range phases {
		start[p+1]++
	}
	for p := range w.plan.Phases {
		start[p+1] += start[p]
	}
	w.source = grow(w.source, len(senders))
	for i, p := range phases {
		w.source[start[p]] = senders[i]
		start[p]++
	}
	for p := range w.plan.Phases {
		arrivals := w.source[w.start[p]:w.start[p+1]]
		w.board(p, len(arrivals))
		rows := w.rows
		for _, s := range arrivals {
			rows = append(rows, w.vertexOf[s])
		}
		w.rows = rows
	}
	if len(w.rows) > 0 {
		w.closeGroup()
	}
}
