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
	x, err := NewRunning(t.Hosts, t.Servers, old, done)
	if err != nil {
		return nil, err
	}
	tables, times, err := route(ctx, t, nil)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r := &Rest{Done: done, past: pastOf(old, done)}
	tree := forsTree(t)
	pairs, rest := tree.Demand(), fors.NewPlan(fors.Exact, len(t.Servers), old.Phases()-done)
	x.Had(func(s, d fors.Server) { pairs.Remove(s, d) })
	x.Left(func(phase int, s, d fors.Server, e phasetable.Entry) {
		at := phase*rest.Servers + int(s)
		rest.To[at], rest.Lane[at] = d, fors.Lane(e.Lane)
	})
	plan, err := fors.Remaining(ctx, tree, pairs, rest)
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

// pastOf reads the phases that have run.
func pastOf(old *phasetable.View, done int) verify.Past {
	n := old.Servers()
	past := verify.Past{Done: done, Rows: verify.NewRows(n, done)}
	for s := range n {
		past.Servers = append(past.Servers, old.Server(s).GUID)
		row := old.Row(s)
		for ph := range done {
			if x := row.At(ph); x.SendTo != phasetable.Idle {
				past.Rows.To[ph*n+s] = int32(x.SendTo)
			}
		}
	}
	return past
}

// Running is an exchange of which some phases of its plan have run, seen from a fabric that has
// changed since. Servers are identified by port GUID; one that moved keeps its phases.
type Running struct {
	Done int // phases

	old *phasetable.View
	now []fors.Server // [server of the plan] on the fabric, Idle if it has vanished
}

// NewRunning fails with ErrTooFar if the plan has fewer phases than are done.
func NewRunning(hosts []topology.Host, servers []int, old *phasetable.View, done int) (*Running, error) {
	if done < 0 || done > old.Phases() {
		return nil, fmt.Errorf("%d %w: the plan of epoch %d has %d", done, ErrTooFar, old.Epoch(), old.Phases())
	}
	if len(servers) == 0 {
		return nil, errors.New("the fabric has no server: there is nothing to exchange")
	}
	at := make(map[ib.GUID]fors.Server, len(servers))
	for i, h := range servers {
		at[hosts[h].GUID] = fors.Server(i)
	}
	x := &Running{Done: done, old: old, now: make([]fors.Server, old.Servers())}
	for i := range x.now {
		s, here := at[old.Server(i).GUID]
		if x.now[i] = s; !here {
			x.now[i] = fors.Idle
		}
	}
	return x, nil
}

// Had calls for the pairs that have had their transfer.
func (x *Running) Had(pair func(s, d fors.Server)) {
	x.each(0, x.Done, func(_ int, s, d fors.Server, _ phasetable.Entry) { pair(s, d) })
}

// Left calls for the transfers that have not run, with their phases among those that are left.
func (x *Running) Left(transfer func(phase int, s, d fors.Server, x phasetable.Entry)) {
	x.each(x.Done, x.old.Phases(), transfer)
}

// Phases returns how many phases are left.
func (x *Running) Phases() int { return x.old.Phases() - x.Done }

func (x *Running) each(first, end int, transfer func(phase int, s, d fors.Server, x phasetable.Entry)) {
	for i, s := range x.now {
		row := x.old.Row(i)
		for ph := first; ph < end && s != fors.Idle; ph++ {
			if e := row.At(ph); e.SendTo != phasetable.Idle && x.now[e.SendTo] != fors.Idle {
				transfer(ph-first, s, x.now[e.SendTo], e)
			}
		}
	}
}
