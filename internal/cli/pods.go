package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
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

// planPods plans a fat tree of three levels, writes the files and prints the report.
func (f *planFlags) planPods(cmd *cobra.Command, tree *topology.PodTree) error {
	for _, flag := range []string{"engine", "lids"} {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s is for fat trees of two levels: leave it out", flag)
		}
	}
	done := command.Working(cmd, "planning")
	r, err := f.makePods(cmd.Context(), tree, podplan.Settings{MaxUnreachable: &f.mayLeaveOut})
	done()
	if err != nil {
		return err
	}
	if err := f.write(r.WriteDir, tree.Baseline.Encode()); err != nil {
		return err
	}
	told := planTold{r.Times.Tables.Seconds(), r.Times.Verify.Seconds(), slices.Concat(r.Warnings, r.Notes), r.Tree.Findings}
	if r.Base != nil {
		told.Details = append(told.Details, r.Base.Warnings...)
	}
	return command.Show(cmd, struct {
		podplan.Report
		planTold
	}{r.Report(), told}, func(w io.Writer) { f.printPods(w, r, &told) })
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

// printPods prints the report of a plan on three levels, the warnings and the findings as text.
func (f *planFlags) printPods(w io.Writer, r *podplan.Result, told *planTold) {
	report := r.Report()
	fmt.Fprintf(w, "phases\t%d (bound %d by %s, gap %d)\n", report.Phases, report.LowerBound, report.Certificate, report.Gap)
	if b := report.Base; b != nil {
		fmt.Fprintf(w, "base LIDs\t%d phases (bound %d by %s, gap %d), %d entries moved\n", b.Phases, b.LowerBound, b.Certificate, b.Gap, b.Moved)
		fmt.Fprintf(w, "all at once\t%s\n", loadText(report.Load))
	}
	fmt.Fprintf(w, "engine\t%s, in blocks of %s\n", report.Engine, command.Plural(report.Group, "phase", "phases"))
	if c := report.Changes; c != nil {
		fmt.Fprintf(w, "changes\t%s; %d of %d blocks of tables\n", changedPairs(*report.PairsChanged, report.Servers), c.BlocksChanged, c.TableBlocks)
	}
	fmt.Fprintf(w, "servers\t%d on %d leaves in %d pods, %d planes, %d lanes, LMC %d\n", report.Servers, report.Leaves, report.Pods, report.Planes, report.Lanes, report.LMC)
	fmt.Fprintf(w, "LIDs\t%d a server\n", report.LIDs)
	fmt.Fprintf(w, "failures\t%d pairs unreachable%s\n", report.UnreachablePairs, notCovered(report.UncoveredPairs))
	fmt.Fprintf(w, "time\tplan %s, tables %s, verification %s\n", command.Took(r.Times.Plan), command.Took(r.Times.Tables), command.Took(r.Times.Verify))
	fmt.Fprintf(w, "written\t%s\n", cmp.Or(f.out, writesNothing))
	told.print(w)
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
