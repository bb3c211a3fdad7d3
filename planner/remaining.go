package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// Rest is a plan of the rest of an exchange, with tables that carry it, both verified.
type Rest struct {
	*Result
	Done  int  // phases of the old plan that have run
	Kept  int  // transfers in the same phase and on the same lane
	Moved int  // in the same phase, on another lane
	Shed  int  // in another phase
	Anew  bool // planning from scratch took fewer phases than repair

	past verify.Past
}

// ErrTooFar is wrapped by the error of Remaining if done exceeds the phases of the plan.
var ErrTooFar = errors.New("phases are said to be done")

// Remaining plans the pairs of servers that an interrupted exchange still lacks on the
// changed fabric: done phases of the old plan have run, the others are kept as far as
// possible (fors.Remaining). Servers are identified by port GUID; pairs with a vanished
// server are dropped, pairs with a newcomer and those that were unreachable are planned.
// Each lane has a LID of its own, whatever the old plan used: if servers have fewer LIDs
// than there are lanes, some lanes are closed to them. The lanes that are still up have the
// same entries in the tables before and after a failure, so if the old tables are of that
// kind too, the plan holds on both. It fails with ErrTooFar if the old plan has fewer
// phases.
func Remaining(ctx context.Context, t *topology.FatTree, old *phasetable.View, done int) (*Rest, error) {
	if done < 0 || done > old.Phases() {
		return nil, fmt.Errorf("%d %w: the plan of epoch %d has %d", done, ErrTooFar, old.Epoch(), old.Phases())
	}
	if len(t.Servers) == 0 {
		return nil, errors.New("the fabric has no server: there is nothing to exchange")
	}
	tables, times, err := route(ctx, t, nil)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r := &Rest{Done: done, past: pastOf(old, done)}
	pairs, rest := r.split(t)
	plan, err := fors.Remaining(ctx, forsTree(t), pairs, rest)
	if err != nil {
		return nil, err
	}
	r.Kept, r.Moved, r.Shed, r.Anew = plan.Kept, plan.Moved, plan.Shed, plan.Anew
	schedule, err := bind(t, plan.Plan, start)
	if err != nil {
		return nil, err
	}
	checked := time.Now()
	r.Result = &Result{Schedule: schedule, Tables: tables, Times: times}
	if err := r.Check(tables); err != nil {
		return nil, err
	}
	r.Times.Plan = schedule.Took
	r.Times.Verify += time.Since(checked)
	return r, nil
}

// pastOf reads the rows of a table.
func pastOf(old *phasetable.View, done int) verify.Past {
	n := old.Servers()
	past := verify.Past{Done: done, Rows: verify.NewRows(n, old.Phases())}
	for s := range n {
		past.Servers = append(past.Servers, old.Server(s).GUID)
		row := old.Row(s)
		for ph := range old.Phases() {
			if x := row.At(ph); x.SendTo != phasetable.Idle {
				i := ph*n + s
				past.Rows.To[i], past.Rows.Lane[i], past.Rows.DLID[i] = int32(x.SendTo), int16(x.Lane), x.DLID
			}
		}
	}
	return past
}

// split maps the old plan to the servers of the tree: the pairs that are still missing, and
// the phases that have not run. A server that moved to another leaf keeps its phases; the
// planner checks the lanes.
func (r *Rest) split(t *topology.FatTree) (*fors.PairSet, *fors.Plan) {
	now := make(map[ib.GUID]fors.Server, len(t.Servers))
	for i, h := range t.Servers {
		now[t.Hosts[h].GUID] = fors.Server(i)
	}
	old := len(r.past.Servers)
	place := make([]fors.Server, old) // [old server]
	for i, guid := range r.past.Servers {
		s, here := now[guid]
		if !here {
			s = fors.Idle
		}
		place[i] = s
	}
	pairs := forsTree(t).Demand()
	rest := fors.NewPlan(fors.Exact, len(t.Servers), r.past.Rows.Phases-r.Done)
	for i, to := range r.past.Rows.To {
		if to == verify.Idle {
			continue
		}
		s, d := place[i%old], place[to]
		if s == fors.Idle || d == fors.Idle {
			continue
		}
		if i/old < r.Done {
			pairs.Remove(s, d)
			continue
		}
		at := (i/old-r.Done)*rest.Servers + int(s)
		rest.To[at], rest.Lane[at] = d, fors.Lane(r.past.Rows.Lane[i])
	}
	return pairs, rest
}
