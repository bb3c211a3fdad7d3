package plans

import (
	"context"
	"fmt"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/sim"
)

// Compare plans for a fabric, and counts the transfers of a linear shift that meet on the tables in
// its switches, which read returns. The answer contains any errors.
func Compare(ctx context.Context, v *view.View, settings planner.Settings, read func(context.Context) (*lft.Tables, error)) *api.Watched {
	w, tree := &api.Watched{At: time.Now()}, v.Tree
	r, err := outlook(ctx, v, settings)
	if err != nil {
		w.Error = err.Error()
		return w
	}
	w.Plan = &api.Outlook{Summary: r.Summary, Size: r.Size, Proof: r.Proof}
	tables, err := read(ctx)
	if err != nil {
		w.Error = fmt.Sprintf("OpenSM's tables cannot be read: %v", err)
		return w
	}
	shift, err := sim.Run(tree.Fabric, tables, sim.LinearShift(tree))
	if err != nil {
		w.Error = fmt.Sprintf("a linear shift on OpenSM's tables: %v", err)
		return w
	}
	empty := 0
	for _, most := range shift.PerPhaseMax {
		if most == 0 {
			empty++
		}
	}
	w.Shift = &api.Exchange{Phases: shift.Phases - empty, Mean: shift.Mean, Conflicts: shift.ConflictShare, Throughput: shift.RelativeThroughput, Lost: shift.Lost}
	return w
}

// outlook returns the report of a plan for the fabric.
func outlook(ctx context.Context, v *view.View, settings planner.Settings) (planner.Report, error) {
	r, err := v.Route(ctx, nil, settings)
	if err == nil {
		err = r.NoPlan
	}
	if err != nil {
		return planner.Report{}, err
	}
	if r.Plan != nil {
		return r.Plan.Report(), nil
	}
	result, err := planner.Make(ctx, v.Tree, settings)
	if err != nil {
		return planner.Report{}, err
	}
	return result.Report(), nil
}
