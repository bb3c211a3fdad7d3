package planner

import (
	"math"
	"slices"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// This file starts plans for base LIDs from the plan in force.

// wish returns the lanes that base LIDs should keep: those in force, or without a plan
// those of the complete tree. Lanes that follow from a host's number stay if they are up,
// because pinned plans may use them, and so do given entries. As few others move as
// necessary to meet the price. Lanes in force are given up if a plan would be too long with
// them.
func (s Settings) wish(t *topology.FatTree, tree *fors.Tree) (w fors.Wish, inForce []fors.Lane, err error) {
	own := baseLanes(t, tree, s.given)
	if w.Via = own; allMoved(t) {
		if w.Via, err = chosenLanes(t); err != nil {
			return w, nil, err
		}
		overrule(t, w.Via, s.given)
	}
	if s.Before == nil && len(s.given) == 0 && s.mayPart(t) { // as in Apart
		return s.repaired(tree, w, math.MaxInt), w.Via, nil
	}
	w.Stay = s.staying(t, tree)
	w, carried := s.inForce(t, tree, w)
	for i, k := range w.Via {
		w.Stay[i] = w.Stay[i] && k == own[i]
	}
	r := s.repaired(tree, w, mayChange(t, w, carried))
	if least, _, err := fors.LeastOneLID(tree); s.Before != nil && err == nil && !fors.Keeps(tree, r, tolerable(least)) {
		s.Before = nil
		return s.wish(t, tree)
	}
	return r, w.Via, nil
}

// mayChange limits how many lanes of a wish that are up may change: any number if the wish
// is not of a plan in force or if cables have come back that it does not use, few otherwise,
// and none while nothing is dead. carried marks the cables that it uses.
func mayChange(t *topology.FatTree, w fors.Wish, carried []bool) int {
	if carried == nil {
		return math.MaxInt
	}
	n, dead, leaves := len(t.Servers), false, leavesWithServers(t)
	for i, k := range w.Via {
		leaf, to, down := leaves[i/n], t.Hosts[t.Servers[i%n]].Leaf, k
		if k >= 0 && w.Down != nil {
			down = w.Down[i%n*t.Lanes+int(k)]
		}
		if down < 0 || !t.LaneUp(leaf, int(k)) || !t.LaneUp(to, int(down)) {
			dead = dead || leaf != to && joined(t, leaf, to)
		}
	}
	for _, leaf := range leaves {
		for k := range t.Lanes {
			leads := func(other int) bool { return other != leaf && leadsTo(t, k, other) }
			if t.LaneUp(leaf, k) && !carried[leaf*t.Lanes+k] && slices.ContainsFunc(leaves, leads) {
				return math.MaxInt
			}
		}
	}
	if dead {
		return len(w.Via) / fewChange
	}
	return 0
}

// joined reports whether two leaves have cables to the same spine.
func joined(t *topology.FatTree, a, b int) bool {
	for k := range t.Lanes {
		if t.LaneUp(a, k) && leadsTo(t, k, b) {
			return true
		}
	}
	return false
}

// leadsTo reports whether the spine of a lane has a cable to a leaf.
func leadsTo(t *topology.FatTree, lane, leaf int) bool {
	for k, spine := range t.LaneOf {
		if spine == t.LaneOf[lane] && t.LaneUp(leaf, k) {
			return true
		}
	}
	return false
}

// staying marks the lanes of a wish that must stay.
func (s Settings) staying(t *topology.FatTree, tree *fors.Tree) []bool {
	stay := make([]bool, 0, len(tree.Slots)*len(t.Servers))
	for range tree.Slots {
		for _, i := range t.Servers {
			stay = append(stay, !t.Hosts[i].Moved)
		}
	}
	eachGiven(t, s.given, func(at int, _ fors.Lane) { stay[at] = true })
	return stay
}

// inForce returns a wish with the lanes of the plan in force in place of those that are
// dead or may change, and without those over a dead cable. By which of several cables a
// spine forwards a base LID is in the tables in force, not in the plan. carried marks the
// cables [leaf·lanes + lane] that it uses; it is nil without a plan in force.
func (s Settings) inForce(t *topology.FatTree, tree *fors.Tree, w fors.Wish) (out fors.Wish, carried []bool) {
	n, v := len(t.Servers), s.Before
	if v == nil || v.Lanes() != t.Lanes {
		return w, nil
	}
	carried = make([]bool, len(t.Leaves)*t.Lanes)
	out = fors.Wish{Via: slices.Clone(w.Via), Stay: w.Stay}
	fell := s.fell(t)
	if tree.Spine != nil {
		out.Down = slices.Repeat([]fors.Lane{fors.Local}, n*t.Lanes)
	}
	leaves, stays := leavesWithServers(t), make([]bool, len(w.Via))
	for i, own := range w.Via {
		leaf, to := leaves[i/n], t.Hosts[t.Servers[i%n]].Leaf
		stays[i] = w.Stay[i] && leaf != to && own >= 0 && t.LaneUp(leaf, int(own)) && t.LaneUp(to, int(own))
		if stays[i] && out.Down != nil {
			comeDown(t, i%n, int(own), out.Down)
		}
	}
	now := make([]int, v.Servers()) // [server of the plan] index in the tree, −1 if none
	for i := range now {
		now[i] = -1
	}
	first := map[int]int{} // [leaf] one of its servers, by index in the plan
	for d, i := range t.Servers {
		if at, known := v.FindGUID(t.Hosts[i].GUID); known {
			now[at] = d
			if _, found := first[t.Hosts[i].Leaf]; !found {
				first[t.Hosts[i].Leaf] = at
			}
		}
	}
	for a, leaf := range leaves {
		from, known := first[leaf]
		if !known {
			continue
		}
		row := v.Row(from)
		for ph := range v.Phases() {
			x := row.At(ph)
			if x.SendTo == phasetable.Idle || now[x.SendTo] < 0 || x.Lane < 0 {
				continue
			}
			d := now[x.SendTo]
			to, down := t.Hosts[t.Servers[d]].Leaf, fell(d, x.Lane)
			if carried[leaf*t.Lanes+x.Lane] = true; down >= 0 {
				carried[to*t.Lanes+down] = true
			}
			if to == leaf || stays[a*n+d] {
				continue
			}
			out.Via[a*n+d] = fors.Local
			if down >= 0 && t.LaneUp(leaf, x.Lane) && t.LaneUp(to, down) {
				if out.Via[a*n+d] = fors.Lane(x.Lane); out.Down != nil {
					comeDown(t, d, down, out.Down)
				}
			}
		}
	}
	for i := range out.Down { // spines that the plan does not use
		if down := fell(i/t.Lanes, i%t.Lanes); down >= 0 {
			comeDown(t, i/t.Lanes, down, out.Down)
		}
	}
	return out, carried
}

// fell returns a function for the lane by which traffic up by a lane went down to a server,
// with the tables in force.
func (s Settings) fell(t *topology.FatTree) func(d, lane int) int {
	return func(d, lane int) int {
		spine, h := &t.Spines[t.LaneOf[lane]], &t.Hosts[t.Servers[d]]
		if spine.Cables > 1 && s.Tables != nil {
			if at := s.Tables.Find(spine.GUID); at >= 0 {
				for k := spine.First; k < spine.First+spine.Cables; k++ {
					if t.Leaves[h.Leaf].Cables[k].SpinePort == s.Tables.Port(at, h.LID) {
						return k
					}
				}
				return int(fors.Local)
			}
		}
		return lane
	}
}

// comeDown makes traffic to a server by the spine of a lane go down by this lane if it is
// up, unless another one is known.
func comeDown(t *topology.FatTree, d, lane int, down []fors.Lane) {
	s := &t.Spines[t.LaneOf[lane]]
	for k := s.First; k < s.First+s.Cables && t.LaneUp(t.Hosts[t.Servers[d]].Leaf, lane); k++ {
		if down[d*t.Lanes+k] == fors.Local {
			down[d*t.Lanes+k] = fors.Lane(lane)
		}
	}
}
