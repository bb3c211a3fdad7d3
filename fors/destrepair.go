package fors

import "slices"

// Repair returns lanes for one LID a server on which no link has more than the given
// transfers: those of the wish except for a few, and all of Wish.Stay that are up. A unit
// without room displaces another, along the shortest chain that a search finds. changed
// counts the wished lanes that are up and were changed; ok is false if no such lanes were
// found.
func Repair(t *Tree, w Wish, transfers int) (repaired Wish, changed int, ok bool) {
	x, err := newOneLID(t, w, 1)
	if err != nil {
		return w, 0, false
	}
	x.manner, x.repairs = shiftLast, true
	l, budget := x.wished(transfers, x.size), destWork/64
	if !l.repair(&budget) {
		return w, 0, false
	}
	for i, k := range x.wish {
		if k != Local && k != l.via[i] {
			changed++
		}
	}
	return Wish{Via: x.byLeaf(l.via), Down: l.downs()}, changed, true
}

// repairSearch is how many units one search looks at.
const repairSearch = 1 << 12

// repair gives every unit a lane, and removes the excess from links.
func (l *laning) repair(budget *int) bool {
	for i, k := range l.via {
		A, d := i/len(l.leafOf), i%len(l.leafOf)
		if B := int(l.leafOf[d]); k != Local || A == B || !l.joined(A, B) {
			continue
		}
		if k := l.best(A, d); k >= 0 {
			l.put(A, d, Lane(k))
		} else if !l.reseat(i) {
			k, _ := l.lightest(A, d, -1, nil, 0)
			l.put(A, d, Lane(k))
		}
	}
	for at := range 2 * len(l.out) {
		end, i, moves := at/len(l.out), at%len(l.out), true
		for moves && l.overfull(end, i) > 0 {
			moves = slices.ContainsFunc(l.onLink(end, i), l.reseat)
		}
	}
	if !l.relieve(budget) {
		return false
	}
	l.restore()
	return true
}

// overfull returns by how many transfers a link exceeds its room; negative if it has room.
func (l *laning) overfull(end, i int) int {
	if end == outward {
		return l.out[i] - l.slots
	}
	return l.in[i] - l.slots
}

// onLink lists the units of a link that may move.
func (l *laning) onLink(end, i int) (units []int) {
	servers, leaf, k := len(l.leafOf), i/l.lanes, i%l.lanes
	if end == outward {
		for d := range servers {
			if unit := leaf*servers + d; int(l.via[unit]) == k && !l.stays(unit) {
				units = append(units, unit)
			}
		}
		return units
	}
	for A := range l.leaves {
		for j := range l.size[leaf] {
			if d := int(l.base[leaf]) + j; l.lands(A, d) == k && !l.stays(A*servers+d) {
				units = append(units, A*servers+d)
			}
		}
	}
	return units
}

// stays reports whether a unit must keep its lane.
func (l *laning) stays(unit int) bool { return l.stay != nil && l.stay[unit] }

// displaced is a unit on a chain, which takes the place of its successor.
type displaced struct {
	unit int
	by   int  // step that displaces it, −1 at the start
	to   Lane // the lane that the displacing unit takes
}

// reseat gives a unit another lane, and likewise each unit that this displaces.
func (l *laning) reseat(unit int) bool {
	servers := len(l.leafOf)
	chain, seen := []displaced{{unit, -1, Local}}, map[int]bool{unit: true}
	for at := 0; at < len(chain) && at < repairSearch; at++ {
		A, d := chain[at].unit/servers, chain[at].unit%servers
		B, from, fell := int(l.leafOf[d]), l.via[chain[at].unit], l.lands(A, d)
		for i := range l.lanes { // random start
			k := (i + A + d) % l.lanes
			if Lane(k) == from || !l.alive(A, B, k) {
				continue
			}
			fall := l.down(d, k)
			up, in := l.overfull(outward, A*l.lanes+k)+l.mult[A], l.overfull(inward, B*l.lanes+fall)
			if fall != fell {
				in += l.mult[A]
			}
			if up <= 0 && in <= 0 {
				if l.follow(chain, at, Lane(k)) {
					return true
				}
				continue
			}
			end, link := outward, A*l.lanes+k
			if up <= 0 {
				end, link = inward, B*l.lanes+fall
			}
			for _, other := range l.onLink(end, link) {
				// it makes room on one link, or on both
				if O := other / servers; seen[other] || l.mult[O] < max(up, in) || up > 0 && in > 0 && l.lands(O, other%servers) != fall {
					continue
				} else if up > 0 && in > 0 && int(l.leafOf[other%servers]) != B {
					continue
				}
				seen[other] = true
				chain = append(chain, displaced{other, at, Lane(k)})
			}
		}
	}
	return false
}

// follow moves the units of a chain to lanes with room, beginning at its end. It undoes the
// moves if a link that had room before then has too many transfers.
func (l *laning) follow(chain []displaced, at int, to Lane) bool {
	servers := len(l.leafOf)
	was := l.surplus()
	l.log = l.log[:0]
	for ; at >= 0; at, to = chain[at].by, chain[at].to {
		unit := chain[at].unit
		l.log = append(l.log, move{unit / servers, unit % servers, l.via[unit]})
		l.put(unit/servers, unit%servers, to)
	}
	if last := l.log[len(l.log)-1]; last.from == Local && l.surplus() <= was || l.surplus() < was {
		return true
	}
	for i := len(l.log) - 1; i >= 0; i-- {
		l.put(l.log[i].A, l.log[i].d, l.log[i].from)
	}
	return false
}

// surplus returns the total excess of all links.
func (l *laning) surplus() (over int) {
	for i := range l.out {
		over += max(0, l.out[i]-l.slots) + max(0, l.in[i]-l.slots)
	}
	return over
}

// restore gives units their wished lanes back if these have room again.
func (l *laning) restore() {
	servers := len(l.leafOf)
	for again := true; again; {
		again = false
		for unit, k := range l.wish {
			A, d := unit/servers, unit%servers
			if from := l.via[unit]; k != Local && k != from {
				was := l.surplus()
				if l.put(A, d, k); l.surplus() > was {
					l.put(A, d, from)
				} else {
					again = true
				}
			}
		}
	}
}
