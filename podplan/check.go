package podplan

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// MayPlan returns an error if too few servers have a path to each other.
func (s Settings) MayPlan(t *topology.PodTree) error {
	return planner.Settings{MaxUnreachable: s.MaxUnreachable}.MayLeaveOut(len(pods.Unreachable(Shape(t))), t.Pairs())
}

// verify verifies the tables, and the plans on them.
func (r *Result) verify(ctx context.Context) error {
	start := time.Now()
	if err := verify.TablesByRank(r.Tree.Fabric, r.Tree.Rank, r.Tables); err != nil {
		return fmt.Errorf("verify tables: %w", err)
	}
	if err := r.Check(ctx, r.Tables); err != nil {
		return fmt.Errorf("verify plan: %w", err)
	}
	if r.Base != nil && r.LIDs > 1 { // else it is the plan
		if err := r.Base.Check(ctx, r.Tables); err != nil {
			return fmt.Errorf("verify the plan for base LIDs: %w", err)
		}
	}
	r.Times.Verify = time.Since(start)
	return nil
}

// Check walks the plan through tables, phase by phase.
func (r *Result) Check(ctx context.Context, tables *lft.Tables) error {
	return r.check(ctx, tables, nil)
}

// check is Check, after begin if that is given.
func (r *Result) check(ctx context.Context, tables *lft.Tables, begin func(*verify.Walk) error) error {
	return walk(ctx, r.Tree, tables, r.Plan.Phases(), func() func(int, []verify.Transfer) []verify.Transfer {
		row := r.NewRow()
		return func(phase int, to []verify.Transfer) []verify.Transfer {
			row.Fill(phase)
			for s, d := range row.To {
				if d != pods.Idle {
					to = append(to, verify.Transfer{Src: int32(s), Dst: d, DLID: row.DLID[s]})
				}
			}
			return to
		}
	}, fors.Numbers(r.Plan.Unreachable), begin)
}

// walk walks phases through tables. Each goroutine calls rows for a function that appends the
// transfers of a phase.
func walk(ctx context.Context, t *topology.PodTree, tables *lft.Tables, phases int, rows func() func(phase int, to []verify.Transfer) []verify.Transfer, unreachable [][2]int32, begin func(*verify.Walk) error) error {
	w, err := verify.NewWalk(t.Fabric, tables, endPorts(t))
	if err == nil && begin != nil {
		err = begin(w)
	}
	if err != nil {
		return err
	}
	if err := w.Phases(phases, runtime.GOMAXPROCS(0), func() func(int) ([]verify.Transfer, error) {
		row, transfers := rows(), []verify.Transfer(nil)
		return func(phase int) ([]verify.Transfer, error) {
			transfers = row(phase, transfers[:0])
			return transfers, ctx.Err()
		}
	}); err != nil {
		return err
	}
	return w.Done(t, unreachable)
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
	return walk(ctx, t, tables, plan.Phases(), func() func(int, []verify.Transfer) []verify.Transfer {
		return func(phase int, to []verify.Transfer) []verify.Transfer {
			for s := range index {
				if x := plan.At(s, phase); x.SendTo != phasetable.Idle {
					to = append(to, verify.Transfer{Src: index[s], Dst: index[x.SendTo], DLID: x.DLID})
				}
			}
			return to
		}
	}, Unreachable(t), nil)
}
