package planner

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// DefaultKeepPrice is by how much, as a share of its phases, a plan for base LIDs may be
// longer so that base LIDs keep their lanes.
const DefaultKeepPrice = 0.02

// Limits of the changes by one more dead cable: of the lanes in force that are up, at most
// one in fewChange changes, while a plan has at most tolerance times the fewest phases.
const (
	fewChange = 100
	tolerance = 1.06
)

// afford returns the most phases that a plan for base LIDs may have in order to keep lanes.
func (s Settings) afford(least int) int {
	price := DefaultKeepPrice
	if s.KeepPrice != nil {
		price = *s.KeepPrice
	}
	return least + int(price*float64(least))
}

// tolerable returns the most phases that a plan may have if few lanes change.
func tolerable(least int) int { return int(tolerance * float64(least)) }

// Apart returns the tree with some hosts marked as Moved: their base LIDs do not take the
// lanes that follow from their number (FatTree.LIDLane). Pinned plans do without these base
// LIDs, and base plans may choose any lane for them. If these lanes put more transfers on a
// cable of the baseline's complete tree than the price of keeping them allows, all hosts
// are marked. If they do so only with the present failures, the hosts whose lanes a repair
// changes are marked; all of them if hosts have just as many LIDs as there are lanes, since
// none is left for their lane then. Otherwise the LMC does not matter, unless the settings
// let pinned plans need base LIDs for their lanes.
func (s Settings) Apart(t *topology.FatTree) *topology.FatTree {
	if len(t.Servers) == 0 || t.Lanes == 0 || allMoved(t) || !s.mayPart(t) {
		return t
	}
	if core := coreOf(t); core != nil {
		return apartFrom(t, s.Apart(core))
	}
	tree := laneTree(t)
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
		if !tight(t) {
			apart = func(d int) bool { return leaves(t, lanes, w.Via, d) }
		}
	}
	return marked(t, func(yield func(host int) bool) {
		for d, i := range t.Servers {
			if apart(d) && !yield(i) {
				return
			}
		}
	})
}

// tight reports whether some server has as many LIDs as there are lanes.
func tight(t *topology.FatTree) bool {
	return slices.ContainsFunc(t.Servers, func(i int) bool { return 1<<t.Hosts[i].LMC == t.Lanes })
}

// Beside returns the tree with the hosts marked as well that Apart marks in another tree of the
// same hosts, so that pinned plans hold on that tree's tables, too.
func (s Settings) Beside(t, other *topology.FatTree) *topology.FatTree {
	return marked(t, func(yield func(host int) bool) {
		for i, h := range s.Apart(other).Hosts {
			if h.Moved && !yield(i) {
				return
			}
		}
	})
}

// marked returns the tree with more hosts marked as Moved, or the tree itself if they all are.
func marked(t *topology.FatTree, hosts iter.Seq[int]) *topology.FatTree {
	out := t
	for i := range hosts {
		if out.Hosts[i].Moved {
			continue
		}
		if out == t {
			own := *t
			own.Hosts = slices.Clone(t.Hosts)
			out = &own
		}
		out.Hosts[i].Moved = true
	}
	return out
}

// Astray returns the tree with the hosts marked as well whose base LIDs have other lanes than
// those of their number in some of the tables, although these are up. Without such hosts it is
// the tree itself.
func Astray(t *topology.FatTree, on []*lft.Tables) *topology.FatTree {
	return marked(t, func(yield func(host int) bool) {
		for _, tables := range on {
			for l := range t.Leaves {
				n := -1
				if tables != nil {
					n = tables.Find(t.Leaves[l].GUID)
				}
				for _, i := range t.Servers {
					h := &t.Hosts[i]
					k := t.LIDLane(h, 0)
					stays := n < 0 || h.Leaf == l || 1<<h.LMC <= t.Lanes || !t.LaneUp(l, k) || !t.LaneUp(h.Leaf, k) || tables.Port(n, h.LID) == t.Leaves[l].Cables[k].LeafPort
					if !stays && !yield(i) {
						return
					}
				}
			}
		}
	})
}

