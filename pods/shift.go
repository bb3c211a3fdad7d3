package pods

import "slices"

// circle returns the place of each server on the circle of the linear shift, and the server on each
// place, or Idle. If servers are not lined up, all leaves have as many places as the largest, and all
// pods as many leaves.
func circle(t *Tree) (at, on []int32) {
	ofLeaf, ofPod, inPod := places(t)
	length := t.Places
	if length == 0 {
		length = t.Pods * ofPod * ofLeaf
	}
	for i := range t.Leaves {
		l := &t.Leaves[i]
		if t.Places > 0 {
			for _, place := range l.Place {
				at, length = append(at, int32(place)), max(length, place+1)
			}
			continue
		}
		for _, α := range l.Slots {
			at = append(at, int32((l.Pod*ofPod+inPod[i])*ofLeaf+α))
		}
	}
	on = slices.Repeat([]int32{Idle}, length)
	for s, i := range at {
		on[i] = int32(s)
	}
	return at, on
}

// places returns how many places for servers a leaf has, and for leaves a pod, so that all
// have as many, and which of its pod's leaves each leaf is.
func places(t *Tree) (ofLeaf, ofPod int, inPod []int) {
	count := make([]int, t.Pods)
	for i := range t.Leaves {
		l := &t.Leaves[i]
		ofLeaf = max(ofLeaf, l.Slots[len(l.Slots)-1]+1)
		inPod = append(inPod, count[l.Pod])
		count[l.Pod]++
		ofPod = max(ofPod, count[l.Pod])
	}
	return ofLeaf, ofPod, inPod
}

// Shifts reports if the linear shift is free of conflicts while nothing is dead. Server α of leaf l
// of its pod is reached over plane α and, from another pod, the plane's lane l: there must not be
// more places on a leaf than planes, or leaves in a pod than lanes of a plane. Leaves that are
// lined up have ways for it; see topology.PodTree.Turn.
func (t *Tree) Shifts() bool {
	if t.Places > 0 {
		return linedUp(t)
	}
	ofLeaf, ofPod, _ := places(t)
	for j := range t.Planes() {
		if t.First[j+1]-t.First[j] < ofPod {
			return false
		}
	}
	return ofLeaf <= t.Planes()
}

// linedUp reports if the servers of each pod are lined up on no more places than rounds of turns
// allow, and those of a leaf on no more than there are planes.
func linedUp(t *Tree) bool {
	at, _ := circle(t)
	begin, end := slices.Repeat([]int{t.Places}, t.Pods), make([]int, t.Pods)
	for i := range t.Leaves {
		l := &t.Leaves[i]
		first, last := slices.Min(l.Place), slices.Max(l.Place)+1
		begin[l.Pod], end[l.Pod] = min(begin[l.Pod], first), max(end[l.Pod], last)
		if last-first > t.Planes() || end[l.Pod]-begin[l.Pod] > t.Round*t.Planes() {
			return false
		}
	}
	return int(slices.Max(at)) < t.Places
}

// LinearShift returns the linear shift over places, nil if it is not free of conflicts.
func LinearShift(t *Tree, b Bounds) *Plan {
	if t.Damaged() || !t.Shifts() {
		return nil
	}
	p := &Plan{Engine: Shift, Group: 1, Bounds: b}
	p.Place, p.ShiftTo = circle(t)
	p.Places = len(p.ShiftTo)
	p.Base = []int32{0}
	for i := range t.Leaves {
		p.Base = append(p.Base, p.Base[i]+int32(len(t.Leaves[i].Slots)))
	}
	p.First, p.Blocks = p.Base, p.Phases()
	return p
}

// Steps calls for each server and each other one of its exchange with the phase of the linear shift
// in which it sends there, phase by phase. Each exchange has a circle of its own.
func Steps(t *Tree, unit func(phase, server int, to int32)) {
	rounds, longest := rings(t), 0
	for _, r := range rounds {
		longest = max(longest, len(r.on))
	}
	for phase := range longest - 1 {
		for _, r := range rounds {
			for i, s := range r.servers {
				if d := r.on[(int(r.at[i])+phase+1)%len(r.on)]; phase < len(r.on)-1 && d != Idle {
					unit(phase, int(s), d)
				}
			}
		}
	}
}

// ring is the circle of an exchange.
type ring struct {
	servers []int32
	at      []int32 // [index in servers] place
	on      []int32 // [place] server, or Idle
}

// rings returns the circles of all exchanges. If there are several, the leaves of each are lined up
// with as many places as its servers have different indices, in order.
func rings(t *Tree) []ring {
	crowds := t.crowds()
	out := make([]ring, len(crowds))
	if len(out) == 1 {
		r := &out[0]
		r.at, r.on = circle(t)
		for s := range r.at {
			r.servers = append(r.servers, int32(s))
		}
		return out
	}
	slots := make([][]int, len(out)) // [exchange] different indices
	each := func(server func(a, x, α int)) {
		for a := range t.Leaves {
			for i, α := range t.Leaves[a].Slots {
				server(a, t.exchangeOf(a, i), α)
			}
		}
	}
	each(func(_, x, α int) { slots[x] = append(slots[x], α) })
	for x := range slots {
		slices.Sort(slots[x])
		slots[x] = slices.Compact(slots[x])
	}
	last, s := slices.Repeat([]int{-1}, len(out)), int32(0) // [exchange] leaf
	each(func(a, x, α int) {
		r, n := &out[x], len(slots[x])
		if last[x] != a {
			last[x], r.on = a, append(r.on, slices.Repeat([]int32{Idle}, n)...)
		}
		i, _ := slices.BinarySearch(slots[x], α)
		place := len(r.on) - n + i
		r.servers, r.at, r.on[place] = append(r.servers, s), append(r.at, int32(place)), s
		s++
	})
	return out
}

// Ragged reports if leaves or pods differ in servers, or the circle of the linear shift has free places.
func Ragged(t *Tree) bool {
	at, on := circle(t)
	return t.Places > 0 || len(at) < len(on)
}
