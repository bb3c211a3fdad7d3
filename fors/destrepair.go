package fors

import (
	"context"
	"iter"
	"math"
	"slices"
)

// Repair returns lanes for one LID a server on which no link has more than the given
// transfers: those of the wish except for a few, and all of Wish.Stay that are up. A unit
// without room displaces others. changed counts the wished lanes that are up and were
// changed; ok is false if no such lanes were found.
func Repair(t *Tree, w Wish, transfers int) (repaired Wish, changed int, ok bool) {
	x, err := newOneLID(t, w, 1)
	if err != nil {
		return w, 0, false
	}
	x.manner = shiftLast
	budget := destWork / 4
	r := newRepairing(x.wished(transfers, x.size), &budget)
	if !r.giveLanes(r.excess(), repairSteps(len(r.via))) {
		return w, 0, false
	}
	r.giveBack()
	return Wish{Via: x.byLeaf(r.via), Down: r.downs(), Stay: w.Stay}, r.changed(), true
}

// easings is how many plans PlanKeeping makes on other lanes, and easingWork limits these plans'
// transfers if they are small.
const (
	easings    = 12
	easingWork = 1 << 16
)

// PlanKeeping is PlanOneLID on wished lanes of which few differ from those in force. If it takes
// more than limit phases, one unit is tried elsewhere: first those without a lane in force.
func PlanKeeping(ctx context.Context, t *Tree, w Wish, inForce []Lane, limit int) (*Grouped, error) {
	first, err := PlanOneLID(ctx, t, w)
	if err != nil || first.Phases <= limit {
		return first, err
	}
	left := max(easings, easingWork/(first.Servers*first.Servers))
	for unit, k := range t.eased(w, inForce) {
		next := w
		next.Via = slices.Clone(w.Via)
		next.Via[unit] = k
		if Keeps(t, next, limit) {
			if p, err := PlanOneLID(ctx, t, next); err != nil || p.Phases <= limit {
				return p, err
			}
		}
		if left--; left == 0 {
			break
		}
	}
	return first, nil
}

// eased yields the units of a wish that may move, with other lanes that are up.
func (t *Tree) eased(w Wish, inForce []Lane) iter.Seq2[int, Lane] {
	return func(yield func(int, Lane) bool) {
		leafOf := t.leafOf()
		up := func(unit int, k Lane) bool {
			return k >= 0 && t.Up[unit/len(leafOf)][k] && t.Up[leafOf[unit%len(leafOf)]][k]
		}
		for _, kept := range []bool{false, true} {
			for unit, is := range w.Via {
				if is == Local || up(unit, inForce[unit]) != kept || w.Stay != nil && w.Stay[unit] {
					continue
				}
				for k := range Lane(t.Lanes) {
					if k != is && up(unit, k) && !yield(unit, k) {
						return
					}
				}
			}
		}
	}
}

// overfull returns by how many transfers a link exceeds its room; negative if it has room.
func (l *laning) overfull(end, i int) int {
	if end == outward {
		return l.out[i] - l.slots
	}
	return l.in[i] - l.slots
}

// onLink appends the units of a link that may move.
func (l *laning) onLink(units []int, end, i int) []int {
	servers, leaf, k := len(l.leafOf), i/l.lanes, Lane(i%l.lanes)
	if end == outward {
		for d, via := range l.via[leaf*servers:][:servers] {
			if unit := leaf*servers + d; via == k && !l.stays(unit) {
				units = append(units, unit)
			}
		}
		return units
	}
	for A := range l.leaves {
		first := A*servers + int(l.base[leaf])
		for j, via := range l.via[first:][:l.size[leaf]] {
			if (via == k || l.fall != nil && l.lands(A, int(l.base[leaf])+j) == int(k)) && !l.stays(first+j) {
				units = append(units, first+j)
			}
		}
	}
	return units
}

// stays reports whether a unit must keep its lane.
func (l *laning) stays(unit int) bool { return l.stay != nil && l.stay[unit] }

// repairing is a search for lanes on which few units leave those of the wish.
type repairing struct {
	*laning
	failed []int // [unit] how often it found no room
	budget *int  // lanes that may still be looked at

	units []int // scratch space
}

// newRepairing starts from a choice that may put too much on links and lack lanes. It is the
// wish if there is no other.
func newRepairing(l *laning, budget *int) *repairing {
	r := &repairing{laning: l, failed: make([]int, len(l.via)), budget: budget}
	if r.wish == nil {
		own := *l.oneLID
		own.wish = slices.Clone(l.via)
		l.oneLID = &own
	}
	return r
}

// reluctance is the cost of displacing a unit from its wished lane, and of displacing one for
// which no other lane has room. Each time that a unit found no room costs 1.
const reluctance = 8

// Limits of one search, in units that are given lanes.
const (
	leastRepairs  = 1 << 9
	mostRepairs   = 1 << 12
	giveBackSteps = 1 << 6
)

// repairSteps is how many units one search may give lanes: where it succeeds, few are given one
// twice.
func repairSteps(units int) int { return min(mostRepairs, leastRepairs+2*units) }

// excess lists the units without a lane, and takes others off links that are too full.
func (r *repairing) excess() (late []int) {
	for i, k := range r.via {
		if A, B := i/len(r.leafOf), int(r.leafOf[i%len(r.leafOf)]); k == Local && A != B && r.joined(A, B) {
			late = append(late, i)
		}
	}
	for at := range 2 * len(r.out) {
		out, _, _ := r.cheapest(at/len(r.out), at%len(r.out), 0)
		late = append(late, r.remove(out)...)
	}
	return late
}

