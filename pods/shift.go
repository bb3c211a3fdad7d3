package pods

import "slices"

// circle returns how many places the linear shift goes round, and that of each server. If servers are
// not lined up, all leaves have as many places as the largest, and all pods as many leaves.
func circle(t *Tree) (length int, at []int) {
	ofLeaf, ofPod, inPod := places(t)
	if length = t.Places; length == 0 {
		length = t.Pods * ofPod * ofLeaf
	}
	for i := range t.Leaves {
		l := &t.Leaves[i]
		if t.Places > 0 {
			at = append(at, l.Place...)
			length = max(length, slices.Max(l.Place)+1)
			continue
		}
		for _, α := range l.Slots {
			at = append(at, (l.Pod*ofPod+inPod[i])*ofLeaf+α)
		}
	}
	return length, at
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
	_, at := circle(t)
	begin, end := slices.Repeat([]int{t.Places}, t.Pods), make([]int, t.Pods)
	for i := range t.Leaves {
		l := &t.Leaves[i]
		first, last := slices.Min(l.Place), slices.Max(l.Place)+1
		begin[l.Pod], end[l.Pod] = min(begin[l.Pod], first), max(end[l.Pod], last)
		if last-first > t.Planes() || end[l.Pod]-begin[l.Pod] > t.Round*t.Planes() {
			return false
		}
	}
	return slices.Max(at) < t.Places
}

// LinearShift returns the linear shift over places, nil if it is not free of conflicts.
func LinearShift(t *Tree, b Bounds) *Plan {
	if t.Damaged() || !t.Shifts() {
		return nil
	}
	p := &Plan{Engine: Shift, Group: 1, Bounds: b}
	length, at := circle(t)
	p.Places, p.ShiftTo = length, slices.Repeat([]int32{Idle}, length)
	for s, i := range at {
		p.Place = append(p.Place, int32(i))
		p.ShiftTo[i] = int32(s)
	}
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
	length, at := circle(t)
	on := slices.Repeat([]int32{Idle}, length)
	for s, i := range at {
		on[i] = int32(s)
	}
	for phase := range length - 1 {
		for s, i := range at {
			if d := on[(i+phase+1)%length]; d != Idle {
				unit(phase, s, d)
			}
		}
	}
}

// Ragged reports if leaves or pods differ in servers, or the circle of the linear shift has free places.
func Ragged(t *Tree) bool {
	length, at := circle(t)
	return t.Places > 0 || len(at) < length
}
