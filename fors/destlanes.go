package fors

import (
	"math"
	"slices"
)

// laning is a choice of one lane for each leaf and destination server.
type laning struct {
	*oneLID
	slots int         // Φ: transfers that a link has room for
	mult  []int       // [leaf] transfers to each server
	via   []Lane      // [leaf·servers + server] Local where nothing is sent
	moved []bool      // [as via] neither as wished nor the server's own: may move again
	out   []int       // [leaf·lanes + lane] transfers out of a leaf
	in    []int       // [leaf·lanes + lane] transfers into a leaf
	uses  []int       // [server·lanes + lane] transfers to a server
	users []int       // [leaf·lanes + lane] servers of a leaf that receive on the lane
	fall  []Lane      // [server·lanes + lane] the lane down from the spine of this first lane, Local while unused; nil without spines
	log   []move      // moves of the current chain
	shift *shiftLoads // nil if the linear shift does not count
}

// move is a change of lane for leaf A and server d.
type move struct {
	A, d int
	from Lane
}

// wished takes the lanes wished for, or those that servers own, and leaves the others open.
func (x *oneLID) wished(slots int, mult []int) *laning {
	servers := len(x.leafOf)
	l := &laning{oneLID: x, slots: slots, mult: mult, via: make([]Lane, x.leaves*servers), moved: make([]bool, x.leaves*servers),
		out: make([]int, x.leaves*x.lanes), in: make([]int, x.leaves*x.lanes),
		uses: make([]int, servers*x.lanes), users: make([]int, x.leaves*x.lanes)}
	for i := range l.via {
		l.via[i] = Local
	}
	if x.cables != nil {
		l.fall = slices.Repeat([]Lane{Local}, len(l.uses))
	}
	wish := x.wish
	if wish == nil {
		wish = x.owned(x.owners())
	}
	for i, k := range wish {
		if k != Local {
			l.put(i/servers, i%servers, k)
		}
	}
	return l
}

// choose chooses lanes so that no link has more transfers than slots. If that fails with
// the wished lanes, it keeps only those on which servers receive most, and finally moves
// any of them. It returns false if it finds none.
func (x *oneLID) choose(slots int, mult []int, budget *int) (*laning, bool) {
	l := x.wished(slots, mult)
	if x.keep {
		l.countShift()
		return l, l.placeRest()
	}
	l.unsettle()
	l.release()
	l.countShift()
	if l.placeRest() {
		return l, true
	}
	l = x.wished(slots, mult)
	l.unsettle()
	for i, moved := range l.moved {
		if moved {
			l.put(i/len(x.leafOf), i%len(x.leafOf), Local)
		}
	}
	l.release()
	if l.placeRest() {
		return l, true
	}
	r := newRepairing(x.wished(slots, mult), budget)
	ok := r.giveLanes(r.excess(), repairSteps(len(r.via)))
	return r.laning, ok
}

// fullest returns the most transfers of a link.
func (l *laning) fullest() int {
	most := 0
	for i := range l.out {
		most = max(most, l.out[i], l.in[i])
	}
	return most
}

// down returns the lane by which traffic up by lane k goes down to server d: the lane
// already chosen at its spine, the wished one if it is up, or one on which few receive.
func (l *laning) down(d, k int) int {
	if l.fall == nil {
		return k
	}
	at, B := d*l.lanes+l.spine[k], int(l.leafOf[d])*l.lanes
	if l.fall[at] != Local {
		return int(l.fall[at])
	}
	if l.falls != nil && l.falls[at] != Local && l.up[B+int(l.falls[at])] {
		return int(l.falls[at])
	}
	best := -1
	for _, j := range l.cables[k] {
		if l.up[B+j] && (best < 0 || l.in[B+j] < l.in[B+best] || l.in[B+j] == l.in[B+best] && j == k) {
			best = j
		}
	}
	return best
}

// put sets or removes the lane of leaf A to server d.
func (l *laning) put(A, d int, k Lane) {
	B, i, fall := int(l.leafOf[d]), A*len(l.leafOf)+d, -1
	if k >= 0 {
		fall = l.down(d, int(k))
	}
	if was := int(l.via[i]); was >= 0 {
		if l.shift != nil {
			l.shiftBy(A, d, was, -1)
		}
		j := l.down(d, was)
		l.out[A*l.lanes+was] -= l.mult[A]
		l.in[B*l.lanes+j] -= l.mult[A]
		if l.uses[d*l.lanes+j] -= l.mult[A]; l.uses[d*l.lanes+j] == 0 {
			l.users[B*l.lanes+j]--
			if l.fall != nil {
				l.fall[d*l.lanes+l.spine[was]] = Local
			}
		}
	}
	l.via[i] = k
	if k >= 0 {
		if l.fall != nil {
			l.fall[d*l.lanes+l.spine[k]] = Lane(fall)
		}
		if l.shift != nil {
			l.shiftBy(A, d, int(k), 1)
		}
		l.out[A*l.lanes+int(k)] += l.mult[A]
		l.in[B*l.lanes+fall] += l.mult[A]
		if l.uses[d*l.lanes+fall] += l.mult[A]; l.uses[d*l.lanes+fall] == l.mult[A] {
			l.users[B*l.lanes+fall]++
		}
	}
}

