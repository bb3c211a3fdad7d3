package podplan

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// MayPlan returns an error if too few servers have a path to each other.
func (s Settings) MayPlan(t *topology.PodTree) error {
	return planner.Settings{MaxUnreachable: s.MaxUnreachable}.MayLeaveOut(len(pods.Unreachable(Shape(t))), len(t.Servers)*(len(t.Servers)-1))
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
