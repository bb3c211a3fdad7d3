package podplan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// Rest is a plan of the rest of an exchange, verified on tables. Its transfers are counted as in
// planner.Rest.
type Rest struct {
	*Result
	*planner.Running
	Kept, Moved, Shed int

	pairs *fors.PairSet
}

// Remaining plans the pairs of servers that an interrupted exchange still lacks, on tables of the
// changed tree: done phases of the old plan have run. Transfers keep their phases, and their
// LIDs where these lead over living cables; the others take any LIDs and free places, or places of
// transfers that find others (fors.Pack). It fails as planner.NewRunning does.
func Remaining(ctx context.Context, t *topology.PodTree, tables *lft.Tables, old *phasetable.View, done int) (*Rest, error) {
	start := time.Now()
	running, err := planner.NewRunning(t.Hosts, t.Servers, old, done)
	if err != nil {
		return nil, err
	}
	if n := len(t.Servers); n > singlesLimit {
		return nil, fmt.Errorf("the rest of an exchange is planned for at most %d servers: there are %d", singlesLimit, n)
	}
	out := newGround(t, Shape(t))
	out.Tables, out.LIDs, out.fixed = tables, 1, true
	out.Plan.Engine, out.Plan.Group, out.Plan.First = pods.Routes, 1, out.Plan.Base
	r := &Rest{Result: out, Running: running}
	x := newRoads(out, lids(t))
	out.home(0)
	x.leafOf, r.pairs = out.homes, r.lacking()
	out.Plan.Bounds = pods.BoundsOf(out.shape, r.pairs)
	for _, more := range spares {
		if err := r.pack(x, more); err != nil {
			return nil, err
		}
		if ctx.Err() != nil || r.Plan.Gap() <= 0 {
			break
		}
	}
	r.Times.Plan = time.Since(start)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return r, r.Check(ctx, tables)
}

// spares are how many phases plans begin with beyond their bound, as parts of it, until one is at
// the bound. With more, fewer transfers leave their places, often in as many phases.
var spares = []int{0, 32, 16}

// enough is the part of a plan's phases by which one that keeps more may be longer, and one on the
// same tables must be shorter.
const enough = 64

// pack plans with a part of the bound more phases than it has, or more, and takes the plan if it is the
// first one, or keeps more and is not much longer.
func (r *Rest) pack(x *roads, part int) error {
	p, n := r.Plan, len(r.Tree.Servers)
	k := &fors.Pack{Servers: n, Cables: x.cables(), Work: pods.PackWork, Choices: x.choices}
	spare := 0
	if part > 0 {
		spare = (p.LowerBound + part - 1) / part
	}
	k.Begin(max(p.LowerBound+spare, r.Phases()), 1)
	left := r.pairs.Clone()
	r.Left(func(phase int, s, d fors.Server, e phasetable.Entry) {
		c, ok := x.way(int(x.homes[s]), int(x.homes[d]), int32(d), x.offset(d, e.DLID))
		if left.Has(s, d) && ok && k.Fits(phase, int(s), int32(d), &c) {
			left.Remove(s, d)
		}
	})
	var late []fors.Late
	for _, u := range left.List() {
		if len(x.choices(int(u.Src), int32(u.Dst))) == 0 {
			return fmt.Errorf("none of %d LIDs of %s leads there from all leaves that have a way to it", x.lids, r.Tree.Hosts[r.Tree.Servers[u.Dst]].Name)
		}
		late = append(late, fors.Late{Leaf: int(u.Src), To: int32(u.Dst)})
	}
	k.Place(late)
	next, result, plan := *r, *r.Result, *p
	next.Result, result.Plan, result.LIDs = &result, &plan, 1
	next.read(k)
	next.count(x)
	if most := p.Phases() + p.Phases()/enough; p.To == nil || plan.Phases() <= most && next.Kept > r.Kept {
		*r = next
	}
	return nil
}

// offset returns a LID's offset from the base LID of a server, or one that leads nowhere.
func (x *roads) offset(d fors.Server, lid ib.LID) int {
	if off := int(lid) - int(x.Tree.Hosts[x.Tree.Servers[d]].LID); off >= 0 && off < x.lids {
		return off
	}
	return int(ib.MaxUnicastLID)
}

// count counts the transfers of the old plan that stayed, took another LID, or changed phase.
func (r *Rest) count(x *roads) {
	r.Kept, r.Moved, r.Shed = 0, 0, 0
	r.Left(func(phase int, s, d fors.Server, e phasetable.Entry) {
		at := phase*len(r.Tree.Servers) + int(s)
		switch {
		case !r.pairs.Has(s, d):
		case at >= len(r.Plan.To) || r.Plan.To[at] != int32(d):
			r.Shed++
		case int(r.Offset[at]) == x.offset(d, e.DLID):
			r.Kept++
		default:
			r.Moved++
		}
	})
}

// lacking returns the pairs with a way that have not had their transfer.
func (r *Rest) lacking() *fors.PairSet {
	n := len(r.Tree.Servers)
	pairs := fors.NewPairSet(n)
	for s := range fors.Server(n) {
		for d := range fors.Server(n) {
			if r.Tree.Together(int(s), int(d)) {
				pairs.Add(s, d)
			}
		}
	}
	r.Had(func(s, d fors.Server) { pairs.Remove(s, d) })
	r.Plan.Unreachable = slices.DeleteFunc(r.Plan.Unreachable, func(u fors.Pair) bool { return !pairs.Remove(u.Src, u.Dst) })
	return pairs
}

// Check walks the plan through tables after the phases that have run.
func (r *Rest) Check(ctx context.Context, tables *lft.Tables) error {
	return r.check(ctx, tables, func(w *verify.Walk) error {
		var err error
		r.Had(func(s, d fors.Server) {
			if err == nil {
				err = w.Had(int32(s), int32(d))
			}
		})
		return err
	})
}
