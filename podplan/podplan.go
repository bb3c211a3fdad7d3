// Package podplan is the entry point to planning for fat trees of three levels: a fabric
// goes in, a verified plan and verified tables come out. It owns the choice of groups, the
// LIDs by which transfers take their ways, and the warnings of a plan.
package podplan

import (
	"context"
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// Settings are the choices that planning leaves to the operator.
type Settings struct {
	// MaxUnreachable is as in planner.Settings.
	MaxUnreachable *float64
	// AtOnce leaves a damaged tree with the plan for base LIDs even if a new plan would be
	// worth other LIDs and tables.
	AtOnce bool
}

// EnoughLIDs is how many LIDs of a server plans use to choose ways, if there are so many.
// More LIDs do not make them shorter, unless there is one for every lane, in which case the
// tables do not change.
const EnoughLIDs = 4

// LIDs is how many LIDs of a host plans can use, and for how many lanes, by a baseline of two
// or three levels.
func LIDs(b *topology.Baseline) (lids, lanes int) {
	if b.Pods == nil {
		return b.LIDs(), b.Lanes()
	}
	lids = min(EnoughLIDs, len(b.Pods.Lanes))
	return lids, lids
}

// Result is a plan with the tables that carry it, both verified.
type Result struct {
	Tree *topology.PodTree
	Plan *pods.Plan
	// Offset is, like Plan.To, the offset of the destination's LID from its base LID; nil
	// if every transfer uses base LIDs.
	Offset   []uint8
	LIDs     int  // of a server that the plan uses
	Pinned   bool // every lane has an LID of its own, and the tables are the same for all plans
	Tables   *lft.Tables
	Warnings []topology.Finding
	Notes    []topology.Finding // about the plan for base LIDs that there is not
	Times    planner.Times
	// Base is the plan for programs that send to base LIDs, verified on the same tables; nil
	// if none was found, and Notes say why.
	Base *Result
	Load phasetable.Load // of the tables

	shape  *pods.Tree
	homes  []int32 // [server] its leaf; see home
	fixed  bool    // the tables follow from the tree alone
	noBase error   // why base LIDs have no plan
	moved  int     // ways of base LIDs that are not those of the whole tree
	later  bool    // a new plan, which may be worth its tables, is left to Better
	// changes and pairsChanged are the difference from the plan that it was made from, nil if none.
	changes      *Changes
	pairsChanged *int
}

// Route builds and verifies the tables of a tree that has no plan.
func Route(ctx context.Context, t *topology.PodTree) (*lft.Tables, error) {
	tables, err := lft.BuildPods(ctx, t, nil)
	if err != nil {
		return nil, err
	}
	if err := verify.TablesByRank(t.Fabric, t.Rank, tables); err != nil {
		return nil, fmt.Errorf("verify tables: %w", err)
	}
	return tables, nil
}

// Row is what the servers do in one phase.
type Row struct {
	r     *Result
	To    []int32 // [server] destination, pods.Idle without one
	Way   []int16 // [server] lane; lanes + plane within a pod; −1 within a leaf
	DLID  []ib.LID
	off   []uint8
	lid   []ib.LID // [server] base LID
	leaf  []int32  // [server]
	lanes []int16  // [server] see waysTo, where the plan is the shift
	inner []int16  // [server] the same within its pod
}

// NewRow makes room for the rows of a plan.
func (r *Result) NewRow() *Row {
	n := len(r.Tree.Servers)
	x := &Row{r: r, To: make([]int32, n), Way: make([]int16, n), DLID: make([]ib.LID, n), off: make([]uint8, n), lid: make([]ib.LID, n), leaf: make([]int32, n)}
	for s, i := range r.Tree.Servers {
		h := &r.Tree.Hosts[i]
		x.lid[s], x.leaf[s] = h.LID, int32(h.Leaf)
		if r.Plan.Engine == pods.Shift {
			lane, inner := r.waysTo(h, 0)
			x.lanes, x.inner = append(x.lanes, lane), append(x.inner, inner)
		}
	}
	return x
}

// Fill fills the row with a phase.
func (x *Row) Fill(phase int) {
	r := x.r
	r.Plan.Row(phase, x.To, x.Way, r.Offset, x.off)
	for s, d := range x.To {
		if x.DLID[s] = 0; d == pods.Idle {
			continue
		}
		x.DLID[s] = x.lid[d]
		if x.leaf[s] == x.leaf[d] {
			continue
		}
		x.DLID[s] += ib.LID(x.off[s])
		if x.lanes != nil {
			if x.Way[s] = x.lanes[d]; r.Tree.Leaves[x.leaf[s]].Pod == r.Tree.Leaves[x.leaf[d]].Pod {
				x.Way[s] = x.inner[d]
			}
		}
	}
}

// lids returns how many LIDs every server has.
func lids(t *topology.PodTree) int {
	least := 1 << ib.MaxLMC
	for _, i := range t.Servers {
		least = min(least, 1<<t.Hosts[i].LMC)
	}
	return least
}

// Shape returns the tree as package pods sees it: the leaves that have servers, and the
// servers' indices α as slots.
func Shape(t *topology.PodTree) *pods.Tree {
	s := &pods.Tree{Pods: t.Pods, First: t.First, Up: make([]bool, t.Pods*len(t.Lanes)), Places: t.Baseline.Places, Round: t.Round()}
	for p := range t.Pods {
		for k := range t.Lanes {
			s.Up[p*len(t.Lanes)+k] = t.LaneUp(p, k)
		}
	}
	last := -1
	for _, i := range t.Servers {
		h := &t.Hosts[i]
		if h.Leaf != last {
			last = h.Leaf
			l := pods.Leaf{Pod: t.Leaves[last].Pod, Up: make([]bool, t.Planes)}
			for j := range l.Up {
				l.Up[j] = t.LeafUp(last, j)
			}
			s.Leaves = append(s.Leaves, l)
		}
		l := &s.Leaves[len(s.Leaves)-1]
		l.Slots = append(l.Slots, h.Alpha)
		if s.Places > 0 {
			l.Place = append(l.Place, h.First+h.Alpha)
		}
		if len(t.Exchanges) > 1 {
			l.Exchange = append(l.Exchange, h.Exchange)
		}
	}
	return s
}

// warn collects the warnings.
func (r *Result) warn() {
	add := func(code, format string, args ...any) {
		r.Warnings = append(r.Warnings, topology.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	p := r.Plan
	if gap := p.Gap(); gap > 0 {
		add(planner.PlanOverBound, "the plan of engine %s has %d phases, %d more than the bound of %d by %s", p.Engine, p.Phases(), gap, p.LowerBound, p.Certificate)
	}
	if n := len(p.Unreachable); n > 0 {
		add(planner.UnreachablePairs, "%d ordered pairs of servers have no way to each other and are left out", n)
	}
	if r.noBase != nil {
		r.Notes = []topology.Finding{{Code: planner.NoBasePlan, Text: fmt.Sprintf("there is no plan for programs that send to base LIDs: %v", r.noBase)}}
	}
	if b := r.Base; b != nil && b.Plan.Gap() > 0 {
		b.Warnings = []topology.Finding{{Code: planner.BasePlanOverBound, Text: fmt.Sprintf("the plan for programs that send to base LIDs has %d phases, %d more than its bound of %d", b.Plan.Phases(), b.Plan.Gap(), b.Plan.LowerBound)}}
	}
	have, enough := lids(r.Tree), min(EnoughLIDs, len(r.Tree.Lanes))
	switch {
	case have >= enough || p.Engine == pods.Shift:
	case p.Engine == pods.Routes:
		add(planner.LMCTooSmall, "the servers' LMC gives %d LIDs, too few for a plan that chooses ways: the plan follows the tables; set lmc in opensm.conf so that 2^lmc ≥ %d", have, enough)
	default:
		add(planner.LMCTooSmall, "the servers' LMC gives %d LIDs: plans may be longer than with %d; set lmc in opensm.conf so that 2^lmc ≥ %d", have, enough, enough)
	}
}
