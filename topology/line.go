package topology

import "slices"

// costs is the part of its servers that a circle may have more places than there are servers, so
// that the linear shift is free of conflicts.
const costs = 16

// line lines up the servers of a tree on which leaves, or pods, have different numbers of them:
// each has the place after the one before, on a circle of Places, and its base LID the plane and
// the turn at a lane that follow from the place; see PodTree.Turn. Otherwise every leaf has as
// many places as the largest, and every pod as many leaves, of which many are empty, though the
// linear shift takes a phase for each.
//
// In a phase of the shift a leaf sends to consecutive places, which have different planes if
// it has no more servers than there are planes, and the circle has a multiple of them. A pod
// sends to consecutive ones over a plane, which have different turns if these are no more than
// the shortest round of turns has. So the shift is free of conflicts; the same holds for what
// leaves and pods receive. If that takes a circle that is much too long, a shorter one has full
// rounds but for the last: conflicts are few, and plans avoid these.
func (t *podFitter) line() {
	b, planes := t.Baseline, t.Planes
	leaves, pods, wide := make([]int, len(b.Leaves)), make([]int, b.Pods), make([]int, b.Pods)
	for _, i := range t.Servers {
		leaves[t.Hosts[i].Leaf]++
		pods[t.Leaves[t.Hosts[i].Leaf].Pod]++
	}
	for l := range b.Leaves {
		wide[b.Leaves[l].Pod]++
	}
	servers, most, largest := len(t.Servers), slices.Max(leaves), slices.Max(pods)
	if servers == 0 || servers == b.Pods*slices.Max(wide)*most || most > planes || largest > planes*t.Turns {
		return
	}
	columns, need := (servers+planes-1)/planes, (largest+planes-1)/planes
	even := columns
	for even/rounds(even, t.Turns) < need { // t.Turns columns at most
		even++
	}
	if even*planes <= servers+servers/costs {
		columns, b.Rounds = even, rounds(even, t.Turns)
	}
	b.Places = columns * planes
	for n, i := range t.Servers {
		b.Leaves[t.Hosts[i].Leaf].Slots[t.Hosts[i].Alpha].Place = n + 1
	}
}

// place gives places at the end to slots that have none where servers are lined up, and tells the
// hosts their places.
func (t *podFitter) place() {
	if t.Baseline.Places == 0 {
		return
	}
	next := t.Baseline.Places
	for l := range t.Baseline.Leaves {
		for _, s := range t.Baseline.Leaves[l].Slots {
			next = max(next, s.Place)
		}
	}
	for l := range t.Baseline.Leaves {
		slots := t.Baseline.Leaves[l].Slots
		for a := range slots {
			if slots[a].Place == 0 {
				next++
				slots[a].Place = next
			}
		}
	}
	for i := range t.Hosts {
		if h := &t.Hosts[i]; h.Leaf >= 0 {
			h.First = t.Baseline.Leaves[h.Leaf].Slots[h.Alpha].Place - 1 - h.Alpha
		}
	}
}

// rounds is how many rounds of turns the columns of a circle make.
func rounds(columns, turns int) int { return (columns + turns - 1) / turns }

// Turn returns the plane of a host's base LID while nothing has failed, and the number of its
// lane among those of the plane, before it is reduced to these. Where leaves are lined up, the
// places of a column have a plane each, and the columns of a round a turn each.
func (t *PodTree) Turn(h *Host) (plane, turn int) {
	planes := max(1, t.Planes)
	if t.Baseline.Places == 0 {
		return h.Alpha % planes, t.InPod[h.Leaf] + h.Alpha/planes
	}
	plane, column, columns, n := (h.First+h.Alpha)%planes, (h.First+h.Alpha)/planes, t.Baseline.Places/planes, t.Baseline.Rounds
	if n == 0 {
		return plane, column % max(1, t.Turns)
	}
	round := ((column+1)*n - 1) / columns
	return plane, column - round*columns/n
}

// Round returns how many turns the shortest round has where leaves are lined up without conflicts.
func (t *PodTree) Round() int {
	if t.Baseline.Rounds == 0 {
		return 0
	}
	return t.Baseline.Places / t.Planes / t.Baseline.Rounds
}
