// Package podplan is the one entry of the command line to plans for fat trees of three
// levels: a fabric goes in, a verified plan and verified tables come out. It owns the
// choice of groups, the LIDs by which transfers take their ways, and the warnings that a
// plan carries.
package podplan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ilp"
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
}

// LMCTooSmall and the others are codes of warnings, as those of package planner.
const (
	LMCTooSmall      = planner.LMCTooSmall
	PlanOverBound    = planner.PlanOverBound
	UnreachablePairs = planner.UnreachablePairs
)

// EnoughLIDs is how many LIDs of a server plans choose ways by, if there are so many: with
// more they are no shorter, but where there is one for every lane, and tables stay.
const EnoughLIDs = 4

// Result is a plan with the tables that carry it, both verified.
type Result struct {
	Tree *topology.PodTree
	Plan *pods.Plan
	// Offset is, like Plan.To, what is to be added to the destination's base LID; nil
	// where every transfer goes to base LIDs.
	Offset   []uint8
	LIDs     int  // of a server that the plan uses
	Pinned   bool // every lane has an LID of its own, and the tables are the same for all plans
	Tables   *lft.Tables
	Warnings []topology.Finding
	Times    Times

	shape *pods.Tree
	homes []int32 // [server] its leaf; see home
	fixed bool    // the tables follow from the tree alone
	// changes is how the plan differs from the one that it was made from, nil without one.
	changes *Changes
}

// Times says what each stage took.
type Times struct{ Plan, Tables, Verify time.Duration }