// unsettle allows to move all lanes other than the one on which their server receives most,
// and all lanes of servers without such a lane.
func (l *laning) unsettle() {
	servers := len(l.leafOf)
	for i, k := range l.via {
		if k != Local {
			uses := l.uses[i%servers*l.lanes:][:l.lanes]
			most := slices.Max(uses)
			l.moved[i] = uses[l.down(i%servers, int(k))] < most || 3*most < l.slots
		}
	}
}

// release removes lanes from links with more transfers than room, first those of servers
// that receive little on them.
func (l *laning) release() {
	servers := len(l.leafOf)
	for i := range l.out {
		leaf, k := i/l.lanes, Lane(i%l.lanes)
		for _, most := range []int{l.slots / 2, math.MaxInt} {
			for d := 0; d < servers && l.out[i] > l.slots; d++ {
				if l.via[leaf*servers+d] == k && l.uses[d*l.lanes+l.down(d, int(k))] <= most {
					l.put(leaf, d, Local)
				}
			}
			for at := 0; at < l.leaves*l.size[leaf] && l.in[i] > l.slots; at++ {
				A, d := at/l.size[leaf], int(l.base[leaf])+at%l.size[leaf]
				if l.lands(A, d) == int(k) && l.uses[d*l.lanes+int(k)] <= most {
					l.put(A, d, Local)
				}
			}
		}
	}
}

// placeRest gives lanes to all that have none. It returns false if a link has more
// transfers than room in the end.
func (l *laning) placeRest() bool {
	servers := len(l.leafOf)
	for A := range l.leaves {
		for d, k := range l.via[A*servers:][:servers] {
			if B := int(l.leafOf[d]); k != Local || A == B || !l.joined(A, B) {
				continue
			}
			l.moved[A*servers+d] = true
			if k := l.best(A, d); k >= 0 {
				l.put(A, d, Lane(k))
			} else if !l.force(A, d) {
				return false
			}
		}
	}
	return l.fullest() <= l.slots
}

// best returns the lane with room for leaf A and server d: first a lane on which only d
// receives, then an unused one, then one on which d and others receive, among equals that
// with the most room; −1 if no lane has room.
func (l *laning) best(A, d int) int {
	B := int(l.leafOf[d])
	best, rank := -1, [4]int{}
	for i := range l.lanes { // random start
		k := (i + A + B) % l.lanes
		if !l.alive(A, B, k) || l.out[A*l.lanes+k]+l.mult[A] > l.slots {
			continue
		}
		j := l.down(d, k)
		if l.in[B*l.lanes+j]+l.mult[A] > l.slots {
			continue
		}
		r := [4]int{l.shares(d, j), 0, l.in[B*l.lanes+j], l.out[A*l.lanes+k]}
		if l.shift != nil {
			r[1] = l.shiftCost(A, d, k)
		}
		if l.manner == shiftFirst {
			r[0], r[1] = r[1], r[0]
		}
		if best < 0 || slices.Compare(r[:], rank[:]) < 0 {
			best, rank = k, r
		}
	}
	return best
}

// shares ranks a lane down to a server: 0 if only that server receives on it, 1 if none does,
// 2 if others do as well, and 3 if only others do.
func (l *laning) shares(d, k int) int {
	switch users, uses := l.users[int(l.leafOf[d])*l.lanes+k], l.uses[d*l.lanes+k]; {
	case users == 1 && uses > 0:
		return 0
	case users == 0:
		return 1
	case uses > 0:
		return 2
	}
	return 3
}

// downs returns the lane by which traffic up by a lane goes down to a server, [server·lanes
// + lane]; nil without spines.
func (l *laning) downs() []Lane {
	if l.fall == nil {
		return nil
	}
	downs := make([]Lane, len(l.fall))
	for i := range downs {
		at := i - i%l.lanes + l.spine[i%l.lanes]
		if downs[i] = l.fall[at]; downs[i] == Local && l.falls != nil {
			downs[i] = l.falls[at]
		}
		if downs[i] == Local && l.fell != nil && l.fell[i] != Local && l.up[int(l.leafOf[i/l.lanes])*l.lanes+int(l.fell[i])] {
			downs[i] = l.fell[i] // unused
		}
	}
	return downs
}

// lands returns the lane by which traffic from leaf A goes down to server d, negative if
// none.
func (l *laning) lands(A, d int) int {
	if k := l.via[A*len(l.leafOf)+d]; k != Local {
		return l.down(d, int(k))
	}
	return -1
}

