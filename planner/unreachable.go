package planner

import "forsd/topology"

// Unreachable lists the ordered pairs of servers that no plan can serve: their
// leaves share no lane that is up at both and that the destination has a LID
// for. The pairs are by index of FatTree.Servers, ascending.
func Unreachable(t *topology.FatTree) [][2]int32 {
	var out [][2]int32
	for s, i := range t.Servers {
		for d, j := range t.Servers {
			if src, dst := &t.Hosts[i], &t.Hosts[j]; src.Leaf != dst.Leaf && !shareLane(t, src, dst) {
				out = append(out, [2]int32{int32(s), int32(d)})
			}
		}
	}
	return out
}

func shareLane(t *topology.FatTree, src, dst *topology.Host) bool {
	for k := range t.Lanes {
		if t.LaneUp(src.Leaf, k) && t.LaneUp(dst.Leaf, k) {
			if _, open := t.DLID(dst, k); open {
				return true
			}
		}
	}
	return false
}
