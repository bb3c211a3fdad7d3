package lft

import "github.com/forsd/forsd/topology"

// Balance says how the base LIDs of hosts on leaves are spread over the cables of
// leaves.
type Balance struct {
	// Busiest is the most that a cable of a leaf has: upward, of base LIDs that the
	// leaf sends over it; downward, of base LIDs that arrive over it, each once for every
	// leaf that sends to it.
	Busiest int
	// Fair is the share of the same leaf's cables on average.
	Fair float64
	Leaf int // whose cable it is
	Lane int
	Up   bool
}

// Ratio is the busiest cable's part in fair shares.
func (b Balance) Ratio() float64 {
	if b.Fair == 0 {
		return 1
	}
	return float64(b.Busiest) / b.Fair
}

// BaseLIDs finds the cable that is busiest with base LIDs, compared with what the
// leaf's cables have on average. Cables that are not at full width and speed do not
// count.
func (t *Tables) BaseLIDs(tree *topology.FatTree) Balance {
	count := [2][]int{make([]int, len(tree.Leaves)*tree.Lanes), make([]int, len(tree.Leaves)*tree.Lanes)} // up, down
	laneAt := t.lanesByPort(tree)
	for l := range tree.Leaves {
		at := t.Find(tree.Leaves[l].GUID)
		if at < 0 {
			continue
		}
		for i := range tree.Hosts {
			h := &tree.Hosts[i]
			if h.Leaf < 0 || h.Leaf == l || h.LID == 0 {
				continue
			}
			k := laneAt[l][t.Port(at, h.LID)]
			if k < 0 {
				continue
			}
			count[0][l*tree.Lanes+k]++
			spine := t.Find(tree.Spines[tree.LaneOf[k]].GUID)
			for down, c := range tree.Leaves[h.Leaf].Cables {
				if spine >= 0 && tree.LaneOf[down] == tree.LaneOf[k] && c.State == topology.Full && c.SpinePort == t.Port(spine, h.LID) {
					count[1][h.Leaf*tree.Lanes+down]++
				}
			}
		}
	}
	worst := Balance{}
	for l := range tree.Leaves {
		for way := range count {
			row := count[way][l*tree.Lanes:][:tree.Lanes]
			sum, living := 0, 0
			for k, n := range row {
				if sum += n; tree.LaneUp(l, k) {
					living++
				}
			}
			for k, n := range row {
				b := Balance{Busiest: n, Fair: float64(sum) / float64(max(1, living)), Leaf: l, Lane: k, Up: way == 0}
				if n > 0 && b.Ratio() > worst.Ratio() || worst.Busiest == 0 {
					worst = b
				}
			}
		}
	}
	return worst
}

// lanesByPort is the lane at each port of each leaf, −1 where there is none at full
// width and speed.
func (t *Tables) lanesByPort(tree *topology.FatTree) [][256]int {
	at := make([][256]int, len(tree.Leaves))
	for l := range at {
		for p := range at[l] {
			at[l][p] = -1
		}
		for k, c := range tree.Leaves[l].Cables {
			if c.State == topology.Full {
				at[l][c.LeafPort] = k
			}
		}
	}
	return at
}
