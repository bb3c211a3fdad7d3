package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/tomography"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

func measureCommand() *cobra.Command {
	var fabric command.Fabric
	var logs logs
	cmd := &cobra.Command{
		Use:   "measure [FILE --lfts FILE --log DIR | JOB]",
		Short: "Find slow cables, adapters and switches from the times of an exchange",
		Long: `Measure reads what the ranks of an exchange by forsd's plan have logged (FORS_LOG of
libforsmpi, with FORS_WAY=plan), and names the links, cables and switches whose transfers
took longer than others, by how much, and what the measurements do not tell apart from them.
Without FILE it shows what forsd has found by the times that the ranks of exchanges have given
it (FORS_MEASURE of libforsmpi): of the last exchange of the fabric and of each job, or of one
JOB, by its number.

In a phase of the plan a link carries one transfer, so that the time of a transfer is that of
the slowest link on its way. A host, its adapter and its cable are one part, as are a cable
and its ports.

The clocks of the hosts need not agree: their offsets are found from both directions of each
pair. A host that is slow in one direction is then seen as slow by half of that in both;
--one-clock takes the times as they are, for clocks that agree within a microsecond.

With --further it writes phases that tell apart what was not: exchange by them (FORSD_TABLE
names the file), and measure again with both logs.

Without a fault, one exchange in a thousand names a part.

Exit code 0: nothing is slow; 1: something is; 2: the input cannot be used.`,
		Example: `  mpirun -x LD_PRELOAD=libforsmpi.so -x FORS_WAY=plan -x FORS_LOG=/shared/log ./alltoall
  forsctl measure ibnetdiscover.txt --lfts tables.dump --log /shared/log
  forsctl measure net.txt --lfts tables.dump --log log1 --further more.bin
  forsctl measure net.txt --lfts tables.dump --log log1 --log log2
  forsctl measure`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var m *api.Measured
			var err error
			switch {
			case len(logs.dirs) > 0:
				m, err = logs.measure(cmd, &fabric)
			case logs.lfts != "" || logs.further != "" || logs.anyLID || logs.oneClock:
				err = fmt.Errorf("--log is missing: name the directory that FORS_LOG named")
			default:
				return measuredByForsd(cmd, fabric.Topology)
			}
			if err != nil {
				return err
			}
			return showMeasured(cmd, &api.MeasuredList{Exchanges: []api.Measured{*m}})
		},
	}
	registerFabric(&fabric, cmd)
	fabric.TakesFile(cmd)
	cmd.Flags().StringVar(&logs.lfts, "lfts", "", "forwarding tables: lfts.dump, opensm-lfts.dump, or the output of dump_fts")
	cmd.Flags().StringArrayVar(&logs.dirs, "log", nil, "the directory that FORS_LOG named; again for further runs")
	cmd.Flags().StringVar(&logs.further, "further", "", "a phase table to write, of phases that tell apart what was not")
	cmd.Flags().BoolVar(&logs.anyLID, "any-lid", false, "programs can choose LIDs for these phases (FORS_LIDS=pinned)")
	cmd.Flags().BoolVar(&logs.oneClock, "one-clock", false, "the clocks of all hosts agree")
	_ = cmd.MarkFlagDirname("log")
	return cmd
}

// logs are what ranks have logged.
type logs struct {
	lfts, further    string
	dirs             []string
	oneClock, anyLID bool
}