// leaves reports whether some leaf sends to server d over a lane other than its own
// although that is up.
func leaves(t *topology.FatTree, own, via []fors.Lane, d int) bool {
	n, to := len(t.Servers), t.Hosts[t.Servers[d]].Leaf
	for a, leaf := range leavesWithServers(t) {
		if k := own[a*n+d]; via[a*n+d] != k && leaf != to && t.LaneUp(leaf, int(k)) && t.LaneUp(to, int(k)) {
			return true
		}
	}
	return false
}

// repaired returns a wish whose lanes can be kept at the price, or slightly above it: the
// wish itself, or one in which at most mayChange of the lanes that are up are changed, if
// such lanes exist within the tolerance.
func (s Settings) repaired(tree *fors.Tree, w fors.Wish, mayChange int) fors.Wish {
	w.Keep = true
	least, _, err := fors.LeastOneLID(tree)
	if err != nil {
		return w
	}
	room := s.afford(least)
	return s.Memory.repaired(tree, w, [2]int{room, mayChange}, func() fors.Wish { return repair(tree, w, room, tolerable(least), mayChange) })
}

// repair tries more and more room on a link, at least up to most if more change.
func repair(tree *fors.Tree, w fors.Wish, room, most, mayChange int) fors.Wish {
	fewest, best := math.MaxInt, w
	for room < tree.Servers()*tree.Servers() {
		if fors.Keeps(tree, w, room) {
			return w
		}
		if r, changed, ok := fors.Repair(tree, w, room); ok && changed < fewest {
			r.Keep = true
			fewest, best = changed, r
		}
		if fewest < math.MaxInt && (fewest <= mayChange || room >= most) {
			break
		}
		next := room + 1 + room/128
		if room < most {
			next = min(next, most)
		}
		room = next
	}
	return best
}

// allMoved reports whether all servers are marked.
func allMoved(t *topology.FatTree) bool {
	return !slices.ContainsFunc(t.Servers, func(i int) bool { return !t.Hosts[i].Moved })
}

// mayPart reports whether pinned plans can do without base LIDs.
func (s Settings) mayPart(t *topology.FatTree) bool {
	forced := s.LIDs == LaneLIDs || s.LIDs == AutoLIDs && !s.exact()
	return !forced || !slices.ContainsFunc(t.Servers, func(i int) bool { return 1<<t.Hosts[i].LMC <= t.Lanes })
}

// exact reports whether the exact engine, which makes plans of groups, may be used.
func (s Settings) exact() bool {
	return s.Engine == "" || s.Engine == Auto || s.Engine == string(fors.Exact)
}

// affords reports whether the lanes can be kept at their price.
func (s Settings) affords(tree *fors.Tree, wish fors.Wish) bool {
	if fors.Keeps(tree, wish, s.afford(tree.Peers())) {
		return true
	}
	least, _, err := fors.LeastOneLID(tree)
	return err == nil && least > tree.Peers() && fors.Keeps(tree, wish, s.afford(least))
}

// wholeTree returns the tree of the baseline, with all its hosts and cables, and the lanes
// of base LIDs there by their number.
func wholeTree(t *topology.FatTree) (*fors.Tree, []fors.Lane) {
	tree := &fors.Tree{Lanes: t.Lanes}
	if cabledTwice(t) {
		tree.Spine = t.LaneOf
	}
	var row, via []fors.Lane
	exchange := leafExchanges(t)
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
		if exchange != nil {
			tree.Exchange = append(tree.Exchange, slices.Repeat(exchange[l:l+1], len(slots))...)
		}
	}
	for range tree.Slots {
		via = append(via, row...)
	}
	return tree, via
}

// strays is the largest share of servers that are in another exchange than most of their leaf
// for lanes to be chosen as if they were not.
const strays = 0.1

// coreOf returns the tree whose servers are those in the exchange of most servers of their leaf;
// nil if all are, or too few.
func coreOf(t *topology.FatTree) *topology.FatTree {
	of := leafExchanges(t)
	if of == nil {
		return nil
	}
	core := *t
	core.Servers = slices.DeleteFunc(slices.Clone(t.Servers), func(i int) bool { return t.Hosts[i].Exchange != of[t.Hosts[i].Leaf] })
	if len(core.Servers) == len(t.Servers) {
		return nil
	}
	return &core
}

