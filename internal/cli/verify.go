package cli

import (
	"errors"
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

// verdict is the output of forsctl verify --json.
type verdict struct {
	OK        bool   `json:"ok"`
	Phases    int    `json:"phases"`
	Servers   int    `json:"servers"`
	Transfers int    `json:"transfers"`
	Code      string `json:"code,omitempty"`
	Violation string `json:"violation,omitempty"`
}

func verifyCommand() *cobra.Command {
	var fabric command.Fabric
	var lfts, plan string
	cmd := &cobra.Command{
		Use:   "verify FILE --lfts FILE --phases FILE",
		Short: "Walk a plan through forwarding tables and name the first thing that is wrong",
		Long: `Verify checks that every LID in use is routed and no entry leads into a dead
port or a loop, that the tables cannot deadlock, that every ordered pair of
servers occurs exactly once, and that no link carries two transfers of one
phase. It shares no code with the planner.

Exit code 0: nothing is wrong; 1: something is; 2: the input cannot be used.`,
		Example: `  forsctl verify ibnetdiscover.txt --lfts plan/lfts.dump --phases plan/phases.csv
  dump_fts -n | forsctl verify --topology ibnetdiscover.txt --lfts /dev/stdin --phases plan/phases.bin`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := fabric.Tree()
			if err != nil {
				return err
			}
			tables, err := command.ReadTables(lfts)
			if err != nil {
				return err
			}
			list, err := readPhases("phases", plan)
			if err != nil {
				return err
			}
			if tree.Pods != nil {
				return verifyPods(cmd, tree.Pods, tables, list)
			}
			rows, err := list.bind(tree)
			if err == nil {
				err = check(func() error { return verify.Tables(tree, tables) },
					func() error { return verify.Plan(tree, tables, rows, planner.Unreachable(tree, rows)) })
			}
			return passOn(cmd, verdict{Phases: rows.Phases, Servers: len(tree.Servers), Transfers: len(list.rows)}, err)
		},
	}
	registerFabric(&fabric, cmd)
	fabric.TakesFile(cmd)
	cmd.Flags().StringVar(&lfts, "lfts", "", "forwarding tables: lfts.dump, opensm-lfts.dump, or the output of dump_fts")
	cmd.Flags().StringVar(&plan, "phases", "", "the plan: phases.csv or phases.bin")
	return cmd
}

// check runs the checks in order. The first failure is a violation.
func check(checks ...func() error) error {
	for _, c := range checks {
		if err := c(); err != nil {
			return command.Violated{Err: err}
		}
	}
	return nil
}

// passOn prints the verdict, and returns a violation for the exit code.
func passOn(cmd *cobra.Command, v verdict, err error) error {
	var bad command.Violated
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	v.OK = err == nil
	if err != nil {
		v.Violation = err.Error()
		var named *verify.Violation
		if errors.As(err, &named) {
			v.Code = named.Code
		}
	}
	if command.WantsJSON(cmd) {
		if perr := command.PrintJSON(cmd, v); perr != nil {
			return perr
		}
	} else if v.OK {
		fmt.Fprintf(cmd.OutOrStdout(), "ok: %d transfers of %d servers in %d phases, no link carries two in one phase, every LID is routed, no deadlock\n", v.Transfers, v.Servers, v.Phases)
	}
	return err
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
