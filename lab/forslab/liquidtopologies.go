package forslab

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/papers"
)

func liquidTopologiesCommand() *cobra.Command {
	within := 20 * time.Second
	cmd := &cobra.Command{
		Use:   "liquid-topologies",
		Short: "Schedule all-to-all on the topologies of papers about collectives",
		Long: `Liquid-topologies builds topologies on which others have scheduled collectives, chooses
static routes for an all-to-all exchange, and schedules it as forsplan liquid does. It
prints the bound over all routes that is known, Λ for the routes, and what the schedule
takes, in transfers over the slowest link; beside it Dsatur, round-robin, and what was
published. All schedules are verified.`,
		Example: `  forslab liquid-topologies`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if within <= 0 {
				return fmt.Errorf("--time %v: want a time, such as 20s", within)
			}
			list := papers.Directs()
			bar := command.Progress(cmd, len(list))
			defer func() { _ = bar.Finish() }()
			var rows []*papers.DirectRow
			for _, d := range list {
				row, err := d.Schedule(cmd.Context(), within)
				if err != nil {
					return err
				}
				rows = append(rows, row)
				_ = bar.Add(1)
			}
			return command.Show(cmd, map[string]any{"rows": rows}, func(w io.Writer) {
				fmt.Fprintln(w, "topology\tnodes\tlinks\ttransfers\tany routes\tΛ\ttime\tsteps\tby\tDsatur\tround-robin\tpublished")
				for _, r := range rows {
					by := string(r.Method)
					if r.Liquid {
						by += ", liquid"
					}
					published := r.Published
					if published == "" {
						published = "–"
					}
					fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.4g\t%.4g\t%.4g\t%d\t%s\t%.4g\t%.4g\t%s\n", r.Name, r.Nodes, r.Links, r.Transfers, r.AnyRoutes, r.Bound, r.Time, r.Steps, by, r.Dsatur, r.RoundRobin, published)
				}
			})
		},
	}
	cmd.Flags().DurationVar(&within, "time", within, "how long to look, for each topology and method")
	return cmd
}
