package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/planner"
)

func explainCommand() *cobra.Command {
	var fabric command.Fabric
	var lfts, phases string
	cmd := &cobra.Command{
		Use:   "explain SRC DST",
		Short: "Show when and over which ports one server sends to another",
		Long: `Explain shows the phase, the lane, the spine, the destination LID and every hop,
with port numbers, of the transfer from server SRC to server DST. A server is
named by host name, port GUID (0x…) or LID.

Without files it asks a running forsd for the plan in force, walked through the
tables that were read back from the switches. With --topology, --lfts and
--phases it works offline.`,
		Example: `  forsctl explain node012 node345
  forsctl explain Hca0000 0x1002cf --topology ibnetdiscover.txt --lfts plan/lfts.dump --phases plan/phases.bin`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: atMost(2, hostNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			e := &planner.Explanation{}
			var err error
			if fabric.Topology != "" || lfts != "" || phases != "" {
				e, err = explained(&fabric, lfts, phases, args[0], args[1])
			} else {
				q := url.Values{"src": args[:1], "dst": args[1:]}
				err = ask(cmd, http.MethodGet, "/v1/explain?"+q.Encode(), e)
			}
			if err != nil {
				return err
			}
			return command.Show(cmd, e, func(w io.Writer) { printExplanation(w, e) })
		},
	}
	registerFabric(&fabric, cmd)
	cmd.Flags().StringVar(&lfts, "lfts", "", "forwarding tables: lfts.dump, opensm-lfts.dump, or the output of dump_fts")
	cmd.Flags().StringVar(&phases, "phases", "", "the plan: phases.csv or phases.bin")
	return cmd
}

// explained follows a transfer of a plan that is read from files.
func explained(f *command.Fabric, lfts, plan, src, dst string) (*planner.Explanation, error) {
	tree, err := f.Tree()
	if err != nil {
		return nil, err
	}
	tables, err := command.ReadTables(lfts)
	if err != nil {
		return nil, err
	}
	list, err := readPhases("phases", plan)
	if err != nil {
		return nil, err
	}
	table, err := list.table(tree)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", plan, f.Topology, err)
	}
	s, err := table.Find(src)
	if err != nil {
		return nil, err
	}
	d, err := table.Find(dst)
	if err != nil {
		return nil, err
	}
	e, err := planner.Explain(tree, tables, table, s, d)
	if err != nil {
		return nil, command.Violated{Err: err}
	}
	return e, nil
}

func printExplanation(w io.Writer, e *planner.Explanation) {
	fmt.Fprintf(w, "from\t%s\tport GUID %s, LID %d, on %s\n", e.Src.Name, e.Src.GUID, e.Src.LID, e.Src.Leaf)
	fmt.Fprintf(w, "to\t%s\tport GUID %s, LID %d, on %s\n", e.Dst.Name, e.Dst.GUID, e.Dst.LID, e.Dst.Leaf)
	if e.Epoch > 0 {
		fmt.Fprintf(w, "epoch\t%d\n", e.Epoch)
	}
	fmt.Fprintf(w, "phase\t%d\n", e.Phase)
	if e.Lane >= 0 {
		fmt.Fprintf(w, "lane\t%d, spine %s\n", e.Lane, e.Spine)
	} else {
		fmt.Fprintf(w, "lane\tnone, within the leaf\n")
	}
	fmt.Fprintf(w, "DLID\t%d\n", e.DLID)
	for i, h := range e.Hops {
		fmt.Fprintf(w, "hop %d\t%s\tport %d → port %d, to %s\n", i+1, h.Switch, h.InPort, h.OutPort, h.To)
	}
}