// giveLanes gives lanes to units that have none, and to those that these displace.
func (r *repairing) giveLanes(late []int, steps int) bool {
	for ; len(late) > 0 && steps > 0 && *r.budget > 0; steps-- {
		unit := late[0]
		A, d, w := unit/len(r.leafOf), unit%len(r.leafOf), r.wish[unit]
		k := w
		if k == Local || !r.fits(A, d, int(k)) {
			k = Lane(r.best(A, d))
		}
		if late = late[1:]; k >= 0 {
			r.seat(unit, k)
			continue
		}
		least := math.MaxInt
		for i := range r.lanes {
			at := Lane((i + A + d + r.failed[unit]) % r.lanes) // random start
			if cost, ok := r.price(unit, at, least); ok {
				k, least = at, cost
			}
		}
		if k < 0 {
			return false
		}
		late = append(late, r.displace(unit, k)...)
	}
	return len(late) == 0 && r.fullest() <= r.slots
}

// displace gives a unit a lane, and returns those that it displaces.
func (r *repairing) displace(unit int, k Lane) []int {
	A, d := unit/len(r.leafOf), unit%len(r.leafOf)
	r.failed[unit]++
	out, _, _ := r.cheapest(outward, A*r.lanes+int(k), r.mult[A])
	r.remove(out)
	in, _, _ := r.cheapest(inward, int(r.leafOf[d])*r.lanes+r.down(d, int(k)), r.mult[A])
	r.remove(in)
	r.seat(unit, k)
	return append(out, in...)
}

// price is what the units cost that a unit displaces on a lane; ok is false if it may not
// take the lane, or if that does not cost less than the least.
func (r *repairing) price(unit int, k Lane, least int) (cost int, ok bool) {
	A, d := unit/len(r.leafOf), unit%len(r.leafOf)
	B := int(r.leafOf[d])
	if !r.alive(A, B, int(k)) {
		return 0, false
	}
	if r.wish[unit] != Local && r.wish[unit] != k {
		cost = reluctance
	}
	fall := r.down(d, int(k))
	cost += r.shares(d, fall)
	_, out, ok := r.cheapest(outward, A*r.lanes+int(k), r.mult[A])
	if cost += out; !ok || cost >= least {
		return 0, false
	}
	_, in, ok := r.cheapest(inward, B*r.lanes+fall, r.mult[A])
	return cost + in, ok && cost+in < least
}

// cheapest lists units whose removal makes room on a link for so many more transfers, at
// little cost.
func (r *repairing) cheapest(end, link, more int) (out []int, cost int, ok bool) {
	need := r.overfull(end, link) + more
	if need <= 0 {
		return nil, 0, true
	}
	r.units = r.onLink(r.units[:0], end, link)
	units := r.units
	*r.budget -= len(units) * r.lanes
	for need > 0 && len(units) > 0 {
		best, least, than := 0, 0, 0 // cost of the best and the transfers that it takes off
		for i, unit := range units {
			n := min(r.mult[unit/len(r.leafOf)], need)
			below := math.MaxInt
			if i > 0 {
				below = (least*n + than - 1) / than
			}
			if c := r.cost(unit, below); c < below {
				best, least, than = i, c, n
			}
		}
		out, cost, need = append(out, units[best]), cost+least, need-r.mult[units[best]/len(r.leafOf)]
		units = slices.Delete(units, best, best+1)
	}
	return out, cost, need <= 0
}

// cost is what it takes to displace a unit. If it is not below a limit, any such value is returned.
func (r *repairing) cost(unit, below int) int {
	A, d, cost := unit/len(r.leafOf), unit%len(r.leafOf), 1+r.failed[unit]
	if r.via[unit] == r.wish[unit] {
		cost += reluctance
	}
	if cost >= below {
		return cost
	}
	for k := range r.lanes {
		if Lane(k) != r.via[unit] && r.alive(A, int(r.leafOf[d]), k) && r.fits(A, d, k) {
			return cost
		}
	}
	return cost + reluctance
}

// fits reports whether a lane has room for a unit.
func (r *repairing) fits(A, d, k int) bool {
	return r.overfull(outward, A*r.lanes+k)+r.mult[A] <= 0 && r.overfull(inward, int(r.leafOf[d])*r.lanes+r.down(d, k))+r.mult[A] <= 0
}

// giveBack puts units on their wished lanes, and displaces others for that, while fewer
// units are off these lanes then, or as many.
func (r *repairing) giveBack() {
	for was, last := r.changed(), math.MaxInt; was < last; {
		last = was
		for unit, w := range r.wish {
			if w == Local || w == r.via[unit] {
				continue
			}
			before := r.copied()
			r.seat(unit, Local)
			if _, ok := r.price(unit, w, math.MaxInt); ok && r.giveLanes(r.displace(unit, w), giveBackSteps) {
				if now := r.changed(); now <= was {
					was = now
					continue
				}
			}
			r.laning = before
		}
	}
}

// changed counts the units that are off their wished lanes.
func (r *repairing) changed() (n int) {
	for i, k := range r.wish {
		if k != Local && k != r.via[i] {
			n++
		}
	}
	return n
}

// remove takes units off their lanes.
func (r *repairing) remove(units []int) []int {
	for _, unit := range units {
		r.seat(unit, Local)
	}
	return units
}

// seat gives a unit a lane.
func (r *repairing) seat(unit int, k Lane) { r.put(unit/len(r.leafOf), unit%len(r.leafOf), k) }

// copied returns a choice that does not change with this one.
func (l *laning) copied() *laning {
	c := *l
	c.via, c.out, c.in, c.uses, c.users, c.fall = slices.Clone(l.via), slices.Clone(l.out), slices.Clone(l.in), slices.Clone(l.uses), slices.Clone(l.users), slices.Clone(l.fall)
	return &c
}
