package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// LIDs is how many LIDs of each server plans may use: a number, or one of the
// policies.
type LIDs int

const (
	// AutoLIDs takes one LID a lane where every server has so many, otherwise the
	// most that every server has.
	AutoLIDs LIDs = 0
	// LaneLIDs takes one LID a lane. A lane for which a server has no LID is
	// closed to it.
	LaneLIDs LIDs = -1
)

// ParseLIDs reads "auto", "lanes", or a number.
func ParseLIDs(text string) (LIDs, error) {
	switch text {
	case "auto":
		return AutoLIDs, nil
	case "lanes":
		return LaneLIDs, nil
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= 1<<topology.MaxLMC {
		return LIDs(n), nil
	}
	return 0, fmt.Errorf("%q is not one of auto, lanes and the numbers 1 to %d", text, 1<<topology.MaxLMC)
}

// String is the text that ParseLIDs reads.
func (l LIDs) String() string {
	switch l {
	case AutoLIDs:
		return "auto"
	case LaneLIDs:
		return "lanes"
	}
	return strconv.Itoa(int(l))
}

// UnmarshalText reads what ParseLIDs does.
func (l *LIDs) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLIDs(string(text))
	return err
}

// MarshalJSON writes a number or the name of the policy.
func (l LIDs) MarshalJSON() ([]byte, error) {
	if l > 0 {
		return json.Marshal(int(l))
	}
	return json.Marshal(l.String())
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *LIDs) UnmarshalJSON(data []byte) error {
	var text string
	if data[0] != '"' {
		text = string(data)
	} else if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return l.UnmarshalText([]byte(text))
}

// TablesFollow tells whether the tables of the tree follow from a plan, which
// Route then returns with them.
func (s Settings) TablesFollow(t *topology.FatTree) (bool, error) {
	lids, err := s.groups(t)
	return lids > 0, err
}

// groups is how many LIDs of a server plans of the tree use where the lane is up
// to each leaf, 0 where each lane has a LID of its own. At a spine with several cables
// to a leaf the table knows the destination alone: trees with parallel cables that have
// too few LIDs for their lanes use the base LID. Of several LIDs the base LID is for the base plan, and the others
// for groups of senders (fors.PlanGroups); of two there is only one group to be had,
// which is no better than the base plan.
func (s Settings) groups(t *topology.FatTree) (int, error) {
	least := math.MaxInt
	for _, i := range t.Servers {
		least = min(least, 1<<t.Hosts[i].LMC)
	}
	exact := s.Engine == "" || s.Engine == Auto || s.Engine == string(fors.Exact)
	switch {
	case len(t.Servers) == 0, s.LIDs == LaneLIDs, s.LIDs == AutoLIDs && (least >= t.Lanes || !exact):
		return 0, nil
	case s.LIDs == AutoLIDs && cabledTwice(t):
		return 1, nil
	case s.LIDs == AutoLIDs:
		return one(least), nil
	case s.LIDs < 1:
		return 0, fmt.Errorf("lids %d: want a number from 1 to %d", s.LIDs, 1<<topology.MaxLMC)
	case !exact:
		return 0, fmt.Errorf("lids %d does not go with engine %s, which knows lanes alone: use auto or exact", s.LIDs, s.Engine)
	case cabledTwice(t):
		return 0, fmt.Errorf("lids %d does not go with parallel cables (%d lanes on %d spines): use lanes", s.LIDs, t.Lanes, len(t.Spines))
	case int(s.LIDs) > least:
		return 0, fmt.Errorf("lids %d is more than the %d of some server: set lmc in opensm.conf so that 2^lmc ≥ %d, or ask for fewer", s.LIDs, least, s.LIDs)
	}
	if s.LIDs == 1 {
		return 1, nil
	}
	return one(min(int(s.LIDs)+1, least)), nil
}

// one is 1 for 2.
func one(lids int) int {
	if lids == 2 {
		return 1
	}
	return lids
}

// grouped plans for so many LIDs a server, fewer than lanes. Where nothing forbids
// it the undamaged tree keeps its linear shift, which needs base LIDs alone and
// no tables of its own.
func grouped(ctx context.Context, t *topology.FatTree, lids int, s Settings) (*Schedule, error) {
	start := time.Now()
	tree := forsTree(t)
	if s.LIDs == AutoLIDs && s.Engine != string(fors.Exact) && len(s.given) == 0 {
		plan, err := fors.PlanShift(ctx, tree)
		if err == nil && plan.Gap() == 0 {
			s, err := bindLanes(t, plan)
			if err != nil {
				return nil, err
			}
			s.meanwhile = true
			s.finish(start)
			return s, nil
		}
		if err != nil && !errors.Is(err, fors.ErrNotApplicable) {
			return nil, err
		}
	}
	if lids == 1 || s.LIDs == AutoLIDs {
		one, err := oneLID(ctx, t, tree, s.given, lids == 1)
		if cabledTwice(t) { // lanes that have LIDs of their own may do as well, and have no tables of their own
			other, err2 := schedule(ctx, t, s)
			if err != nil || err2 == nil && len(other.Plan.Unreachable) <= len(one.Unreachable) && other.Plan.Phases <= one.Phases {
				return other, err2
			}
		}
		if err != nil {
			return nil, err
		}
		if lids == 1 || one.Gap() == 0 {
			return bindGroups(t, one, 0, start)
		}
	}
	plan, err := fors.PlanGroups(ctx, tree, lids-1)
	if err != nil {
		return nil, err
	}
	return bindGroups(t, plan, 1, start)
}

