package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/fabricflags"
	"github.com/forsd/forsd/internal/tomography"
)

func measureCommand() *cobra.Command {
	var fabric fabricflags.Fabric
	var lfts, dir string
	var oneClock bool
	cmd := &cobra.Command{
		Use:   "measure FILE --lfts FILE --log DIR",
		Short: "Find slow cables, adapters and switches from the times of an exchange",
		Long: `Measure reads what the ranks of an exchange by forsd's plan have logged (FORS_LOG of
libforsmpi, with FORS_WAY=plan), and names the links, cables and switches whose transfers
took longer than others, by how much, and what the measurements do not tell apart from them.
In a phase of the plan a link carries one transfer, so that the time of a transfer is that of
the slowest link on its way. A host, its adapter and its cable are one part, as are a cable
and its ports.

The clocks of the hosts need not agree: their offsets are found from both directions of each
pair. A host that is slow in one direction is then seen as slow by half of that in both;
--one-clock takes the times as they are, for clocks that agree within a microsecond.

Without a fault, one exchange in a thousand names a part.

Exit code 0: nothing is slow; 1: something is; 2: the input cannot be used.`,
		Example: `  mpirun -x LD_PRELOAD=libforsmpi.so -x FORS_WAY=plan -x FORS_LOG=/shared/log ./alltoall
  forsctl measure ibnetdiscover.txt --lfts tables.dump --log /shared/log`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return fmt.Errorf("--log is missing: name the directory that FORS_LOG named")
			}
			if err := fabric.IgnoreUnlessGiven(); err != nil {
				return err
			}
			f, err := fabric.Read()
			if err != nil {
				return err
			}
			tables, err := fabricflags.ReadTablesOf(cmd, f, fabric.Topology, lfts)
			if err != nil {
				return err
			}
			sent, err := tomography.ReadLogs(dir)
			if err != nil {
				return err
			}
			links := tomography.Of(f)
			transfers, err := links.Transfers(tables, sent)
			if err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
			if !oneClock {
				tomography.Synchronise(transfers)
			}
			r, err := tomography.Find(transfers, links.Parts())
			if err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
			if err := command.Show(cmd, r, func(w io.Writer) { printSlow(w, r) }); err != nil {
				return err
			}
			if len(r.Slow) > 0 {
				return command.Violated{Err: fmt.Errorf("%s slow", command.Plural(len(r.Slow), "part is", "parts are"))}
			}
			return nil
		},
	}
	registerFabric(&fabric, cmd)
	fabric.TakesFile(cmd)
	cmd.Flags().StringVar(&lfts, "lfts", "", "forwarding tables: lfts.dump, opensm-lfts.dump, or the output of dump_fts")
	cmd.Flags().StringVar(&dir, "log", "", "the directory that FORS_LOG named")
	cmd.Flags().BoolVar(&oneClock, "one-clock", false, "the clocks of all hosts agree")
	_ = cmd.MarkFlagDirname("log")
	return cmd
}

func printSlow(w io.Writer, r *tomography.Result) {
	fmt.Fprintf(w, "transfers\t%d, their times differ by %.1f %%\n", r.Transfers, 100*r.Noise)
	if len(r.Slow) == 0 {
		fmt.Fprintln(w, "slow parts\tnone")
		return
	}
	fmt.Fprintln(w, "\nslow part\ttransfers take longer by\ttransfers\tscore\tor it is")
	for i := range r.Slow {
		s := &r.Slow[i]
		fmt.Fprintf(w, "%s\t%.1f %% ± %.1f %%\t%d\t%.1f\t%s\n", s.Name, 100*s.Slowdown, 100*s.Error, s.Transfers, s.Score, strings.Join(s.Or, "; "))
	}
}