// Make plans the complete exchange of the tree's servers, builds the tables and verifies
// the one on the other. Undamaged trees get the linear shift. Where each server has an LID
// for every lane, plans for single senders go on tables that do not depend on them.
// Elsewhere the senders of a leaf form a group, and the tables follow from the plan.
func Make(ctx context.Context, t *topology.PodTree, s Settings) (*Result, error) {
	if len(t.Servers) == 0 {
		return nil, errors.New("the fabric has no server: there is nothing to exchange")
	}
	if err := s.MayPlan(t); err != nil {
		return nil, err
	}
	var last error
	for _, plan := range []func() (*Result, error){
		func() (*Result, error) { return makePlan(ctx, t, pods.Make, true) },
		// Gaps among the leaves may spoil the shift, and tops that serve several planes
		// by parallel cables fixed tables; not so tables that follow the plan.
		func() (*Result, error) { return makePlan(ctx, t, pods.MakeBlocks, false) },
		func() (*Result, error) { return byRoutes(ctx, t, Shape(t)) },
	} {
		r, err := plan()
		if err == nil {
			err = r.finish(ctx)
		}
		if err == nil {
			r.warn()
			return r, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// finerLimit is how many servers may have plans for more groups of a leaf tried than one,
// where that leaves a gap.
const finerLimit = 512

// makePlan plans, and gives the transfers their LIDs.
func makePlan(ctx context.Context, t *topology.PodTree, plan planFunc, mayPin bool) (*Result, error) {
	start := time.Now()
	shape := Shape(t)
	have := lids(t)
	if have >= len(t.Lanes) && mayPin {
		r := &Result{Tree: t, shape: shape, LIDs: 1, fixed: true}
		var err error
		if r.Plan, err = plan(ctx, shape, pods.Singles); err != nil {
			return nil, err
		}
		if r.Plan.Engine == pods.Shift || r.pin() {
			r.Pinned = r.Plan.Engine != pods.Shift
			r.certify(ctx)
			r.Times.Plan = time.Since(start)
			return r, nil
		}
	}
	most := 0
	for a := range shape.Leaves {
		most = max(most, len(shape.Leaves[a].Slots))
	}
	var best *Result
	var last error
	for groups := 1; groups <= min(have, most); groups *= 2 {
		r := &Result{Tree: t, shape: shape, LIDs: 1}
		var err error
		if r.Plan, err = plan(ctx, shape, (most+groups-1)/groups); err != nil {
			return nil, err
		}
		if r.fixed = r.Plan.Engine == pods.Shift; !r.fixed {
			last = r.address(ctx)
		}
		if last == nil && (best == nil || r.Plan.Phases() < best.Plan.Phases()) {
			best = r
		}
		if best != nil && (best.Plan.Gap() == 0 || len(t.Servers) > finerLimit) {
			break
		}
	}
	if best == nil {
		return nil, last
	}
	best.certify(ctx)
	best.Times.Plan = time.Since(start)
	return best, nil
}

// boundLimit bounds the linear programme of a bound.
const boundLimit = time.Second

// certify raises the bound of a plan that is a block or more over it to that of the joint
// linear programme, where lp_solve is there and finds it in time. An error leaves the
// bound as it is.
func (r *Result) certify(ctx context.Context) {
	if r.Plan.Gap() < r.Plan.Group || len(r.Tree.Servers) > finerLimit {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, boundLimit)
	defer cancel()
	if bound, err := ilp.PodBound(ctx, r.shape); err == nil && bound > r.Plan.LowerBound {
		r.Plan.LowerBound, r.Plan.Certificate = bound, fors.ByLP
	}
}

type planFunc func(ctx context.Context, t *pods.Tree, group int) (*pods.Plan, error)

// finish builds the tables and verifies all.
func (r *Result) finish(ctx context.Context) error {
	start := time.Now()
	var entries []iter.Seq[lft.Entry]
	if !r.fixed {
		entries = r.entries()
	}
	var err error
	if r.Tables, err = lft.BuildPods(ctx, r.Tree, entries); err != nil {
		return err
	}
	built := time.Now()
	r.Times.Tables = built.Sub(start)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := verify.TablesByRank(r.Tree.Fabric, r.Tree.Rank, r.Tables); err != nil {
		return fmt.Errorf("verify tables: %w", err)
	}
	if err := r.Check(ctx, r.Tables); err != nil {
		return fmt.Errorf("verify plan: %w", err)
	}
	r.Times.Verify = time.Since(built)
	return nil
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

// Check walks the plan through tables, phase by phase.
func (r *Result) Check(ctx context.Context, tables *lft.Tables) error {
	w, err := verify.NewWalk(r.Tree.Fabric, tables, endPorts(r.Tree))
	if err != nil {
		return err
	}
	err = w.Phases(r.Plan.Phases(), runtime.GOMAXPROCS(0), func() func(int) ([]verify.Transfer, error) {
		row := r.NewRow()
		var transfers []verify.Transfer
		return func(phase int) ([]verify.Transfer, error) {
			row.Fill(phase)
			transfers = transfers[:0]
			for s, d := range row.To {
				if d != pods.Idle {
					transfers = append(transfers, verify.Transfer{Src: int32(s), Dst: d, DLID: row.DLID[s]})
				}
			}
			return transfers, ctx.Err()
		}
	})
	if err != nil {
		return err
	}
	unreachable := make([][2]int32, len(r.Plan.Unreachable))
	for i, p := range r.Plan.Unreachable {
		unreachable[i] = [2]int32{int32(p.Src), int32(p.Dst)}
	}
	return w.Done(r.Tree, unreachable)
}

// endPorts lists the servers of a tree.
func endPorts(t *topology.PodTree) []topology.EndPort {
	out := make([]topology.EndPort, len(t.Servers))
	for i, h := range t.Servers {
		out[i] = t.Hosts[h].EndPort
	}
	return out
}

// Holds walks a published plan through tables. It fails where the plan's servers are not
// the tree's.
func Holds(ctx context.Context, t *topology.PodTree, tables *lft.Tables, plan *phasetable.View) error {
	if plan.Servers() != len(t.Servers) {
		return fmt.Errorf("the plan has %d servers, the fabric %d", plan.Servers(), len(t.Servers))
	}
	index := make([]int32, plan.Servers()) // [number in the plan] index in the tree
	for i, h := range t.Servers {
		n, known := plan.FindGUID(t.Hosts[h].GUID)
		if !known {
			return fmt.Errorf("%s (%s) is not in the plan", t.Hosts[h].Name, t.Hosts[h].GUID)
		}
		index[n] = int32(i)
	}
	w, err := verify.NewWalk(t.Fabric, tables, endPorts(t))
	if err != nil {
		return err
	}
	err = w.Phases(plan.Phases(), runtime.GOMAXPROCS(0), func() func(int) ([]verify.Transfer, error) {
		transfers := make([]verify.Transfer, 0, len(index))
		return func(phase int) ([]verify.Transfer, error) {
			transfers = transfers[:0]
			for s := range index {
				if x := plan.At(s, phase); x.SendTo != phasetable.Idle {
					transfers = append(transfers, verify.Transfer{Src: index[s], Dst: index[x.SendTo], DLID: x.DLID})
				}
			}
			return transfers, ctx.Err()
		}
	})
	if err != nil {
		return err
	}
	return w.Done(t, Unreachable(t))
}

// Row is what the servers do in one phase.
type Row struct {
	r     *Result
	To    []int32 // [server] destination, pods.Idle without one
	Way   []int16 // [server] lane; lanes + plane within a pod; −1 within a leaf
	DLID  []topology.LID
	off   []uint8
	lid   []topology.LID // [server] base LID
	leaf  []int32        // [server]
	lanes []int16        // [server] see laneTo, where the plan is the shift
}

// NewRow makes room for the rows of a plan.
func (r *Result) NewRow() *Row {
	n := len(r.Tree.Servers)
	x := &Row{r: r, To: make([]int32, n), Way: make([]int16, n), DLID: make([]topology.LID, n), off: make([]uint8, n), lid: make([]topology.LID, n), leaf: make([]int32, n)}
	for s, i := range r.Tree.Servers {
		h := &r.Tree.Hosts[i]
		x.lid[s], x.leaf[s] = h.LID, int32(h.Leaf)
		if r.Plan.Engine == pods.Shift {
			x.lanes = append(x.lanes, r.laneTo(h))
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
		x.DLID[s] += topology.LID(x.off[s])
		if x.lanes != nil {
			if x.Way[s] = x.lanes[d]; r.Tree.Leaves[x.leaf[s]].Pod == r.Tree.Leaves[x.leaf[d]].Pod {
				x.Way[s] = int16(len(r.Tree.Lanes) + r.Tree.Hosts[r.Tree.Servers[d]].Alpha%r.Tree.Planes)
			}
		}
	}
}

// lids is how many LIDs every server has.
func lids(t *topology.PodTree) int {
	least := 1 << topology.MaxLMC
	for _, i := range t.Servers {
		least = min(least, 1<<t.Hosts[i].LMC)
	}
	return least
}

// Shape is the tree as package pods sees it: the leaves that have servers, and the servers'
// indices α as slots.
func Shape(t *topology.PodTree) *pods.Tree {
	s := &pods.Tree{Pods: t.Pods, First: t.First, Up: make([]bool, t.Pods*len(t.Lanes))}
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
	}
	return s
}

// MayPlan tells whether enough servers have a way to each other.
func (s Settings) MayPlan(t *topology.PodTree) error {
	pairs, of := len(pods.Unreachable(Shape(t))), len(t.Servers)*(len(t.Servers)-1)
	limit := planner.DefaultMaxUnreachable
	if s.MaxUnreachable != nil {
		limit = *s.MaxUnreachable
	}
	if float64(pairs) > limit*float64(of) {
		return &planner.TooManyUnreachable{Pairs: pairs, Of: of, Limit: limit}
	}
	return nil
}

// warn collects the warnings.
func (r *Result) warn() {
	add := func(code, format string, args ...any) {
		r.Warnings = append(r.Warnings, topology.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	p := r.Plan
	if gap := p.Gap(); gap > 0 {
		add(PlanOverBound, "the plan of engine %s has %d phases, %d more than the bound of %d by %s", p.Engine, p.Phases(), gap, p.LowerBound, p.Certificate)
	}
	if n := len(p.Unreachable); n > 0 {
		add(UnreachablePairs, "%d ordered pairs of servers have no way to each other and are left out", n)
	}
	have, enough := lids(r.Tree), min(EnoughLIDs, len(r.Tree.Lanes))
	switch {
	case have >= enough || p.Engine == pods.Shift:
	case p.Engine == pods.Routes:
		add(LMCTooSmall, "the servers' LMC gives %d LIDs, too few for a plan that chooses ways: the plan follows the tables; set lmc in opensm.conf so that 2^lmc ≥ %d", have, enough)
	default:
		add(LMCTooSmall, "the servers' LMC gives %d LIDs: plans may be longer than with %d; set lmc in opensm.conf so that 2^lmc ≥ %d", have, enough, enough)
	}
}