// oneLID plans for base LIDs alone: on the lanes that they have where these are up,
// unless others save more than a sixteenth of the phases, and none are given, and the plan
// stands alone. Where lanes stay, base LIDs stay spread for those who know of no plan.
func oneLID(ctx context.Context, t *topology.FatTree, tree *fors.Tree, given []lft.Pin, alone bool) (*fors.Grouped, error) {
	wish := fors.Wish{Via: baseLanes(t, tree, given), Keep: true}
	if cabledTwice(t) {
		wish.Spine, alone = t.LaneOf, false // lanes that are chosen anew do not go with spines
	}
	plan, err := fors.PlanOneLID(ctx, tree, wish)
	if err != nil && ctx.Err() == nil && wish.Spine != nil {
		toAll(tree, wish)
		plan, err = fors.PlanOneLID(ctx, tree, wish)
	}
	if err != nil || !alone || len(given) > 0 || plan.LeastBy != fors.ByLID && plan.Phases == plan.LeastPhases {
		return plan, err
	}
	wish.Keep = false
	free, err := fors.PlanOneLID(ctx, tree, wish)
	if err != nil || 16*free.Phases < 15*plan.Phases {
		return free, err
	}
	return plan, nil
}

// toAll gives base LIDs other lanes where theirs do not lead to them from all leaves: for a
// server each spine has one lane, the same for all leaves.
func toAll(tree *fors.Tree, wish fors.Wish) {
	n, d := tree.Servers(), 0
	for B, slots := range tree.Slots {
		load := make([]int, tree.Lanes) // transfers to leaf B
		for range slots {
			c := cover{tree, wish.Spine, load, B, make([]int, len(tree.Slots)), make([]bool, tree.Lanes), map[int]bool{}, 1 << 10}
			own := wish.Via[(B+1)%len(tree.Slots)*n+d]
			if !(tree.Up[B][own] && c.with(int(own))) && !c.rest() {
				return // one of its own servers is out of reach, and so it stays
			}
			for A := range tree.Slots {
				wish.Via[A*n+d] = fors.Local
				for k := range tree.Lanes {
					if k = (k + int(own)) % tree.Lanes; A != B && c.taken[k] && tree.Up[A][k] {
						wish.Via[A*n+d] = fors.Lane(k)
						load[k] += len(tree.Slots[A])
						break
					}
				}
			}
			d++
		}
	}
}

// cover looks for lanes to leaf B, one of a spine at most, by which all leaves reach a server
// there.
type cover struct {
	tree    *fors.Tree
	spine   []int // [lane]
	load    []int // [lane]
	B       int
	reached []int        // [leaf] by how many of the lanes
	taken   []bool       // [lane]
	used    map[int]bool // spines
	work    int          // lanes that may still be tried
}

// with takes a lane, and others for what that does not reach.
func (c *cover) with(k int) bool {
	c.mark(k, 1)
	if c.rest() {
		return true
	}
	c.mark(k, -1)
	return false
}

func (c *cover) mark(k, by int) {
	c.taken[k], c.used[c.spine[k]] = by > 0, by > 0
	for A, up := range c.tree.Up {
		if up[k] {
			c.reached[A] += by
		}
	}
}

// rest takes lanes for the leaves that are not reached, first for one that has the fewest to
// choose from, and of these first those that carry the least.
func (c *cover) rest() bool {
	var few []int
	left := false
	for A := range c.tree.Slots {
		if A == c.B || c.reached[A] > 0 {
			continue
		}
		var lanes []int
		for k := range c.tree.Lanes {
			if c.tree.Up[A][k] && c.tree.Up[c.B][k] && !c.used[c.spine[k]] {
				lanes = append(lanes, k)
			}
		}
		if !left || len(lanes) < len(few) {
			few, left = lanes, true
		}
	}
	slices.SortStableFunc(few, func(a, b int) int { return c.load[a] - c.load[b] })
	for _, k := range few {
		if c.work--; c.work < 0 {
			return false
		}
		if c.with(k) {
			return true
		}
	}
	return !left
}

// baseLanes is the lane that every leaf with servers sends to each base LID on, on
// tables without pins and damage, but for those that are given.
func baseLanes(t *topology.FatTree, tree *fors.Tree, given []lft.Pin) []fors.Lane {
	var lanes []fors.Lane
	for range tree.Slots {
		for _, i := range t.Servers {
			lanes = append(lanes, fors.Lane(t.LIDLane(&t.Hosts[i], 0)))
		}
	}
	leaves := leavesWithServers(t)
	for _, p := range given {
		leaf, sends := slices.BinarySearch(leaves, p.Leaf)
		if d, serves := slices.BinarySearch(t.Servers, p.Host); sends && serves && p.LID == 0 {
			lanes[leaf*len(t.Servers)+d] = fors.Lane(p.Lane)
		}
	}
	return lanes
}

// pins is the plan's choice of lanes as the tables need it, for the LIDs of a server
// from the given one on.
func pins(t *topology.FatTree, plan *fors.Grouped, first int) *lft.Pins {
	lids := first + plan.LIDs
	p := &lft.Pins{LIDs: lids, Lane: make([]int16, len(t.Leaves)*plan.Servers*lids)}
	for i := range p.Lane {
		p.Lane[i] = int16(fors.Local)
	}
	row, last := plan.Servers*plan.LIDs, -1 // a leaf's lanes; the plan leaves out leaves without servers
	at := 0
	for _, i := range t.Servers {
		leaf := t.Hosts[i].Leaf
		if leaf == last {
			continue
		}
		last = leaf
		for j, lane := range plan.Via[at : at+row] {
			p.Lane[(leaf*plan.Servers+j/plan.LIDs)*lids+first+j%plan.LIDs] = int16(lane)
		}
		at += row
	}
	return p
}
