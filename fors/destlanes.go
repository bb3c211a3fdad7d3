package fors

import (
	"math"
	"slices"
)

// laning is the choice of a lane for all that a leaf sends to a server.
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
	fall  []Lane      // [server·lanes + lane] the lane down from the spine of this first lane, Local while nothing comes; nil without spines
	log   []move      // what the chain at hand has moved
	shift *shiftLoads // nil where nobody looks at the linear shift
}

// move is a change of lane of what leaf A sends to server d.
type move struct {
	A, d int
	from Lane
}

// wished takes the lanes wished for, or those that servers own, and leaves the
// others open.
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

// choose chooses lanes so that no link has more transfers than slots. Where that does
// not work out with those wished for, it keeps only those on which servers receive
// most, and at last it moves any of them. It is false where it finds none.
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
	l = x.wished(slots, mult)
	return l, l.relieve(budget)
}

// fullest is the most transfers of a link.
func (l *laning) fullest() int {
	most := 0
	for i := range l.out {
		most = max(most, l.out[i], l.in[i])
	}
	return most
}

// down is the lane by which what comes up by lane k goes down to server d: the one that
// its spine has for d, as wished if that is up, else one on which few receive.
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

// put gives what leaf A sends to server d a lane, or takes it away.
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

// unsettle lets move what does not take the lane on which its server receives most,
// and all for servers without one.
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

// release takes lanes away where links have more transfers than room, first those of
// servers that receive little on them.
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

// placeRest gives lanes to all that has none. It is false where a link has more
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

// best is the lane for what leaf A sends to server d among those with room: one on
// which the server alone receives before any other, then one on which nobody does,
// then one on which it does too, and of these that with the most room; −1 if none
// has any.
func (l *laning) best(A, d int) int {
	B := int(l.leafOf[d])
	best, rank := -1, [4]int{}
	for i := range l.lanes { // beginning anywhere
		k := (i + A + B) % l.lanes
		if !l.alive(A, B, k) || l.out[A*l.lanes+k]+l.mult[A] > l.slots {
			continue
		}
		j := l.down(d, k)
		if l.in[B*l.lanes+j]+l.mult[A] > l.slots {
			continue
		}
		class := 3
		switch users := l.users[B*l.lanes+j]; {
		case users > 1 && l.uses[d*l.lanes+j] > 0:
			class = 2
		case users == 0:
			class = 1
		case users == 1 && l.uses[d*l.lanes+j] > 0:
			class = 0
		}
		r := [4]int{class, 0, l.in[B*l.lanes+j], l.out[A*l.lanes+k]}
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

// downs is the lane by which what comes up by a lane goes down to a server, [server·lanes +
// lane]; nil without spines.
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
	}
	return downs
}

// lands is the lane by which what leaf A sends to server d goes down, negative for none.
func (l *laning) lands(A, d int) int {
	if k := l.via[A*len(l.leafOf)+d]; k != Local {
		return l.down(d, int(k))
	}
	return -1
}

// force gives what leaf A sends to server d a lane with room at A, and moves what
// that displaces along a chain of two lanes.
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

// chain puts what leaf A sends to server d on lane a, and as long as a link is
// overloaded by that, something else of the link on the other lane. It undoes all
// where that leads nowhere.
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

// displace moves something that may be moved from one lane to another at an end of
// a leaf, and returns the leaf at its other end, −1 where there is nothing.
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

// owners gives each server a lane of its leaf, each another one, so that every lane
// is owned by as many servers as any other, or one more, as far as dead cables allow.
// The lanes owned once more are the first ones. A leaf that would otherwise send too
// much over these owns one of each; then no link of an undamaged tree has more than
// P−1 transfers.
func (x *oneLID) owners() []Lane {
	servers := len(x.leafOf)
	own, owned := make([]Lane, servers), make([]int, x.lanes)
	each, more := servers/max(1, x.lanes), servers%max(1, x.lanes)
	for _, tight := range []bool{true, false} {
		for A, size := range x.size {
			if (size*(each+1) >= servers) == tight {
				x.own(A, own[x.base[A]:][:size], owned, each, more, tight)
			}
		}
	}
	return own
}

// own gives the servers of leaf A lanes of their own: of those that are owned least,
// compared with what each should be, the next in turn.
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

// owned is the lanes that follow from those that servers own.
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
