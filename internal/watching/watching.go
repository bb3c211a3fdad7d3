// Package watching is what forsd does beside a subnet manager that it does not touch: it
// plans for the fabric that it sees, and compares the plan with what the manager's own
// tables make of an exchange.
package watching

import (
	"context"
	"fmt"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// Look plans for a fabric, and counts what a linear shift meets on the tables that its
// switches hold, which read gives. What cannot be done is said in the answer.
func Look(ctx context.Context, tree *topology.FatTree, settings planner.Settings, read func(context.Context) (*lft.Tables, error)) *api.Watched {
	w := &api.Watched{At: time.Now()}
	result, err := planner.Make(ctx, tree, settings)
	if err != nil {
		w.Error = err.Error()
		return w
	}
	r := result.Report()
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