// apartFrom returns a tree with the hosts marked that are marked in its core, and the servers
// outside the core, if they have LIDs to spare: their lanes by number would carry too much.
func apartFrom(t, core *topology.FatTree) *topology.FatTree {
	out := *t
	out.Hosts = core.Hosts
	return marked(&out, func(yield func(host int) bool) {
		for _, i := range t.Servers {
			if _, in := slices.BinarySearch(core.Servers, i); !in && 1<<out.Hosts[i].LMC > t.Lanes && !yield(i) {
				return
			}
		}
	})
}

// leafExchanges returns the exchange of most servers of each leaf, one of its own if it has no
// server; nil if there is one of all, or too many servers are in another.
func leafExchanges(t *topology.FatTree) []int {
	if len(t.Exchanges) < 2 {
		return nil
	}
	count, of, in := make([][]int, len(t.Leaves)), make([]int, len(t.Leaves)), 0
	for l := range count {
		count[l] = make([]int, len(t.Exchanges))
	}
	for _, i := range t.Servers {
		count[t.Hosts[i].Leaf][t.Hosts[i].Exchange]++
	}
	for l, servers := range count {
		most := slices.Max(servers)
		if of[l] = slices.Index(servers, most); most == 0 {
			of[l] = -1 - l
		}
		in += most
	}
	if float64(in) < (1-strays)*float64(len(t.Servers)) {
		return nil
	}
	return of
}

// chosenLanes returns the lane from every leaf with servers to each base LID where base
// LIDs are apart and nothing has failed: the lane by its number as far as that is balanced.
// The hosts of a leaf beyond a multiple of the lanes have no such lane.
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

// unplanned returns pins that give base LIDs their own lanes without a plan.
func (s Settings) unplanned(t *topology.FatTree) (*lft.Pins, error) {
	if len(t.Servers) == 0 || t.Lanes == 0 {
		return nil, nil
	}
	tree := laneTree(t)
	wish, _, err := s.wish(t, tree)
	if err != nil {
		return nil, err
	}
	via, down, err := fors.ChooseLanes(tree, wish)
	if err != nil {
		return nil, err
	}
	return pins(t, &fors.Grouped{Plan: &fors.Plan{Servers: len(t.Servers)}, LIDs: 1, Via: via, Down: down}, 0), nil
}

// oneLID plans for base LIDs only, and keeps lanes while that is worth its price.
func (s Settings) oneLID(ctx context.Context, t *topology.FatTree, tree *fors.Tree) (*fors.Grouped, error) {
	wish, inForce, err := s.wish(t, tree)
	if err != nil {
		return nil, err
	}
	if s.Before != nil {
		least, _, err := fors.LeastOneLID(tree)
		if err != nil {
			return nil, err
		}
		best, err := fors.PlanKeeping(ctx, tree, wish, inForce, tolerable(least))
		if err != nil || best.Phases <= tolerable(least) {
			return best, err
		}
		s.Before = nil
		anew, err := s.oneLID(ctx, t, tree)
		if err == nil && s.afford(anew.Phases) >= best.Phases {
			anew = best
		}
		return anew, err
	}
	best, err := fors.PlanOneLID(ctx, tree, wish)
	if err != nil {
		return nil, err
	}
	if !allMoved(t) || len(s.given) > 0 {
		return best, nil
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

// baseLanes returns the lane from every leaf with servers to each base LID by its number,
// on tables without damage, except the given entries.
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

// overrule overwrites lanes with the given entries.
func overrule(t *topology.FatTree, lanes []fors.Lane, given []lft.Pin) {
	eachGiven(t, given, func(at int, lane fors.Lane) { lanes[at] = lane })
}

// eachGiven calls do with the index of each given entry among lanes by leaf and server.
func eachGiven(t *topology.FatTree, given []lft.Pin, do func(at int, lane fors.Lane)) {
	leaves := leavesWithServers(t)
	for _, p := range given {
		leaf, sends := slices.BinarySearch(leaves, p.Leaf)
		if d, serves := slices.BinarySearch(t.Servers, p.Host); sends && serves && p.LID == 0 {
			do(leaf*len(t.Servers)+d, fors.Lane(p.Lane))
		}
	}
}
