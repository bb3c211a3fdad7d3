package ilp

// hall looks for an end of the phase whose transfers have no system of distinct
// lanes: by Hall's theorem, some of them that together may use fewer lanes than
// they are. It returns the first such end.
func (ph *phase) hall() (blocked Blocked, found bool) {
	owner := make([]int, ph.lanes)    // [lane] group, −1 for none
	visited := make([]bool, ph.lanes) // in the search at hand
	for end, groups := range ph.ends {
		for k := range owner {
			owner[k] = -1
		}
		for _, g := range groups {
			for range ph.groups[g].transfers {
				clear(visited)
				if !ph.claim(g, owner, visited) {
					return ph.violator(end, g, visited, owner), true
				}
			}
		}
	}
	return Blocked{}, false
}

// claim finds a lane for one more transfer of a group, moving others on where it
// must. The lanes that it looked at are marked.
func (ph *phase) claim(g int, owner []int, visited []bool) bool {
	for k := range owner {
		if visited[k] || !ph.groups[g].lanes.has(k) {
			continue
		}
		visited[k] = true
		if owner[k] < 0 || ph.claim(owner[k], owner, visited) {
			owner[k] = g
			return true
		}
	}
	return false
}

// violator states why a search for a lane failed: the groups that it came
// through use none but the lanes that it looked at.
func (ph *phase) violator(end, g int, visited []bool, owner []int) Blocked {
	b := Blocked{Leaf: end % ph.leaves, Receives: end >= ph.leaves}
	through := make([]bool, len(ph.groups))
	through[g] = true
	for k, seen := range visited {
		if seen {
			b.Lanes++
			through[owner[k]] = true
		}
	}
	for g, in := range through {
		if in {
			b.Transfers += len(ph.groups[g].transfers)
		}
	}
	return b
}
