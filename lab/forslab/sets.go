package forslab

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/papers"
)

func setsCommand() *cobra.Command {
	oneIn, only := 1, ""
	cmd := &cobra.Command{
		Use:   "sets",
		Short: "Measure the planners on fixed sets of cases",
		Long: `Sets plans fixed sets of fat trees, of demands by method best and of exchanges of GPUs, and
prints how many times the lower bound the plans are, and the processor time of a case. Run
it before and after a heuristic is changed or left out. All plans are verified or replayed.`,
		Example: `  forslab sets --only trees
  forslab sets --only thinned --one-in 6`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if oneIn < 1 || oneIn > mostRandom {
				return fmt.Errorf("--one-in %d: want 1 to %d", oneIn, mostRandom)
			}
			var sets []papers.Set
			for _, s := range papers.Sets() {
				if strings.Contains(s.Name, only) {
					sets = append(sets, s)
				}
			}
			if len(sets) == 0 {
				return fmt.Errorf("--only %s: no set has that in its name", only)
			}
			var rows []papers.SetRow
			bar := command.Progress(cmd, len(sets))
			defer func() { _ = bar.Finish() }()
			for i := range sets {
				row, err := sets[i].Measure(cmd.Context(), oneIn)
				if err != nil {
					return err
				}
				rows = append(rows, row)
				_ = bar.Add(1)
			}
			return command.Show(cmd, map[string]any{"rows": rows}, func(w io.Writer) {
				fmt.Fprintln(w, "set\tcases\ttimes the bound\tat most\tCPU in ms")
				for _, r := range rows {
					fmt.Fprintf(w, "%s\t%d\t%.5f\t%.4f\t%.0f\n", r.Set, len(r.Times), r.Mean, r.Most, r.CPUMS)
				}
			})
		},
	}
	cmd.Flags().IntVar(&oneIn, "one-in", oneIn, "plan one case in so many")
	cmd.Flags().StringVar(&only, "only", only, "only sets with this in their names")
	return cmd
}
