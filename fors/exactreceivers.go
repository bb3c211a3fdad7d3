package fors

import "context"

// seatReceivers gives the transfers to leaf B their receivers. The senders are the right
// vertices, of n_B transfers each. One additional group, which does not stand for phases,
// is joined once to each of B's own servers, which send n_B − 1 times to others: the colour
// of a server there is its own. It receives all transfers of that colour, and so none from
// itself.
func (w *seater) seatReceivers(ctx context.Context, B int) error {
	senders := int32(0)
	own := int32(0) // right vertex of B's first server
	w.vertexOf = grow(w.vertexOf, w.plan.Servers)
	for A := range w.leaves {
		if A == B {
			own = senders
		}
		if !w.joined(A, B) {
			continue
		}
		for s := range w.net.size[A] {
			w.vertexOf[int(w.base[A])+s] = senders
			senders++
		}
	}
	w.begin(B, int(senders)*w.net.size[B])
	w.arrive(B)
	for c := range w.size {
		w.rows[w.used+c] = own + int32(c)
	}
	w.board(w.size)
	if err := w.seat(ctx, senders); err != nil {
		return err
	}
	names := w.used - w.size         // the additional group
	server := make([]Server, w.size) // [colour]
	for c, own := range w.colour[names:w.used] {
		server[own] = w.base[B] + Server(c)
	}
	boarded := w.boarded[:names]
	for i, c := range w.colour[:names] {
		if t := &boarded[i]; t.phase >= 0 {
			w.plan.To[int(t.phase)*w.plan.Servers+int(t.at)] = server[c]
		}
	}
	return nil
}

// arrive adds the transfers to leaf B.
func (w *seater) arrive(B int) {
	ins := &w.frame.bins[inward]
	first, bins := ins.first[B], ins.first[B]+ins.count[B]
	locals := w.locals[w.ofLeaf[B]:w.ofLeaf[B+1]]
	for phase := range w.plan.Phases {
		at := w.used
		for _, s := range w.sender[phase*w.frame.n:][first:bins] {
			if s != Idle {
				w.boarded[at] = boarded{phase: Phase(phase), at: int32(s)}
				w.rows[at] = w.vertexOf[s]
				at++
			}
		}
		free := min(len(locals), w.size-(at-w.used))
		for _, s := range locals[:free] {
			w.boarded[at] = boarded{phase: Phase(phase), at: int32(s)}
			w.rows[at] = w.vertexOf[s]
			at++
		}
		locals = locals[free:]
		w.board(at - w.used)
	}
	w.closeGroup()
}
