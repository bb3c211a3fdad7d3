package planner

import (
	"context"
	"slices"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// DefaultKeepPrice is the share of phases by which a plan for base LIDs may be longer so
// that base LIDs keep their lanes.
const DefaultKeepPrice = 0.02

// afford is the most phases that a plan for base LIDs may have if that keeps lanes.
func (s Settings) afford(least int) int {
	price := DefaultKeepPrice
	if s.KeepPrice != nil {
		price = *s.KeepPrice
	}
	return least + int(price*float64(least))
}

// Apart is the tree with those hosts marked as Moved whose base LIDs do not take the lanes that
// they have by their number (FatTree.LIDLane): plans that choose lanes do without these base
// LIDs, and plans for base LIDs may have any lane for them. Where these lanes put more transfers
// on a cable than the price of keeping them allows in the whole tree of the baseline, that is all
// hosts. Where they do so with what has failed, it is those whose lanes a repair changes; all, if
// a host has just as many LIDs as there are lanes, since it has none left for its lane then. The
// LMC does not count otherwise, unless the settings have plans that choose lanes need base LIDs
// for them.
func (s Settings) Apart(t *topology.FatTree) *topology.FatTree {
	if len(t.Servers) == 0 || t.Lanes == 0 || allMoved(t) || !s.mayPart(t) {
		return t
	}
	tree := forsTree(t)
	lanes := baseLanes(t, tree, nil)
	apart := func(int) bool { return true }
	if whole, own := wholeTree(t); s.affords(whole, fors.Wish{Via: own}) {
		w := fors.Wish{Via: lanes}
		if s.affords(tree, w) {
			return t
		}
		if w = s.repaired(tree, w); slices.Equal(w.Via, lanes) {
			return t
		}
		if !slices.ContainsFunc(t.Servers, func(i int) bool { return 1<<t.Hosts[i].LMC == t.Lanes }) {
			apart = func(d int) bool { return leaves(t, lanes, w.Via, d) }
		}
	}
	out := *t
	out.Hosts = slices.Clone(t.Hosts)
	for d, i := range t.Servers {
		out.Hosts[i].Moved = out.Hosts[i].Moved || apart(d)
	}
	return &out
}

// leaves tells whether some leaf sends to server d over another lane than its own one, though
// that is up.
func leaves(t *topology.FatTree, own, via []fors.Lane, d int) bool {
	n, to := len(t.Servers), t.Hosts[t.Servers[d]].Leaf
	for a, leaf := range leavesWithServers(t) {
		if k := own[a*n+d]; via[a*n+d] != k && leaf != to && t.LaneUp(leaf, int(k)) && t.LaneUp(to, int(k)) {
			return true
		}
	}
	return false
}

// repaired is a wish whose lanes are to be had at the price of keeping them, or hardly above it:
// the wish itself, or one with some of its lanes changed.
func (s Settings) repaired(tree *fors.Tree, w fors.Wish) fors.Wish {
	w.Keep = true
	least, _, err := fors.LeastOneLID(tree)
	for room := s.afford(least); err == nil && room < tree.Servers()*tree.Servers(); room += 1 + room/128 {
		if fors.Keeps(tree, w, room) {
			return w
		}
		if via, down, ok := fors.Repair(tree, w, room); ok {
			return fors.Wish{Via: via, Down: down, Keep: true}
		}
	}
	return w
}

// allMoved tells whether all servers are marked.
func allMoved(t *topology.FatTree) bool {
	return !slices.ContainsFunc(t.Servers, func(i int) bool { return !t.Hosts[i].Moved })
}

// mayPart tells whether plans that choose lanes need not have base LIDs for that.
func (s Settings) mayPart(t *topology.FatTree) bool {
	forced := s.LIDs == LaneLIDs || s.LIDs == AutoLIDs && !s.exact()
	return !forced || !slices.ContainsFunc(t.Servers, func(i int) bool { return 1<<t.Hosts[i].LMC <= t.Lanes })
}

// exact tells whether plans may be of the exact engine, which those of groups are.
func (s Settings) exact() bool {
	return s.Engine == "" || s.Engine == Auto || s.Engine == string(fors.Exact)
}

// affords tells whether lanes can be kept at the price that there is for it.
func (s Settings) affords(tree *fors.Tree, wish fors.Wish) bool {
	if fors.Keeps(tree, wish, s.afford(tree.Servers()-1)) {
		return true
	}
	least, _, err := fors.LeastOneLID(tree)
	return err == nil && least > tree.Servers()-1 && fors.Keeps(tree, wish, s.afford(least))
}

// wholeTree is the tree of the baseline, with all its hosts and cables, and the lanes of base
// LIDs there by their number.
func wholeTree(t *topology.FatTree) (*fors.Tree, []fors.Lane) {
	tree := &fors.Tree{Lanes: t.Lanes}
	if cabledTwice(t) {
		tree.Spine = t.LaneOf
	}
	var row, via []fors.Lane
	for l := range t.Baseline.Leaves {
		leaf := &t.Baseline.Leaves[l]
		up, slots := make([]bool, t.Lanes), []int{}
		for k := range up {
			up[k] = leaf.Uplinks[k] != topology.Uplink{}
		}
		for α := range leaf.Slots {
			if leaf.Slots[α].GUID != 0 {
				slots = append(slots, α)
				row = append(row, fors.Lane((α+leaf.First)%t.Lanes))
			}
		}
		tree.Up, tree.Slots = append(tree.Up, up), append(tree.Slots, slots)
	}
	for range tree.Slots {
		via = append(via, row...)
	}
	return tree, via
}

// chosenLanes is the lane that every leaf with servers sends to each base LID over, where
// base LIDs are apart, while nothing has failed: the one by its number as far as that is good
// for all. The hosts of a leaf beyond a multiple of the lanes have no such lane.
func chosenLanes(t *topology.FatTree) ([]fors.Lane, error) {
	whole, via := wholeTree(t)
	n, base := whole.Servers(), 0
	first := make([]int, len(whole.Slots)) // [leaf] its first server
	for l, slots := range whole.Slots {
		first[l] = base
		for i := range slots {
			if own := len(slots) - len(slots)%t.Lanes; own > 0 && i >= own {
				for A := range whole.Slots {
					via[A*n+base+i] = fors.Local
				}
			}
		}
		base += len(slots)
	}
	chosen, _, err := fors.ChooseLanes(whole, fors.Wish{Via: via})
	if err != nil {
		return nil, err
	}
	var lanes []fors.Lane
	for _, leaf := range leavesWithServers(t) {
		for _, i := range t.Servers {
			h, lane := &t.Hosts[i], fors.Local
			if at, known := slices.BinarySearch(whole.Slots[h.Leaf], h.Alpha); known {
				lane = chosen[leaf*n+first[h.Leaf]+at]
			}
			lanes = append(lanes, lane)
		}
	}
	return lanes, nil
}

// wish is the lanes that base LIDs are to keep: those in force, or without a plan those of the
// whole tree. Where hosts have the lanes of their number, these stay wherever they are up, for
// plans that choose lanes may use them, and so do entries that are given. Others move, as few as
// have to, where all of them are not to be had at the price.
func (s Settings) wish(t *topology.FatTree, tree *fors.Tree) (w fors.Wish, err error) {
	own := baseLanes(t, tree, s.given)
	if w.Via = own; allMoved(t) {
		if w.Via, err = chosenLanes(t); err != nil {
			return w, err
		}
		overrule(t, w.Via, s.given)
	}
	if s.Before == nil && len(s.given) == 0 && s.mayPart(t) { // as Apart had it
		return s.repaired(tree, w), nil
	}
	w.Stay = s.staying(t, tree)
	w = s.inForce(t, tree, w)
	for i, k := range w.Via {
		w.Stay[i] = w.Stay[i] && k == own[i]
	}
	return s.repaired(tree, w), nil
}

// staying marks the lanes of a wish that have to stay.
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

// inForce is a wish with the lanes of the plan in force in place of those that are dead or need
// not stay. What the plan had come down by, it does not tell: where
// a spine has several cables to the server's leaf, that is the lane it came up by, or another
// one that is up.
func (s Settings) inForce(t *topology.FatTree, tree *fors.Tree, w fors.Wish) fors.Wish {
	n, v := len(t.Servers), s.Before
	if v == nil || v.Lanes() != t.Lanes {
		return w
	}
	out := fors.Wish{Via: slices.Clone(w.Via), Stay: w.Stay}
	if tree.Spine != nil {
		out.Down = slices.Repeat([]fors.Lane{fors.Local}, n*t.Lanes)
		for d, i := range t.Servers {
			if h := &t.Hosts[i]; !h.Moved {
				comeDown(t, d, t.LIDLane(h, 0), out.Down)
			}
		}
	}
	now := make([]int, v.Servers()) // [server of the plan] as a server of the tree, −1 for none
	for i := range now {
		now[i] = -1
	}
	first := map[int]int{} // [leaf] a server there, as one of the plan
	for d, i := range t.Servers {
		if at, known := v.FindGUID(t.Hosts[i].GUID); known {
			now[at] = d
			if _, found := first[t.Hosts[i].Leaf]; !found {
				first[t.Hosts[i].Leaf] = at
			}
		}
	}
	for a, leaf := range leavesWithServers(t) {
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
			to := t.Hosts[t.Servers[d]].Leaf
			if own := int(w.Via[a*n+d]); w.Stay[a*n+d] && own >= 0 && t.LaneUp(leaf, own) && t.LaneUp(to, own) || to == leaf {
				continue
			}
			out.Via[a*n+d] = fors.Lane(x.Lane)
			if out.Down != nil {
				comeDown(t, d, x.Lane, out.Down)
			}
		}
	}
	return out
}