// measure measures a fabric by logs, and writes phases for parts that they do not tell apart.
func (x *logs) measure(cmd *cobra.Command, fabric *command.Fabric) (*api.Measured, error) {
	if err := fabric.IgnoreUnlessGiven(); err != nil {
		return nil, err
	}
	if err := command.CheckOutputs(cmd, command.Output{Flag: "further", Path: x.further, What: "the phase table"}); err != nil {
		return nil, err
	}
	f, err := fabric.Read()
	if err != nil {
		return nil, err
	}
	tables, err := command.ReadTablesOf(cmd, f, fabric.Topology, x.lfts)
	if err != nil {
		return nil, err
	}
	m, err := measureLogs(f, tables, x.oneClock, x.dirs...)
	if err != nil || x.further == "" {
		return m, err
	}
	further := tomography.Of(f).Further(tables, m, x.anyLID)
	if further == nil {
		return m, nil
	}
	data, err := phasetable.Encode(further.Table)
	if err == nil && further.Table.Phases > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s; run %s by it, and measure both logs together\n", x.further,
			command.Plural(further.Table.Phases, "phase", "phases"), command.Plural(further.Exchanges, "exchange", "exchanges"))
		err = command.WriteOut(cmd, x.further, data)
	}
	for _, name := range further.Alike {
		fmt.Fprintf(cmd.ErrOrStderr(), "no transfer tells %s apart\n", name)
	}
	return m, err
}

// measureLogs measures a fabric by the logs in directories, on the tables of their time.
func measureLogs(f *topology.Fabric, tables *lft.Tables, oneClock bool, dirs ...string) (*api.Measured, error) {
	sent, err := tomography.ReadLogs(dirs...)
	if err != nil {
		return nil, err
	}
	m, err := tomography.Measure(f, tables, sent, oneClock)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(dirs, ", "), err)
	}
	return m, nil
}

// readMeasured reads measured exchanges from a file of forsctl measure --json, or measures by the
// logs in a directory.
func readMeasured(f *topology.Fabric, tables *lft.Tables, path string) ([]api.Measured, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		if tables == nil {
			return nil, fmt.Errorf("--measured %s has logs: --lfts must name the tables of their time", path)
		}
		m, err := measureLogs(f, tables, false, path)
		if err != nil {
			return nil, err
		}
		return []api.Measured{*m}, nil
	}
	text, err := command.ReadPath(path, command.MaxText)
	if err != nil {
		return nil, err
	}
	var list struct {
		Schema string `json:"schema"`
		api.MeasuredList
	}
	if err := json.Unmarshal(text, &list); err != nil || list.Schema != "forsctl/measure" {
		return nil, fmt.Errorf("%s is not what forsctl measure --json prints: %w", path, cmp.Or(err, errors.New("its schema is "+list.Schema)))
	}
	return list.Exchanges, nil
}

// measuredByForsd shows what forsd has found by the exchanges of the fabric and of jobs, or of
// one job.
func measuredByForsd(cmd *cobra.Command, job string) error {
	return with(cmd, func(ctx context.Context, c *api.Client) error {
		list, err := c.Measured(ctx)
		if err != nil {
			return err
		}
		if job != "" {
			list.Exchanges = slices.DeleteFunc(list.Exchanges, func(m api.Measured) bool { return fmt.Sprint(m.Job) != job })
		}
		if len(list.Exchanges) == 0 {
			return fmt.Errorf("no exchange was measured: run a program with FORS_MEASURE=SECONDS, or measure its logs with FILE, --lfts and --log")
		}
		return showMeasured(cmd, list)
	})
}

// showMeasured shows what exchanges tell. A slow part is a violation.
func showMeasured(cmd *cobra.Command, list *api.MeasuredList) error {
	slow := 0
	err := command.Show(cmd, list, func(w io.Writer) {
		for i := range list.Exchanges {
			printSlow(w, &list.Exchanges[i])
		}
	})
	for i := range list.Exchanges {
		slow += len(list.Exchanges[i].Slow)
	}
	if err == nil && slow > 0 {
		err = command.Violated{Err: fmt.Errorf("%s slow", command.Plural(slow, "part is", "parts are"))}
	}
	return err
}

func printSlow(w io.Writer, r *api.Measured) {
	if !r.At.IsZero() {
		of := "the fabric"
		if r.Job != 0 {
			of = fmt.Sprint("job ", r.Job)
		}
		fmt.Fprintf(w, "exchange\tof %s, by epoch %d, at %s\n", of, r.Epoch, command.Clock(r.At))
	}
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
