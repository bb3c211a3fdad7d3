package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"forsd/sim"
	"forsd/topology"
)

// linearShift is the schedule that needs no file.
const linearShift = "linear-shift"

func simulateCommand() *cobra.Command {
	var fabric fabricFlags
	var lfts, schedule string
	cmd := &cobra.Command{
		Use:   "simulate --topology FILE --lfts FILE --schedule linear-shift|FILE",
		Short: "Count the transfers on every link, phase by phase, of any schedule over any tables",
		Long: `Simulate walks every transfer of a schedule through forwarding tables and counts
the transfers on every link. A phase takes as long as its busiest link has
transfers; the relative throughput is (P−1) over the sum of these, 1 for an
exchange that takes no longer than the servers' own cables dictate.

The tables may be forsd's or OpenSM's own (opensm-lfts.dump, or the output of
dump_fts). The schedule is linear-shift, in which every server of a fat tree
sends to the one p places on in phase p, on base LIDs; or a phases.csv or
phases.bin, which can be simulated on a fabric of any shape.`,
		Example: `  dump_fts >tables.dump
  forsctl simulate --topology ibnetdiscover.txt --lfts tables.dump --schedule linear-shift
  forsctl simulate --topology ibnetdiscover.txt --lfts plan/lfts.dump --schedule plan/phases.bin --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, rows, err := fabric.scheduled(schedule)
			if err != nil {
				return err
			}
			tables, err := readTables(lfts)
			if err != nil {
				return err
			}
			result, err := sim.Run(f, tables, rows)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", schedule, fabric.topology, err)
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, result)
			}
			return printSimulation(cmd, result)
		},
	}
	fabric.register(cmd)
	cmd.Flags().StringVar(&lfts, "lfts", "", "forwarding tables: lfts.dump, opensm-lfts.dump, or the output of dump_fts")
	cmd.Flags().StringVar(&schedule, "schedule", "", "linear-shift, or a phases.csv or phases.bin")
	return cmd
}

// scheduled reads the fabric and the schedule. A schedule from a file names its
// servers, so the fabric need not be a fat tree.
func (f *fabricFlags) scheduled(schedule string) (*topology.Fabric, []sim.Row, error) {
	switch schedule {
	case "":
		return nil, nil, fmt.Errorf("--schedule is missing: want linear-shift, or a phases.csv or phases.bin")
	case linearShift:
		tree, err := f.load()
		if err != nil {
			return nil, nil, err
		}
		return tree.Fabric, sim.LinearShift(tree), nil
	}
	fabric, err := f.read()
	if err != nil {
		return nil, nil, err
	}
	if err := f.damage(fabric); err != nil {
		return nil, nil, err
	}
	p, err := readPhases("schedule", schedule)
	if err != nil {
		return nil, nil, err
	}
	rows := make([]sim.Row, len(p.rows))
	for i, r := range p.rows {
		rows[i] = sim.Row{Phase: int32(r.Phase), DLID: r.DLID, Src: r.Src, Dst: r.Dst}
	}
	return fabric, rows, nil
}

// printSimulation shows people how many phases have which largest load.
func printSimulation(cmd *cobra.Command, r *sim.Result) error {
	share := make([]int, r.Max+1)
	for _, m := range r.PerPhaseMax {
		share[m]++
	}
	var loads []string
	for m := 1; m <= r.Max; m++ {
		if share[m] > 0 {
			loads = append(loads, fmt.Sprintf("%d: %s", m, plural(share[m], "phase", "phases")))
		}
	}
	w := newTable(cmd.OutOrStdout())
	fmt.Fprintf(w, "exchange\t%d transfers of %d servers in %d phases\n", r.Transfers, r.Servers, r.Phases-share[0])
	fmt.Fprintf(w, "largest link load\t%s\n", strings.Join(loads, ", "))
	fmt.Fprintf(w, "mean, max\t%.3f, %d\n", r.Mean, r.Max)
	fmt.Fprintf(w, "conflicts\tin %.1f %% of the phases\n", 100*r.ConflictShare)
	fmt.Fprintf(w, "relative throughput\t%.3f\n", r.RelativeThroughput)
	if b := r.Busiest; b != nil && b.Transfers > 1 {
		fmt.Fprintf(w, "busiest\t%s, %d transfers in phase %d\n", b.Cable, b.Transfers, b.Phase)
	}
	if r.Lost > 0 {
		fmt.Fprintf(w, "lost\t%s; the first: %s\n", plural(r.Lost, "transfer", "transfers"), r.FirstLost)
	}
	return w.Flush()
}
