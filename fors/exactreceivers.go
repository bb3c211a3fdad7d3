package fors

import "context"

// seatReceivers gives the transfers to leaf B their receivers: those of a sender have different
// ones.
func (w *seater) seatReceivers(ctx context.Context, B int) error {
	names, server, err := w.seatNamed(ctx, B, w.arrive)
	if err != nil {
		return err
	}
	boarded := w.boarded[:names]
	for i, c := range w.Seat[:names] {
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
		for _, s := range w.sender[phase*w.n:][first:bins] {
			if s != Idle {
				w.boarded[at] = boarded{phase: Phase(phase), at: int32(s)}
				w.Rows[at] = w.vertexOf[s]
				at++
			}
		}
		free := min(len(locals), w.size-(at-w.used))
		for _, s := range locals[:free] {
			w.boarded[at] = boarded{phase: Phase(phase), at: int32(s)}
			w.Rows[at] = w.vertexOf[s]
			at++
		}
		locals = locals[free:]
		w.board(at - w.used)
	}
}
