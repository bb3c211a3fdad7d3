package topology

// uneven is from how many fair shares of base LIDs on a lane on leaves are turned.
const uneven = 1.3

// turn chooses the lane at which the base LIDs of each leaf begin. If leaves have about as
// many hosts as there are lanes, all begin at lane 0. If that would crowd base LIDs on the
// first lanes, each leaf begins where the previous one ends, so that the numbers of hosts
// of any two lanes differ by at most one.
//
// A linear shift sends from a leaf to consecutive hosts, which then have different lanes,
// even if the row continues on the next leaf. For the row from the last leaf to the first,
// lanes are skipped after leaves that leave room for it, none of them twice.
func (b *Baseline) turn() {
	lanes, hosts := b.Lanes(), 0
	if lanes == 0 || !b.crowded(lanes) {
		return
	}
	for i := range b.Leaves {
		hosts += len(b.Leaves[i].Slots)
	}
	if b.line(lanes, (lanes-hosts%lanes)%lanes) > 0 {
		b.line(lanes, 0)
	}
}

// line lines the leaves up, passes over so many lanes, and returns how many are left.
func (b *Baseline) line(lanes, over int) (left int) {
	at, passed := 0, make([]bool, lanes)
	for i := range b.Leaves {
		leaf := &b.Leaves[i]
		leaf.First = at % lanes
		at += len(leaf.Slots)
		for room := lanes - len(leaf.Slots); room > 0 && over > 0 && !passed[at%lanes]; room-- {
			passed[at%lanes] = true
			at, over = at+1, over-1
		}
	}
	return over
}

// turnNew does so for new leaves among those that are turned.
func (b *Baseline) turnNew(vacant []bool) {
	turned := false
	for i := range b.Leaves {
		turned = turned || b.Leaves[i].First > 0
		if before := i - 1; turned && vacant[i] {
			b.Leaves[i].First = (b.Leaves[before].First + len(b.Leaves[before].Slots)) % b.Lanes()
		}
	}
}

// crowded reports whether a leaf would send to many more hosts over one lane than over the
// others on average, if all leaves began at lane 0.
func (b *Baseline) crowded(lanes int) bool {
	owned, hosts := make([]int, lanes), 0
	for i := range b.Leaves {
		for a := range b.Leaves[i].Slots {
			owned[a%lanes]++
			hosts++
		}
	}
	for i := range b.Leaves {
		own := len(b.Leaves[i].Slots)
		for k, n := range owned {
			if mine := (own - k + lanes - 1) / lanes; float64((n-mine)*lanes) > uneven*float64(hosts-own) && n-mine > (hosts-own+lanes-1)/lanes {
				return true
			}
		}
	}
	return false
}
