package pods

// shift is the linear shift over places, nil where it is not free of conflicts: where
// something is dead, leaves have more places than planes, or pods more leaves than a plane
// has lanes. Server α of leaf l of its pod is reached over plane α and, from another pod,
// the plane's lane l.
func shift(t *Tree, b Bounds) *Plan {
	places, leaves := 0, 0
	inPod := make([]int, t.Pods)
	for i := range t.Leaves {
		l := &t.Leaves[i]
		places = max(places, l.Slots[len(l.Slots)-1]+1)
		inPod[l.Pod]++
		leaves = max(leaves, inPod[l.Pod])
		for _, up := range l.Up {
			if !up {
				return nil
			}
		}
	}
	if places > t.Planes() {
		return nil
	}
	for j := range t.Planes() {
		if t.First[j+1]-t.First[j] < leaves {
			return nil
		}
	}
	for _, up := range t.Up {
		if !up {
			return nil
		}
	}
	p := &Plan{Engine: Shift, Group: 1, Places: t.Pods * leaves * places, Bounds: b}
	p.ShiftTo = make([]int32, p.Places)
	for i := range p.ShiftTo {
		p.ShiftTo[i] = Idle
	}
	clear(inPod)
	s := int32(0)
	for i := range t.Leaves {
		l := &t.Leaves[i]
		at := (l.Pod*leaves + inPod[l.Pod]) * places
		inPod[l.Pod]++
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
