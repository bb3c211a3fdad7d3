package fors

import "math"

// relieve gives a lane to every unit without one, ignoring the room, and then moves units
// off links with more transfers than room, the least harmful move first; a move is not
// undone for a while (tabu). It returns false after reliefMoves moves without gain or when
// the work limit is reached.
func (l *laning) relieve(budget *int) bool {
	servers := len(l.leafOf)
	for i, k := range l.via {
		if A, d := i/servers, i%servers; k == Local && int(l.leafOf[d]) != A && l.joined(A, int(l.leafOf[d])) {
			k, _ := l.lightest(A, d, -1, nil, 0)
			l.put(A, d, Lane(k))
		}
	}
	tabu := make([]int32, len(l.via)*l.lanes) // [unit·lanes + lane] the turn before which the unit does not return
	random := uint64(l.slots)
	best := math.MaxInt
	for turn, stuck := int32(1), 0; stuck < reliefMoves && *budget > 0; turn++ {
		end, leaf, k, over := l.overloaded(int(turn))
		if over == 0 {
			return true
		}
		if over < best {
			best, stuck = over, 0
		}
		stuck++
		*budget -= len(l.out)
		unit, to, least := -1, -1, math.MaxInt
		consider := func(A, d int) {
			at := int(l.via[A*servers+d])
			if end == outward && at != k || end == inward && l.lands(A, d) != k || l.stays(A*servers+d) {
				return
			}
			*budget -= l.lanes
			if lane, harm := l.lightest(A, d, at, tabu, turn); lane >= 0 {
				random = random*6364136223846793005 + 1442695040888963407
				if harm = 4*harm + int(random>>62); harm < least {
					unit, to, least = A*servers+d, lane, harm
				}
			}
		}
		if end == outward {
			for d := range servers {
				consider(leaf, d)
			}
		} else {
			for A := range l.leaves {
				for i := range l.size[leaf] {
					consider(A, int(l.base[leaf])+i)
				}
			}
		}
		if unit < 0 {
			continue
		}
		tabu[unit*l.lanes+int(l.via[unit])] = turn + 8 + int32(random>>33%16)
		l.put(unit/servers, unit%servers, Lane(to))
	}
	return false
}

// reliefMoves is how many moves in a row may gain nothing.
const reliefMoves = 1 << 10

// overloaded returns a link with more transfers than room, a different one each turn, and
// the total excess.
func (l *laning) overloaded(turn int) (end, leaf, lane, over int) {
	links := len(l.out)
	found := -1
	for i := range 2 * links {
		at := (i + turn*links/3) % (2 * links)
		load := l.out
		if at >= links {
			load = l.in
		}
		if x := load[at%links] - l.slots; x > 0 {
			if over += x; found < 0 {
				found = at
			}
		}
	}
	if found < 0 {
		return 0, 0, 0, 0
	}
	end = outward
	if found >= links {
		end = inward
	}
	return end, found % links / l.lanes, found % l.lanes, over
}

// lightest returns the lane to which moving leaf A's transfers to server d harms least,
// excluding from and tabu lanes: by the change in overload, then by the other receivers on
// it. It is −1 if there is none.
func (l *laning) lightest(A, d, from int, tabu []int32, turn int32) (lane, harm int) {
	B, n, was := int(l.leafOf[d]), l.mult[A], l.lands(A, d)
	over := func(load, change int) int { return max(0, load+change-l.slots) - max(0, load-l.slots) }
	lane, harm = -1, math.MaxInt
	for k := range l.lanes {
		if k == from || !l.alive(A, B, k) || tabu != nil && tabu[(A*len(l.leafOf)+d)*l.lanes+k] > turn {
			continue
		}
		j := l.down(d, k)
		h := 4 * over(l.out[A*l.lanes+k], n)
		if j != was {
			h += 4 * over(l.in[B*l.lanes+j], n)
			if was >= 0 {
				h += 4 * over(l.in[B*l.lanes+was], -n)
			}
		}
		switch users, uses := l.users[B*l.lanes+j], l.uses[d*l.lanes+j]; {
		case l.repairs:
			if Lane(k) != l.wish[A*len(l.leafOf)+d] {
				h++
			}
		case users == 1 && uses > 0:
		case users == 0:
			h++
		case uses > 0:
			h += 2
		default:
			h += 3
		}
		if h < harm {
			lane, harm = k, h
		}
	}
	if lane >= 0 && from >= 0 {
		if l.repairs && Lane(from) == l.wish[A*len(l.leafOf)+d] {
			harm++
		}
		harm += 4 * over(l.out[A*l.lanes+from], -n)
	}
	return lane, harm
}
