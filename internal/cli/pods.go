package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// planPods plans a fat tree of three levels.
func (f *planFlags) planPods(cmd *cobra.Command, tree *topology.PodTree) (*planMade, error) {
	for _, flag := range []string{"engine", "lids"} {
		if cmd.Flags().Changed(flag) {
			return nil, fmt.Errorf("--%s is for fat trees of two levels: leave it out", flag)
		}
	}
	done := command.Working(cmd, "planning")
	r, err := f.makePods(cmd.Context(), tree, podplan.Settings{MaxUnreachable: &f.mayLeaveOut})
	done()
	if err != nil {
		return nil, err
	}
	out := &planMade{r.Report(), r.Times, planTold{Details: slices.Concat(r.Warnings, r.Notes), Findings: r.Tree.Findings}, r.WriteDir}
	if r.Base != nil {
		out.told.Details = append(out.told.Details, r.Base.Warnings...)
	}
	return out, nil
}

// makePods makes a plan, starting from an earlier plan if --from names its directory.
func (f *planFlags) makePods(ctx context.Context, tree *topology.PodTree, s podplan.Settings) (*podplan.Result, error) {
	if f.from == "" {
		return podplan.Make(ctx, tree, s)
	}
	plan, err := f.readFrom()
	if err != nil {
		return nil, err
	}
	c, err := readOld(f.nextTo(planner.TablesFile), tablesKind)
	if err != nil {
		return nil, fmt.Errorf("%w: on three levels tables are compared too, which forsctl plan has written next to it", err)
	}
	return podplan.MakeFrom(ctx, tree, s, plan, c.tables)
}

// verifyPods checks a plan of a fat tree of three levels on its tables.
func verifyPods(cmd *cobra.Command, tree *topology.PodTree, tables *lft.Tables, list *phases) error {
	rows := slices.Clone(list.rows)
	slices.SortStableFunc(rows, func(a, b phasetable.Row) int { return a.Phase - b.Phase })
	index := make(map[ib.GUID]int32, len(tree.Servers))
	servers := make([]topology.EndPort, len(tree.Servers))
	for i, h := range tree.Servers {
		index[tree.Hosts[h].GUID], servers[i] = int32(i), tree.Hosts[h].EndPort
	}
	last := 0
	err := check(func() error { return verify.TablesByRank(tree.Fabric, tree.Rank, tables) }, func() error {
		w, err := verify.NewWalk(tree.Fabric, tables, servers)
		if err != nil {
			return err
		}
		var transfers []verify.Transfer
		for i := 0; i < len(rows); {
			transfers = transfers[:0]
			for last = rows[i].Phase; i < len(rows) && rows[i].Phase == last; i++ {
				src, ok := index[rows[i].Src]
				dst, also := index[rows[i].Dst]
				if !ok || !also {
					return fmt.Errorf("phase %d: %s or %s is not a server of the fabric", last, rows[i].Src, rows[i].Dst)
				}
				transfers = append(transfers, verify.Transfer{Src: src, Dst: dst, DLID: rows[i].DLID})
			}
			if err := w.Phase(transfers); err != nil {
				return err
			}
		}
		return w.Done(tree, podplan.Unreachable(tree))
	})
	return passOn(cmd, verdict{Phases: last + 1, Servers: len(tree.Servers), Transfers: len(rows)}, err)
}
