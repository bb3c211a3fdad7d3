package ilp

import "github.com/forsd/forsd/fors"

// hall looks for an end of the phase whose transfers have no system of distinct
// lanes. It returns the first such end.
func (ph *phase) hall() (blocked Blocked, found bool) {
	for end, groups := range ph.ends {
		sets, transfers := make([]fors.LaneSet, len(groups)), make([]int, len(groups))
		for i, g := range groups {
			sets[i], transfers[i] = ph.groups[g].lanes, len(ph.groups[g].transfers)
		}
		if crowd, lanes := fors.Crowded(ph.lanes, sets, transfers); crowd > 0 {
			return Blocked{Leaf: end % ph.leaves, Receives: end >= ph.leaves, Transfers: crowd, Lanes: lanes}, true
		}
	}
	return Blocked{}, false
}
