package fors

import "context"

// relief is the scratch memory of the searches that relieve overloaded links.
type relief struct {
	from  []step  // [state] how it was reached; states are links or leaf ends
	queue []int32 // states, in the order reached
	path  []step
	links []int32 // overloaded links, (end·leaves + leaf)·lanes + lane
}

// step moves one transfer from A to B to another lane, after the previous state.
type step struct {
	before         int32 // state, −1 at the root, −2 if not reached
	A, B, lane, to int32
}

// relieve moves transfers until no link is overloaded. If neither search finds a way it
// forces a move, a limited number of times. It reports whether that sufficed, and stops at
// the work limit or when ctx ends.
func (s *spread) relieve(ctx context.Context, forced int) bool {
	clear(s.tabu)
	for move := int32(0); ; move++ {
		s.relieveAll(ctx)
		if s.excess == 0 {
			return true
		}
		if int(move) == forced || s.work < 0 || ctx.Err() != nil {
			return false
		}
		s.force(move)
	}
}

// relieveAll relieves the links that the two searches can relieve.
func (s *spread) relieveAll(ctx context.Context) {
	for again := true; again && s.excess > 0; {
		again = false
		for link := range 2 * s.leaves * s.lanes {
			end, leaf, lane := s.link(link)
			for s.load[end][leaf*s.lanes+lane] > s.Φ && s.work >= 0 && ctx.Err() == nil && (s.exchange(end, leaf, lane) || s.chase(end, leaf, lane)) {
				again = true
			}
		}
	}
}

// link splits the number of a link.
func (s *spread) link(i int) (end, leaf, lane int) {
	return i / (s.leaves * s.lanes), i / s.lanes % s.leaves, i % s.lanes
}

// room reports whether a link can take one more transfer.
func (s *spread) room(end, leaf, lane int) bool { return s.load[end][leaf*s.lanes+lane] < s.Φ }

// between returns the transfers that a leaf has with a peer on a lane.
func (s *spread) between(end, leaf, peer, lane int) int32 {
	A, B := pair(end, leaf, peer)
	return s.y[(A*s.leaves+B)*s.lanes+lane]
}

// exchange relieves a link by a Kempe chain: transfers swap two lanes in turn,
// from leaf end to leaf end, until one has room.
func (s *spread) exchange(end, leaf, lane int) bool {
	up := s.lanesOf(leaf)
	for other := range s.lanes {
		if other != lane && up[other] && s.room(end, leaf, other) && s.chain(end, leaf, lane, other) {
			return true
		}
	}
	return false
}

// chain searches the leaf ends breadth first. An end on the root's side moves a
// transfer from lane to other, one on the far side from other to lane.
func (s *spread) chain(end, leaf, lane, other int) bool {
	r := &s.relief
	r.begin(2 * s.leaves)
	r.reach(end*s.leaves+leaf, step{before: -1})
	for head := 0; head < len(r.queue); head++ {
		state := int(r.queue[head])
		s.work -= s.leaves
		side, X := state/s.leaves, state%s.leaves
		from, to := lane, other
		if side != end {
			from, to = other, lane
		}
		if !s.up[X*s.lanes+to] {
			continue
		}
		for Z := range s.leaves {
			next := (1-side)*s.leaves + Z
			if r.reached(next) || !s.up[Z*s.lanes+to] || s.between(side, X, Z, from) == 0 {
				continue
			}
			A, B := pair(side, X, Z)
			r.reach(next, step{int32(state), int32(A), int32(B), int32(from), int32(to)})
			if s.room(1-side, Z, to) {
				return s.apply(next)
			}
		}
	}
	return false
}

