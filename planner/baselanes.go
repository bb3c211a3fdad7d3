package planner

import (
	"context"
	"math"
	"slices"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// DefaultKeepPrice is the share of phases by which a plan for base LIDs may be longer so
// that base LIDs keep their lanes.
const DefaultKeepPrice = 0.02

// What one more dead cable costs: of the lanes in force that are up, one in fewChange changes, as
// long as a plan has no more than tolerance times the fewest phases.
const (
	fewChange = 100
	tolerance = 1.06
)

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
		if w = s.repaired(tree, w, math.MaxInt); slices.Equal(w.Via, lanes) {
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
// the wish itself, or one with some of its lanes changed, no more of those that are up than may
// change, if any such lanes are within tolerance.
func (s Settings) repaired(tree *fors.Tree, w fors.Wish, mayChange int) fors.Wish {
	w.Keep = true
	fewest, best := math.MaxInt, w
	least, _, err := fors.LeastOneLID(tree)
	for room := s.afford(least); err == nil && room < tree.Servers()*tree.Servers(); room += 1 + room/128 {
		if fewest < math.MaxInt && (fewest <= mayChange || float64(room) > tolerance*float64(least)) {
			break
		}
		if fors.Keeps(tree, w, room) {
			return w
		}
		if r, changed, ok := fors.Repair(tree, w, room); ok && changed < fewest {
			r.Keep = true
			fewest, best = changed, r
		}
	}
	return best
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
		if best.Phases <= s.afford(best.LeastPhases) || s.Before != nil && float64(best.Phases) <= tolerance*float64(best.LeastPhases) {
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
