package forslab

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/optical/photonic"
)

func photonicSequencesCommand() *cobra.Command {
	var gpus, switches []int
	var reconfig []float64
	message := float64(photonic.DefaultMessage) / 1e6
	cmd := &cobra.Command{
		Use:   "photonic-sequences",
		Short: "Compare all-to-all sequences of several papers with the planner",
		Long: `Photonic-sequences plans the same exchange by the sequences of several papers and by the planner,
and prints what they take in milliseconds: static, one topology; direct, a link of its
own for every pair; Bruck, by binary digits with topologies that are used again, as in
Bridge; ReTri, by balanced ternary digits, likewise; overlap, the steps of Bruck or of a
pairwise exchange on switches that change one by one while others carry data, as in
SWOT. The last three are modelled from what their papers say of them. All plans are
replayed.`,
		Example: `  forslab photonic-sequences
  forslab photonic-sequences --gpus 27,81 --switches 2 --reconfig-us 10,100,1000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(gpus) == 0 || len(switches) == 0 || len(reconfig) == 0 || !(message > 0) {
				return errors.New("want at least one of --gpus, --switches and --reconfig-us, and a --message-mb above 0")
			}
			var rows []*papers.SequenceRow
			bar := command.Progress(cmd, len(gpus)*len(switches)*len(reconfig))
			defer func() { _ = bar.Finish() }()
			for _, n := range gpus {
				for _, k := range switches {
					for _, r := range reconfig {
						request := photonic.Request{GPUs: n, Degree: k, ReconfigUS: r, MessageMB: message}
						in, _, err := request.Instance(0, nil)
						if err != nil {
							return err
						}
						row, err := papers.Sequences(cmd.Context(), in)
						if err != nil {
							return err
						}
						rows = append(rows, row)
						_ = bar.Add(1)
					}
				}
			}
			return command.Show(cmd, map[string]any{"message_mb": message, "rows": rows}, func(w io.Writer) { printSequences(w, rows) })
		},
	}
	cmd.Flags().IntSliceVar(&gpus, "gpus", []int{64, 81, 128}, "numbers of GPUs")
	cmd.Flags().IntSliceVar(&switches, "switches", []int{2, 4}, "numbers of switches")
	cmd.Flags().Float64SliceVar(&reconfig, "reconfig-us", []float64{10, 1000, 10_000, 100_000}, "values of R in microseconds")
	cmd.Flags().Float64Var(&message, "message-mb", message, "message from each GPU to each other, in 10⁶ bytes")
	return cmd
}

func printSequences(w io.Writer, rows []*papers.SequenceRow) {
	fmt.Fprintln(w, "GPUs\tswitches\tR\tstatic\tdirect\tBruck\tReTri\toverlap\tplanned\tthe least of the others\tplanned to it\tto the bound")
	for _, r := range rows {
		retri := "–"
		if r.ReTri > 0 {
			retri = ms(r.ReTri)
		}
		name, us := r.Least()
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.3f\t%.3f\n", r.GPUs, r.Switches, ms(r.ReconfigUS), ms(r.Static), ms(r.Direct), ms(r.Bruck), retri, ms(r.Split), ms(r.Planned),
			name, r.Planned/us, r.Planned/r.Bound)
	}
}

// ms prints microseconds as milliseconds.
func ms(us float64) string { return fmt.Sprintf("%.4g", us/1000) }
