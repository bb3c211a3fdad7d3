package fors

import "context"

const (
	// rotationWork limits a search, in units of solving all phases, and forcedWork one that
	// drives others off their lanes, for at most so many transfers.
	rotationWork  = 8
	forcedWork    = 16
	rotationLimit = 1 << 20
	// forceWork is the cost of a failure to drive others off their lanes.
	forceWork = 16 * forceSteps
	// homeless is the cost of a transfer without a lane, in transfers that leave their own
	// lane, and mostHomeless how many of these a phase may have on average for a search to
	// be worthwhile.
	homeless     = 1 << 16
	mostHomeless = 6
)

// giveLanes gives all transfers lanes that are up. Phases that cost something exchange
// rotations with others. Transfers without a lane then drive others off theirs. If too many
// have none, it fails with ErrNotApplicable at once.
func (r *rotation) giveLanes(ctx context.Context) error {
	total := 0
	for ph := range r.plan.Phases {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(r.hurt) == 0 {
			r.lay(ph)
			continue
		}
		r.cost[ph] = r.solve(ph, false)
		total += r.cost[ph]
	}
	if total > mostHomeless*homeless*r.plan.Phases {
		return ErrNotApplicable
	}
	if err := r.search(ctx, false); err != nil {
		return err
	}
	for ph, cost := range r.cost {
		if cost >= homeless {
			r.cost[ph] = r.solve(ph, true)
		}
	}
	if err := r.search(ctx, true); err != nil {
		return err
	}
	for _, cost := range r.cost {
		if cost >= homeless {
			return ErrNotApplicable
		}
	}
	return nil
}

// search exchanges rotations of phases that cost something, or, if forced, of those
// with transfers that have no lane.
func (r *rotation) search(ctx context.Context, forced bool) error {
	least, times := 1, rotationWork
	if forced {
		least, times = homeless, forcedWork
	}
	r.left = min(times*r.plan.Phases*r.plan.Servers, times*rotationLimit)
	for more := true; more && r.left > 0; {
		more = false
		for p, cost := range r.cost {
			if cost < least || r.left <= 0 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			r.exchange(p, forced)
			more = true
		}
	}
	return nil
}

// exchange exchanges a rotation of a phase with one of another phase if that costs no more:
// a hurt lane's, and if that idles in one of them, another lane's too, so that as many
// lanes idle as before.
func (r *rotation) exchange(p int, forced bool) {
	n, q := r.n, r.rng.IntN(r.plan.Phases)
	i := r.hurt[r.rng.IntN(len(r.hurt))]
	j := i
	a, b := r.offset[p*n:][:n], r.offset[q*n:][:n]
	if r.left--; p == q || a[i] == b[i] {
		return
	}
	if (a[i] <= 0) != (b[i] <= 0) {
		r.left -= n
		for range n {
			if j = (j + 1) % n; (a[j] <= 0) == (b[i] <= 0) && (b[j] <= 0) == (a[i] <= 0) {
				break
			}
		}
		if j == i {
			return
		}
	}
	swap := func() {
		a[i], b[i] = b[i], a[i]
		if j != i {
			a[j], b[j] = b[j], a[j]
		}
	}
	phases, most := [2]int{p, q}, r.cost[p]+r.cost[q]
	for x, ph := range phases {
		to, lane := r.plan.Row(Phase(ph))
		copy(r.kept[x].To, to)
		copy(r.kept[x].Lane, lane)
	}
	swap()
	costP, costQ := r.solve(p, forced), 0
	if costP <= most {
		costQ = r.solve(q, forced)
	}
	if costP+costQ <= most {
		r.cost[p], r.cost[q] = costP, costQ
		return
	}
	swap()
	for x, ph := range phases {
		to, lane := r.plan.Row(Phase(ph))
		copy(to, r.kept[x].To)
		copy(lane, r.kept[x].Lane)
	}
}

// solve sets the rows of a phase, and returns what it costs: how many transfers leave a
// lane of their own that is up.
func (r *rotation) solve(ph int, forced bool) (cost int) {
	r.lay(ph)
	b := r.board
	b.steps = 0
	r.late = b.load(r.plan, Phase(ph), r.late[:0])
	r.keepLate(func(x Pair) bool { return b.fitApart(x.Src, x.Dst, 0) })
	r.keepLate(func(x Pair) bool { return b.fitApart(x.Src, x.Dst, homeless-1) })
	if forced {
		before := len(r.late)
		r.keepLate(func(x Pair) bool { return b.force(x.Src, x.Dst) })
		b.steps += forceSteps*before + forceWork*len(r.late)
	}
	r.left -= b.steps + len(b.lane)
	cost = homeless * len(r.late)
	for s, k := range b.lane {
		if d := b.to[s]; d != Idle && k != Local && k != b.own[d] && b.usable(Server(s), d, b.own[d]) {
			cost++
		}
	}
	return cost
}

// keepLate keeps those that place rejects.
func (r *rotation) keepLate(place func(Pair) bool) {
	kept := r.late[:0]
	for _, x := range r.late {
		if !place(x) {
			kept = append(kept, x)
		}
	}
	r.late = kept
}

// lay sets the rows of a phase to its rotations, as if all lanes were up.
func (r *rotation) lay(ph int) {
	to, lane := r.plan.Row(Phase(ph))
	for slot, a := range r.offset[ph*r.n:][:r.n] {
		k := r.own[slot]
		if a <= 0 {
			k = Local
		}
		B := int(a)
		for s := slot; s < len(to); s += r.n {
			to[s], lane[s] = Idle, k
			if a >= 0 {
				to[s] = Server(B*r.n + slot)
			}
			if B++; B == r.leaves {
				B = 0
			}
		}
	}
}

// fitApart is fit by the chain that takes fewest transfers off their own lanes, if
// these are no more than the given number.
func (b *board) fitApart(s, d Server, most int) bool {
	k := b.direct(s, d)
	if k < 0 {
		ends := [2]int32{b.leaf[s], b.leaf[d]}
		least, at, with := most+1, 0, Lane(-1)
		for end, leaf := range ends {
			for x := b.next(1-end, ends[1-end], 0); x >= 0; x = b.next(1-end, ends[1-end], x+1) {
				if !b.usable(s, d, x) {
					continue
				}
				for c := b.next(end, leaf, 0); c >= 0; c = b.next(end, leaf, c+1) {
					if cost := b.weigh(end, leaf, x, c); cost < least {
						least, at, k, with = cost, end, x, c
					}
				}
			}
		}
		if k < 0 {
			return false
		}
		b.chain(at, ends[at], k, with)
	}
	b.to[s], b.from[d] = d, s
	b.occupy(s, k)
	return true
}

// weigh returns how many more transfers a chain takes off their own lanes than back to
// them, and homeless if it is not a chain.
func (b *board) weigh(end int, leaf int32, k, c Lane) (cost int) {
	for x := b.via[end][int(leaf)*b.lanes+int(k)]; x != Idle; x = b.via[end][int(leaf)*b.lanes+int(k)] {
		d := b.to[x]
		if b.steps++; !b.usable(x, d, c) {
			return homeless
		}
		switch b.own[d] {
		case k:
			cost++
		case c:
			cost--
		}
		if end = 1 - end; end == inward {
			leaf = b.leaf[d]
		} else {
			leaf = b.leaf[x]
		}
		k, c = c, k
	}
	return cost
}