// force gives leaf A and server d a lane with room at A, and moves the displaced transfers
// along a chain of two lanes.
func (l *laning) force(A, d int) bool {
	B := int(l.leafOf[d])
	for i := range l.lanes {
		a := (i + A + B) % l.lanes
		if !l.alive(A, B, a) || l.out[A*l.lanes+a]+l.mult[A] > l.slots {
			continue
		}
		for b := range l.lanes {
			if b != a && l.up[B*l.lanes+b] && l.in[B*l.lanes+b]+l.mult[A] <= l.slots && l.chain(A, d, a, b) {
				return true
			}
		}
	}
	return false
}

// chain puts the transfers from leaf A to server d on lane a, and while a link is
// overloaded by that, moves another unit of the link to the other lane. It undoes
// everything if that fails.
func (l *laning) chain(A, d, a, b int) bool {
	l.log = append(l.log[:0], move{A, d, l.via[A*len(l.leafOf)+d]})
	l.put(A, d, Lane(a))
	B := int(l.leafOf[d])
	from, to, leaf, end := l.down(d, a), b, B, inward
	for range 4 * l.leaves {
		load := l.in
		if end == outward {
			load = l.out
		}
		if load[leaf*l.lanes+from] <= l.slots {
			return true
		}
		next := l.displace(leaf, end, from, to)
		if next < 0 {
			break
		}
		leaf, end = next, 1-end
		from, to = to, from
	}
	for i := len(l.log) - 1; i >= 0; i-- {
		l.put(l.log[i].A, l.log[i].d, l.log[i].from)
	}
	return false
}

// displace moves a movable unit from one lane to another at an end of a leaf, and returns
// the leaf at its other end, −1 if no unit can move.
func (l *laning) displace(leaf, end, from, to int) int {
	servers := len(l.leafOf)
	try := func(A, d int) bool {
		i := A*servers + d
		at := int(l.via[i])
		if end == inward {
			at = l.lands(A, d)
		}
		if at != from || !l.moved[i] || !l.alive(A, int(l.leafOf[d]), to) {
			return false
		}
		for _, m := range l.log {
			if m.A == A && m.d == d {
				return false
			}
		}
		l.log = append(l.log, move{A, d, l.via[i]})
		l.put(A, d, Lane(to))
		return true
	}
	if end == outward {
		for d := range servers {
			if try(leaf, d) {
				return int(l.leafOf[d])
			}
		}
		return -1
	}
	for A := range l.leaves {
		for i := range l.size[leaf] {
			if try(A, int(l.base[leaf])+i) {
				return A
			}
		}
	}
	return -1
}

// owners gives each server a lane of its leaf, distinct within the leaf, so that in each
// exchange the numbers of owners of any two lanes differ by at most one, as far as dead cables allow.
// The lanes owned once more come first. A leaf that would otherwise send too much over
// these owns one of each; then no link of an undamaged tree has more than P−1 transfers.
func (x *oneLID) owners() []Lane {
	own := make([]Lane, len(x.leafOf))
	for _, party := range x.parties() {
		servers, owned := 0, make([]int, x.lanes)
		for _, A := range party {
			servers += x.size[A]
		}
		each, more := servers/max(1, x.lanes), servers%max(1, x.lanes)
		for _, tight := range []bool{true, false} {
			for _, A := range party {
				if size := x.size[A]; (size*(each+1) >= servers) == tight {
					x.own(A, own[x.base[A]:][:size], owned, each, more, tight)
				}
			}
		}
	}
	return own
}

// own gives the servers of leaf A lanes of their own: those with the fewest owners relative
// to their share each, in turn.
func (x *oneLID) own(A int, own []Lane, owned []int, each, more int, tight bool) {
	taken := make([]bool, x.lanes)
	for i := range own {
		own[i] = Local
		var rank [3]int
		for k, up := range x.lanesOf(A) {
			if taken[k] || !up {
				continue
			}
			r := [3]int{1, owned[k] - each, (k - i + x.lanes) % x.lanes}
			if k < more {
				r[1]--
				if tight {
					r[0] = 0
				}
			}
			if own[i] == Local || slices.Compare(r[:], rank[:]) < 0 {
				own[i], rank = Lane(k), r
			}
		}
		if k := own[i]; k != Local {
			taken[k] = true
			owned[k]++
		}
	}
}

// owned returns the lanes that follow from those that servers own.
func (x *oneLID) owned(own []Lane) []Lane {
	servers := len(own)
	via := make([]Lane, x.leaves*servers)
	for i := range via {
		via[i] = Local
		if k := own[i%servers]; k != Local && x.alive(i/servers, int(x.leafOf[i%servers]), int(k)) {
			via[i] = k
		}
	}
	return via
}
