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
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// LIDs is how many LIDs of each server plans may use: a number, or a policy.
type LIDs int

const (
	// AutoLIDs uses one LID a lane if every server has enough, otherwise as many as every
	// server has.
	AutoLIDs LIDs = 0
	// LaneLIDs uses one LID a lane. A lane for which a server has no LID is closed to it.
	LaneLIDs LIDs = -1
)

// ParseLIDs parses "auto", "lanes", or a number.
func ParseLIDs(text string) (LIDs, error) {
	switch text {
	case "auto":
		return AutoLIDs, nil
	case "lanes":
		return LaneLIDs, nil
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= 1<<ib.MaxLMC {
		return LIDs(n), nil
	}
	return 0, fmt.Errorf("%q is not one of auto, lanes and the numbers 1 to %d", text, 1<<ib.MaxLMC)
}

// String returns the text that ParseLIDs parses.
func (l LIDs) String() string {
	switch l {
	case AutoLIDs:
		return "auto"
	case LaneLIDs:
		return "lanes"
	}
	return strconv.Itoa(int(l))
}

// UnmarshalText parses text like ParseLIDs.
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

// UnmarshalJSON parses the output of MarshalJSON.
func (l *LIDs) UnmarshalJSON(data []byte) error {
	var text string
	if data[0] != '"' {
		text = string(data)
	} else if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return l.UnmarshalText([]byte(text))
}

// TablesFollow reports whether the tables of the tree follow from a plan, which Route then
// returns with them.
func (s Settings) TablesFollow(t *topology.FatTree) (bool, error) {
	if tight(t) { // otherwise lanes have LIDs beside the base LID
		t = s.Apart(t)
	}
	lids, err := s.groups(t)
	return lids > 0, err
}

// groups returns how many LIDs of a server plans of the tree use if the lane is up to each
// leaf, 0 if each lane has a LID of its own. At a spine with several cables to a leaf the
// table only knows the destination: trees with parallel cables and fewer LIDs than lanes
// use the base LID. If base LIDs are apart (Apart), lanes have the LIDs after them. Of
// several LIDs the base LID is for the base plan, and the others for groups of senders
// (fors.PlanGroups). Two LIDs leave a single group, which does not improve on the base plan.
func (s Settings) groups(t *topology.FatTree) (int, error) {
	least := math.MaxInt
	for _, i := range t.Servers {
		least = min(least, 1<<t.Hosts[i].LMC)
	}
	switch {
	case len(t.Servers) == 0, s.LIDs == LaneLIDs, s.LIDs == AutoLIDs && (!closesLanes(t) || !s.exact()):
		return 0, nil
	case s.LIDs == AutoLIDs && cabledTwice(t):
		return 1, nil
	case s.LIDs == AutoLIDs:
		return one(least), nil
	case s.LIDs < 1:
		return 0, fmt.Errorf("lids %d: want a number from 1 to %d", s.LIDs, 1<<ib.MaxLMC)
	case !s.exact():
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

// one maps 2 to 1.
func one(lids int) int {
	if lids == 2 {
		return 1
	}
	return lids
}

// grouped plans for the given LIDs a server, fewer than lanes. The undamaged tree keeps its
// linear shift if possible, which needs base LIDs only and no tables of its own.
func grouped(ctx context.Context, t *topology.FatTree, lids int, s Settings) (*Schedule, error) {
	start := time.Now()
	tree := forsTree(t)
	if tree.Mixed() {
		return s.baseOfShared(ctx, t)
	}
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
	var one *fors.Grouped
	if lids == 1 || s.LIDs == AutoLIDs {
		var err error
		one, err = s.oneLID(ctx, t, tree)
		if cabledTwice(t) { // lanes with LIDs of their own may do as well, and need no tables of their own
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
	if one != nil && one.Phases < plan.Phases && len(one.Unreachable) <= len(plan.Unreachable) {
		return bindGroups(t, one, 0, start)
	}
	bound, err := bindGroups(t, plan, 1, start)
	if err == nil {
		bound.one = one
	}
	return bound, err
}

// pins returns the plan's choice of lanes for the tables, for the LIDs of a server from
// first on.
func pins(t *topology.FatTree, plan *fors.Grouped, first int) *lft.Pins {
	lids := first + plan.LIDs
	p := &lft.Pins{LIDs: lids, Lane: slices.Repeat([]int16{int16(fors.Local)}, len(t.Leaves)*plan.Servers*lids)}
	if plan.Down != nil {
		p.Down = make([]int16, len(plan.Down))
		for i, k := range plan.Down {
			p.Down[i] = int16(k)
		}
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