// comeDown has what comes to a server by the spine of a lane go down by this lane, or by
// another one of the spine that is up, unless that is known.
func comeDown(t *topology.FatTree, d, lane int, down []fors.Lane) {
	s, leaf := &t.Spines[t.LaneOf[lane]], t.Hosts[t.Servers[d]].Leaf
	for k := s.First; k < s.First+s.Cables && !t.LaneUp(leaf, lane); k++ {
		lane = k
	}
	for k := s.First; k < s.First+s.Cables && t.LaneUp(leaf, lane); k++ {
		if down[d*t.Lanes+k] == fors.Local {
			down[d*t.Lanes+k] = fors.Lane(lane)
		}
	}
}

// unplanned is pins by which base LIDs take lanes of their own where there is no plan.
func (s Settings) unplanned(t *topology.FatTree) (*lft.Pins, error) {
	if len(t.Servers) == 0 || t.Lanes == 0 {
		return nil, nil
	}
	tree := forsTree(t)
	wish, err := s.wish(t, tree)
	if err != nil {
		return nil, err
	}
	via, down, err := fors.ChooseLanes(tree, wish)
	if err != nil {
		return nil, err
	}
	return pins(t, &fors.Grouped{Plan: &fors.Plan{Servers: len(t.Servers)}, LIDs: 1, Via: via, Down: down}, 0), nil
}