// chase relieves a link by passing its excess on: a transfer moves to another
// lane, where it may overload one of the two links that it lands on, which then
// gets rid of a transfer in turn. States are links.
func (s *spread) chase(end, leaf, lane int) bool {
	r := &s.relief
	links := s.leaves * s.lanes
	r.begin(2*links + 1) // the last one is a place at which all have room
	r.reach(end*links+leaf*s.lanes+lane, step{before: -1})
	for head := 0; head < len(r.queue); head++ {
		state := int(r.queue[head])
		s.work -= s.leaves
		side, X, from := s.link(state)
		up := s.lanesOf(X)
		for Z := range s.leaves {
			if s.between(side, X, Z, from) == 0 {
				continue
			}
			s.work -= s.lanes
			upZ := s.lanesOf(Z)
			A, B := pair(side, X, Z)
			for to, ok := range up {
				if !ok || !upZ[to] || to == from {
					continue
				}
				next := 2 * links
				roomX, roomZ := s.room(side, X, to), s.room(1-side, Z, to)
				switch {
				case roomX && roomZ:
				case roomX:
					next = (1-side)*links + Z*s.lanes + to
				case roomZ:
					next = side*links + X*s.lanes + to
				default:
					continue
				}
				if r.reached(next) {
					continue
				}
				move := step{int32(state), int32(A), int32(B), int32(from), int32(to)}
				if next < 2*links {
					r.reach(next, move)
					continue
				}
				if r.from[next] = move; s.apply(next) {
					return true
				}
			}
		}
	}
	return false
}

// apply makes the moves that led to a state, from the root on, and reports whether they
// reduce the excess. If not, for instance because two moves want the same transfer, it
// undoes them and forgets the state.
func (s *spread) apply(state int) bool {
	r := &s.relief
	r.path = r.path[:0]
	for i := r.from[state]; i.before != -1; i = r.from[i.before] {
		r.path = append(r.path, i)
	}
	before, made := s.excess, len(r.path)
	s.work -= made
	for made > 0 {
		i := r.path[made-1]
		if s.y[(int(i.A)*s.leaves+int(i.B))*s.lanes+int(i.lane)] == 0 {
			break
		}
		s.move(int(i.A), int(i.B), int(i.lane), int(i.to))
		made--
	}
	if made == 0 && s.excess < before {
		return true
	}
	for _, i := range r.path[made:] {
		s.move(int(i.A), int(i.B), int(i.to), int(i.lane))
	}
	r.from[state].before = -2
	return false
}

func (r *relief) begin(states int) {
	r.from = grow(r.from, states)
	for i := range r.from {
		r.from[i].before = -2
	}
	r.queue = r.queue[:0]
}

func (r *relief) reached(state int) bool { return r.from[state].before != -2 }

func (r *relief) reach(state int, by step) {
	r.from[state] = by
	r.queue = append(r.queue, int32(state))
}

// force moves a transfer off a random overloaded link, where it does the least
// harm, and forbids its return for a while.
func (s *spread) force(move int32) {
	r := &s.relief
	s.work -= 2 * s.leaves * s.lanes
	r.links = r.links[:0]
	for link := range 2 * s.leaves * s.lanes {
		end, leaf, lane := s.link(link)
		if s.load[end][leaf*s.lanes+lane] > s.Φ {
			r.links = append(r.links, int32(link))
		}
	}
	end, X, from := s.link(int(r.links[s.rng.IntN(len(r.links))]))
	if s.tabu == nil {
		s.tabu = make([]int32, len(s.y))
	}
	best, ties := int32(1<<31-1), 0
	var chosen step
	for Z := range s.leaves {
		if s.between(end, X, Z, from) == 0 {
			continue
		}
		A, B := pair(end, X, Z)
		for to := range s.lanes {
			if to == from || !s.up[A*s.lanes+to] || !s.up[B*s.lanes+to] || s.tabu[(A*s.leaves+B)*s.lanes+to] > move {
				continue
			}
			harm := max(0, s.load[outward][A*s.lanes+to]-s.Φ+1) + max(0, s.load[inward][B*s.lanes+to]-s.Φ+1)
			if harm > best {
				continue
			}
			if harm < best {
				best, ties = harm, 0
			}
			if ties++; s.rng.IntN(ties) == 0 {
				chosen = step{0, int32(A), int32(B), int32(from), int32(to)}
			}
		}
	}
	if ties == 0 {
		return
	}
	s.move(int(chosen.A), int(chosen.B), int(chosen.lane), int(chosen.to))
	s.tabu[(int(chosen.A)*s.leaves+int(chosen.B))*s.lanes+from] = move + 2 + int32(s.rng.IntN(10))
}
