package pods

// places returns how many places for servers a leaf has, and for leaves a pod, so that all
// have as many, and which of its pod's leaves each leaf is.
func (t *Tree) places() (ofLeaf, ofPod int, inPod []int) {
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

// Shifts reports if the linear shift is free of conflicts while nothing is dead: not if leaves
// have more places than planes, or pods more leaves than a plane has lanes. Server α of leaf l
// of its pod is reached over plane α and, from another pod, the plane's lane l.
func (t *Tree) Shifts() bool {
	places, leaves, _ := t.places()
	for j := range t.Planes() {
		if t.First[j+1]-t.First[j] < leaves {
			return false
		}
	}
	return places <= t.Planes()
}

// shift returns the linear shift over places, nil if it is not free of conflicts.
func shift(t *Tree, b Bounds) *Plan {
	if t.Damaged() || !t.Shifts() {
		return nil
	}
	places, leaves, inPod := t.places()
	p := &Plan{Engine: Shift, Group: 1, Places: t.Pods * leaves * places, Bounds: b}
	p.ShiftTo = make([]int32, p.Places)
	for i := range p.ShiftTo {
		p.ShiftTo[i] = Idle
	}
	s := int32(0)
	for i := range t.Leaves {
		l := &t.Leaves[i]
		at := (l.Pod*leaves + inPod[i]) * places
		p.Base, p.First = append(p.Base, s), append(p.First, s)
		for _, α := range l.Slots {
			p.Place = append(p.Place, int32(at+α))
			p.ShiftTo[at+α] = s
			s++
		}
	}
	p.Base, p.First = append(p.Base, s), append(p.First, s)
	p.Blocks = p.Phases()
	return p
}
