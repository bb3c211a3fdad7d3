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

// Steps calls for each server and each other one with the phase of the linear shift in which it
// sends there, phase by phase.
func Steps(t *Tree, unit func(phase, server int, to int32)) {
	at, on := circle(t)
	for phase := range len(on) - 1 {
		for s, i := range at {
			if d := on[(int(i)+phase+1)%len(on)]; d != Idle {
				unit(phase, s, d)
			}
		}
	}
}

// Ragged reports if leaves or pods differ in servers, or the circle of the linear shift has free places.
func Ragged(t *Tree) bool {
	at, on := circle(t)
	return t.Places > 0 || len(at) < len(on)
}
