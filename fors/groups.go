package fors

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/forsd/forsd/bipartite"
)

// Grouped is a plan for servers with fewer LIDs than there are lanes. The senders of a leaf
// are split into groups, and a leaf's table sends each LID up a lane of its own choice; so
// the lane of a transfer is a function of the sender's leaf, the destination, and the
// sender's group, by which the destination's LID is chosen.
type Grouped struct {
	*Plan
	LIDs      int   // LIDs of a server that the plan uses: the most groups of a leaf
	GroupSize int   // g: servers of a group; the last one of a leaf may have fewer
	Group     []int // [server] its group, counted within its leaf from 0
	// Via is [leaf][destination][group] the lane by which a group of a leaf sends to a
	// server; Local if the plan does not use it.
	Via []Lane
	// LeastPhases is the least number of phases that groups of this size allow;
	// Plan.LowerBound is that of the tree with any number of LIDs.
	LeastPhases int
	// LeastBy is the certificate of LeastPhases; PlanOneLID sets it, PlanGroups leaves it
	// empty.
	LeastBy Certificate
	// Kept is the most transfers that kept lanes put on a link, a lower bound on the phases
	// of PlanOneLID; 0 if no lanes are kept. Its excess over LeastPhases is the price of
	// keeping.
	Kept int
	// Down is [server][lane] the lane by which traffic up by a lane goes down to a server,
	// Local if unused; nil if all traffic goes down by the lane it came up.
	Down []Lane
}

// PlanGroups plans the complete exchange so that a leaf uses at most lids lanes to any
// destination, one for each group of g senders. Of the group sizes that lids allows it
// takes the smallest with the fewest phases by counting.
//
// Time is cut into blocks of g phases. In a block a group has up to g destinations, each on
// one lane for the whole block, and its members take turns at them: member i sends to
// destination (i+t) mod g in the block's phase t. So blocks are to groups what phases are
// to servers, and the steps of PlanExact make them: lanes first, blocks second, groups and
// receivers last. A server's turn at itself is idle. With groups of one, blocks are phases,
// and PlanExact's plan has this form.
//
// With q_A groups on leaf A, Φ blocks suffice if and only if at most Φ groups reach any
// server, no leaf's groups have more than gΦ destinations, and integers y[A][B][k] ≥ 0
// exist, on lanes k up at both leaves, with Σ_k y = q_A·n_B, Σ_B y ≤ Φ and Σ_A y ≤ Φ. Empty
// phases are removed.
//
// Pairs without a common lane are left out and listed. Tree.Closed does not count: the
// tables open the lanes that the plan uses. PlanGroups fails if the tree is inconsistent,
// if lids < 1, and soon after ctx ends.
func PlanGroups(ctx context.Context, t *Tree, lids int) (*Grouped, error) {
	open := *t
	open.Closed = nil
	if err := open.validate(); err != nil {
		return nil, err
	}
	if open.Mixed() {
		return nil, ErrNotApplicable
	}
	if lids < 1 {
		return nil, fmt.Errorf("plan for groups of servers: %d LIDs a server, want 1 or more", lids)
	}
	return planGroups(ctx, &open, ComputeBounds(&open), lids, runtime.GOMAXPROCS(0))
}

func planGroups(ctx context.Context, t *Tree, b Bounds, lids, workers int) (*Grouped, error) {
	n := newNet(t)
	g, err := n.groupSize(ctx, b, lids)
	if err != nil {
		return nil, err
	}
	if g == 1 {
		return planSingles(ctx, t, n, b, workers)
	}
	n.setGroups(g)
	y, blocks, least, err := n.spread(ctx, n.leastBlocks(g))
	if err != nil {
		return nil, err
	}
	x := &grouping{net: n, g: g, blocks: blocks, workers: max(1, workers), plan: newPlan(Exact, t.Servers(), blocks*g)}
	x.setWishes(t)
	var idle sync.WaitGroup
	idle.Go(x.plan.idle) // while the blocks are computed
	err = x.setBlocks(ctx, y)
	idle.Wait()
	if err != nil {
		return nil, fmt.Errorf("set the blocks of a spread: %w", err)
	}
	seater := func(int) *groupSeater { return &groupSeater{grouping: x} }
	for _, step := range []func(*groupSeater, context.Context, int) error{(*groupSeater).seatGroups, (*groupSeater).seatReceivers, (*groupSeater).rotate} {
		if err := eachLeaf(ctx, x.leaves, x.workers, seater, step); err != nil {
			return nil, err
		}
	}
	p := &Grouped{Plan: x.plan, LIDs: slices.Max(n.units), GroupSize: g, LeastPhases: least * g}
	x.describe(t, p)
	p.dropEmpty()
	p.LeastPhases = min(p.LeastPhases, p.Phases)
	p.Bounds = b
	p.Unreachable = n.unreachable()
	return p, nil
}

// grouping turns a spread of groups' transfers into a plan. A unit is the transfers of one
// group to one server: a destination on one lane for one block.
type grouping struct {
	*net
	plan      *Plan
	g, blocks int
	workers   int
	wish      []int32 // [leaf·lanes + lane] the server whose index is the lane's number, or none
	units     []unit
	from, to  *bipartite.Index // the units by source leaf, by destination leaf; by block within
}

// setWishes fills wish in.
func (x *grouping) setWishes(t *Tree) {
	x.wish = make([]int32, x.leaves*x.lanes)
	for i := range x.wish {
		x.wish[i] = none
	}
	A := 0
	for _, slots := range t.Slots {
		if len(slots) == 0 {
			continue
		}
		for i, α := range slots {
			if x.lanes > 0 && x.wish[A*x.lanes+α%x.lanes] == none {
				x.wish[A*x.lanes+α%x.lanes] = int32(i)
			}
		}
		A++
	}
}

// unit is one group's transfers to one server, all members in turn. Group and Server count
// within their leaves.
type unit struct {
	block, A, B   int32
	group, server int32
	wish          int32 // the server that its lane wishes for, or none
	lane          Lane
}

// index lists the units by leaf.
func (x *grouping) index(leaf func(u *unit) int32) *bipartite.Index {
	keys := make([]int32, len(x.units))
	for i := range keys {
		keys[i] = leaf(&x.units[i])
	}
	return bipartite.IndexBy(x.leaves, keys)
}

// describe fills in the data that tables and addresses follow from.
func (x *grouping) describe(t *Tree, p *Grouped) {
	p.Group = make([]int, p.Servers)
	p.Via = make([]Lane, len(t.Slots)*p.Servers*p.LIDs)
	for i := range p.Via {
		p.Via[i] = Local
	}
	place := make([]int, 0, x.leaves) // [leaf] its index in the tree
	for leaf, slots := range t.Slots {
		if len(slots) > 0 {
			place = append(place, leaf)
		}
	}
	for A, size := range x.size {
		for i := range size {
			p.Group[int(x.base[A])+i] = i / x.g
		}
	}
	for i := range x.units {
		u := &x.units[i]
		d := int(x.base[u.B]) + int(u.server)
		p.Via[(place[u.A]*p.Servers+d)*p.LIDs+int(u.group)] = u.lane
	}
}
