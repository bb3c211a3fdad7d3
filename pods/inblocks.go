package pods

import "slices"

// Lives tells whether a way between two leaves is alive.
func (t *Tree) Lives(a, b int, way int16) bool {
	A, B, lanes := &t.Leaves[a], &t.Leaves[b], t.Lanes()
	j := int(way) - lanes
	if j < 0 {
		if !t.laneUp(A.Pod, int(way)) || !t.laneUp(B.Pod, int(way)) {
			return false
		}
		for j = 0; t.First[j+1] <= int(way); {
			j++
		}
	}
	return A.Up[j] && B.Up[j]
}

// WholeShift is the linear shift of the servers as if nothing of the tree were dead, without
// bounds; nil where that is not free of conflicts.
func WholeShift(t *Tree) *Plan {
	whole := &Tree{Pods: t.Pods, First: t.First, Leaves: slices.Clone(t.Leaves), Up: slices.Repeat([]bool{true}, len(t.Up))}
	for a := range whole.Leaves {
		whole.Leaves[a].Up = slices.Repeat([]bool{true}, len(whole.Leaves[a].Up))
	}
	return shift(whole, Bounds{})
}

// InBlocks is a copy of the plan with a destination and a way in each slot, also where the
// plan is a rule: in block b of the shift a leaf sends to the one b places on, and each of
// its slots to one server there. That takes a phase more than the rule.
func (p *Plan) InBlocks(t *Tree) *Plan {
	q := *p
	if p.Engine != Shift {
		q.To, q.Way = slices.Clone(p.To), slices.Clone(p.Way)
		return &q
	}
	places, leaves, inPod := t.places()
	q.Engine, q.Group, q.Blocks = Pods, places, t.Pods*leaves
	q.First = make([]int32, len(t.Leaves)+1)
	position := make([]int, len(t.Leaves)) // [leaf]
	at := make([]int, q.Blocks)            // [position] leaf, −1 for none
	for i := range at {
		at[i] = -1
	}
	for a := range t.Leaves {
		position[a] = t.Leaves[a].Pod*leaves + inPod[a]
		at[position[a]] = a
		q.First[a+1] = q.First[a] + int32(places)
	}
	slots := int(q.First[len(t.Leaves)])
	q.To, q.Way = make([]int32, slots*q.Blocks), make([]int16, slots*q.Blocks)
	for i := range q.To {
		q.To[i], q.Way[i] = Idle, -1
	}
	for block := range q.Blocks {
		for a := range t.Leaves {
			to := (position[a] + block) % q.Blocks
			b := at[to]
			if b < 0 {
				continue
			}
			for i, α := range t.Leaves[b].Slots {
				slot := block*slots + int(q.First[a]) + α
				q.To[slot] = p.Base[b] + int32(i)
				switch {
				case a == b:
				case t.Leaves[a].Pod == t.Leaves[b].Pod:
					q.Way[slot] = int16(t.Lanes() + α)
				default:
					q.Way[slot] = int16(t.First[α] + to%leaves)
				}
			}
		}
	}
	return &q
}
