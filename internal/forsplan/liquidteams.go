package forsplan

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/liquid"
)

func liquidTeamsCommand() *cobra.Command {
	var in liquidInput
	var limit int64
	cmd := &cobra.Command{
		Use:   "teams --network FILE | --topology FILE --lfts FILE",
		Short: "Count the teams of an exchange, and what else a step can be",
		Long: `Teams counts the sets of transfers that share no link: all of them, those that are
full (no transfer can be added), the teams (every bottleneck is used), the full teams,
and the skeletons (teams of the transfers that use a bottleneck). Only small exchanges
have few enough to count.`,
		Example: `  forsplan liquid teams --network fig1.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return fmt.Errorf("--limit %d: want 1 or more", limit)
			}
			t, err := in.read(cmd)
			if err != nil {
				return err
			}
			done := command.Working(cmd, "counting")
			n, err := liquid.Count(cmd.Context(), t.traffic, limit)
			done()
			if err != nil {
				return err
			}
			return command.Show(cmd, struct {
				Version   int `json:"version"`
				Transfers int `json:"transfers"`
				Duration  int `json:"duration"`
				liquid.Counts
			}{1, t.traffic.Len(), t.traffic.Duration(), n}, func(w io.Writer) {
				fmt.Fprintf(w, "exchange\t%d transfers, Λ = %d\n", t.traffic.Len(), t.traffic.Duration())
				fmt.Fprintf(w, "simultaneous sets\t%d, of them %d full\n", n.Simultaneous, n.Full)
				fmt.Fprintf(w, "teams\t%d, of them %d full\n", n.Teams, n.FullTeams)
				fmt.Fprintf(w, "skeletons\t%d\n", n.Skeletons)
			})
		},
	}
	in.register(cmd)
	cmd.Flags().Int64Var(&limit, "limit", 10_000_000, "give up beyond so many sets of a kind")
	return cmd
}
