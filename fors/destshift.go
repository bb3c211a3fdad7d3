package fors

// manner is how much the linear shift counts in choosing replacements of dead lanes: more
// than the ease of finding phases, only among lanes that are equal in that, or not at all.
// The last finds most plans.
type manner int

const (
	shiftFirst manner = iota
	shiftSecond
	shiftLast
)

// shiftLoads counts the transfers of the linear shift on links while lanes are chosen: in
// phase p the server at place s = leaf·slots + α sends to the server p places on, as
// programs do without a plan.
type shiftLoads struct {
	places int
	place  []int32    // [server]
	load   [2][]uint8 // out of a leaf, into a leaf: [(leaf·lanes + lane)·places + phase]
	most   []uint8    // [phase] the largest load
}

// shiftLinks limits the links times phases counted in one tree.
const shiftLinks = 1 << 24

// countShift begins to count, from the lanes that are taken.
func (l *laning) countShift() {
	if l.manner == shiftLast {
		return
	}
	slots := 0
	for _, these := range l.tree.Slots {
		for _, α := range these {
			slots = max(slots, α+1)
		}
	}
	s := &shiftLoads{places: slots * len(l.tree.Slots)}
	if s.places*l.leaves*l.lanes > shiftLinks {
		return
	}
	for leaf, these := range l.tree.Slots {
		for _, α := range these {
			s.place = append(s.place, int32(leaf*slots+α))
		}
	}
	for end := range s.load {
		s.load[end] = make([]uint8, l.leaves*l.lanes*s.places)
	}
	s.most = make([]uint8, s.places)
	l.shift = s
	for i, k := range l.via {
		if k >= 0 {
			l.shiftBy(i/len(l.leafOf), i%len(l.leafOf), int(k), 1)
		}
	}
}

// shiftRows returns the loads of both links of a unit, by phase.
func (l *laning) shiftRows(A, d, k int) (out, in []uint8) {
	s := l.shift
	return s.load[outward][(A*l.lanes+k)*s.places:][:s.places], s.load[inward][(int(l.leafOf[d])*l.lanes+l.down(d, k))*s.places:][:s.places]
}

// shiftBy adds or removes the transfers of the shift from leaf A to server d on a lane.
func (l *laning) shiftBy(A, d, k int, by int8) {
	s := l.shift
	out, in := l.shiftRows(A, d, k)
	for _, from := range s.place[l.base[A]:][:l.size[A]] {
		p := s.phase(from, d)
		out[p] += uint8(by)
		in[p] += uint8(by)
		s.most[p] = max(s.most[p], out[p], in[p])
	}
}

// phase returns the phase in which the server at a place sends to server d.
func (s *shiftLoads) phase(from int32, d int) int32 {
	p := s.place[d] - from
	if p < 0 {
		p += int32(s.places)
	}
	return p
}

// shiftCost returns the cost for the linear shift if leaf A sends to server d over a lane:
// longer phases count most, then the load of the links.
func (l *laning) shiftCost(A, d, k int) (cost int) {
	s := l.shift
	out, in := l.shiftRows(A, d, k)
	for _, from := range s.place[l.base[A]:][:l.size[A]] {
		p := s.phase(from, d)
		if full := max(out[p], in[p]); full >= s.most[p] {
			cost += 64
		}
		cost += int(out[p]) + int(in[p])
	}
	return cost
}