// oneLID plans for base LIDs alone, and keeps lanes as long as that is worth its price.
func (s Settings) oneLID(ctx context.Context, t *topology.FatTree, tree *fors.Tree) (*fors.Grouped, error) {
	wish, err := s.wish(t, tree)
	if err != nil {
		return nil, err
	}
	best, err := fors.PlanOneLID(ctx, tree, wish)
	if err != nil || !allMoved(t) || len(s.given) > 0 {
		return best, err
	}
	for _, w := range []fors.Wish{{Via: wish.Via, Down: wish.Down}, {}} {
		if best.Phases <= s.afford(best.LeastPhases) {
			break
		}
		p, err := fors.PlanOneLID(ctx, tree, w)
		if err != nil {
			return nil, err
		}
		if s.afford(p.Phases) < best.Phases {
			best = p
		}
	}
	return best, nil
}

// baseLanes is the lane that every leaf with servers sends to each base LID on, by its
// number and on tables without damage, but for those that are given.
func baseLanes(t *topology.FatTree, tree *fors.Tree, given []lft.Pin) []fors.Lane {
	var lanes []fors.Lane
	for range tree.Slots {
		for _, i := range t.Servers {
			lanes = append(lanes, fors.Lane(t.LIDLane(&t.Hosts[i], 0)))
		}
	}
	overrule(t, lanes, given)
	return lanes
}

// overrule takes over the entries that are given.
func overrule(t *topology.FatTree, lanes []fors.Lane, given []lft.Pin) {
	eachGiven(t, given, func(at int, lane fors.Lane) { lanes[at] = lane })
}

// eachGiven calls do with the place of each entry that is given among lanes by leaf and server.
func eachGiven(t *topology.FatTree, given []lft.Pin, do func(at int, lane fors.Lane)) {
	leaves := leavesWithServers(t)
	for _, p := range given {
		leaf, sends := slices.BinarySearch(leaves, p.Leaf)
		if d, serves := slices.BinarySearch(t.Servers, p.Host); sends && serves && p.LID == 0 {
			do(leaf*len(t.Servers)+d, fors.Lane(p.Lane))
		}
	}
}
