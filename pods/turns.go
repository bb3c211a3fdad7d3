package pods

import "slices"

// Lives reports if a way between two leaves is alive.
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

// Turns calls for each leaf and each server with a block. Sent in these blocks, by the ways of
// the shift, nothing meets while nothing is dead, and every block has as much within pods as
// any other: plane α of leaf i of a pod goes to the pod i·places + α on from where the block
// leads. Base is that of a plan. It needs Shifts.
func (t *Tree) Turns(base []int32, unit func(block, leaf int, to int32)) {
	places, leaves, inPod := places(t)
	at := slices.Repeat([]int{-1}, t.Pods*leaves) // [place] leaf
	for a := range t.Leaves {
		at[t.Leaves[a].Pod*leaves+inPod[a]] = a
	}
	for block := range t.Pods * leaves {
		for a := range t.Leaves {
			for α := range places {
				pod := (t.Leaves[a].Pod + block/leaves + inPod[a]*places + α) % t.Pods
				b := at[pod*leaves+(inPod[a]+block)%leaves]
				if b < 0 {
					continue
				}
				if i, has := slices.BinarySearch(t.Leaves[b].Slots, α); has {
					unit(block, a, base[b]+int32(i))
				}
			}
		}
	}
}
