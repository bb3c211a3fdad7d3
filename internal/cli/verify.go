package cli

import (
	"bytes"
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
	_, bad := errors.AsType[command.Violated](err)
	if err != nil && !bad {
		return err
	}
	v.OK = !bad
	if bad {
		v.Violation = err.Error()
		if named, ok := errors.AsType[*verify.Violation](err); ok {
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

// phases is a plan as read from its file.
type phases struct {
	epoch uint64 // 0 if the file does not have it
	rows  []phasetable.Row
}

// readPhases reads a plan from phases.csv or phases.bin, and detects the format from the
// content.
func readPhases(flag, path string) (*phases, error) {
	data, err := command.ReadFlag(flag, path, "a phases.csv or phases.bin")
	if err != nil {
		return nil, err
	}
	if phasetable.Is(data) {
		view, err := phasetable.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return &phases{view.Epoch(), rowsOf(view)}, nil
	}
	if first, _, _ := bytes.Cut(data, []byte{'\n'}); string(bytes.TrimSuffix(first, []byte{'\r'})) != phasetable.CSVHeader {
		return nil, fmt.Errorf("%s is neither a phases.csv (its first line is not %q) nor a phases.bin", path, phasetable.CSVHeader)
	}
	rows, err := phasetable.ReadCSV(bytes.NewReader(data), path)
	if err != nil {
		return nil, err
	}
	return &phases{rows: rows}, nil
}

// rowsOf lists the transfers of a table by phase and server number.
func rowsOf(view *phasetable.View) []phasetable.Row {
	servers := view.Servers()
	guids, lines := make([]ib.GUID, servers), make([]phasetable.ServerRow, servers)
	for s := range servers {
		guids[s], lines[s] = view.Server(s).GUID, view.Row(s)
	}
	rows := make([]phasetable.Row, 0, servers*view.Phases())
	for p := range view.Phases() {
		for s := range servers {
			if x := lines[s].At(p); x.SendTo >= 0 {
				rows = append(rows, phasetable.Row{Phase: p, Src: guids[s], Dst: guids[x.SendTo], Lane: x.Lane, DLID: x.DLID})
			}
		}
	}
	return rows
}

// bind converts rows by GUID to rows by server of the tree. A server that is not in the tree is
// a violation: the plan belongs to another fabric.
func (p *phases) bind(t *topology.FatTree) (verify.Rows, error) {
	index := make(map[ib.GUID]int, len(t.Servers))
	for i, h := range t.Servers {
		index[t.Hosts[h].GUID] = i
	}
	last := -1
	for _, r := range p.rows {
		last = max(last, r.Phase)
	}
	if last >= min(maxPhases, 2*len(p.rows)+1) {
		return verify.Rows{}, fmt.Errorf("phase %d is beyond any plan of %d servers", last, len(t.Servers))
	}
	rows := verify.NewRows(len(t.Servers), last+1)
	for _, r := range p.rows {
		src, ok := index[r.Src]
		if !ok {
			return rows, command.Violated{Err: fmt.Errorf("phase %d: source %s is not a server of the fabric", r.Phase, r.Src)}
		}
		dst, ok := index[r.Dst]
		if !ok {
			return rows, command.Violated{Err: fmt.Errorf("phase %d: destination %s is not a server of the fabric", r.Phase, r.Dst)}
		}
		if err := rows.Put(t, r.Phase, src, dst, int16(r.Lane), r.DLID); err != nil {
			return rows, command.Violated{Err: err}
		}
	}
	return rows, nil
}

// maxPhases bounds the memory that a phase number from a file can use. The number of transfers
// is a bound too, because no plan has more empty phases than others.
const maxPhases = 1 << 18

// table returns the plan bound to a tree, in the form that ranks use.
func (p *phases) table(t *topology.FatTree) (*phasetable.View, error) {
	rows, err := p.bind(t)
	if err != nil {
		return nil, err
	}
	view, err := phasetable.New(&phasetable.Table{Epoch: p.epoch, Phases: rows.Phases, Lanes: t.Lanes, Servers: planner.Directory(t.Hosts, t.Servers), To: rows.To, Lane: rows.Lane, DLID: rows.DLID})
	if err != nil {
		return nil, command.Violated{Err: err}
	}
	return view, nil
}
