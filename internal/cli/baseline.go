package cli

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/topology"
)

func baselineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "baseline",
		Short: "Show or accept what the fabric is meant to be",
		Long: `The baseline is the fabric as it is meant to be: spines and their lane numbers,
leaves, cables, and the index of every host port on its leaf. It survives
failures, so that the loss of one cable or host moves nothing else.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("say what to do with the baseline: show or accept")
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "show",
		Short:   "Print the baseline, in the form that --baseline reads",
		Example: "  forsctl baseline show >baseline.json\n  forsctl plan --topology now.txt --baseline baseline.json --out plan",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			base := &topology.Baseline{}
			if err := ask(cmd, http.MethodGet, "/v1/baseline", nil, base); err != nil {
				return err
			}
			_, err := cmd.OutOrStdout().Write(base.Encode())
			return err
		},
	}, &cobra.Command{
		Use:   "accept",
		Short: "Take the fabric as it is now for what it is meant to be",
		Long: `Accept makes the fabric as it is now the baseline, with lanes and indices numbered
afresh: new spines and surplus cables get lanes, and what is gone is forgotten.
Any entry of the tables may move, so a new plan and new tables follow.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			change := &api.Change{}
			if err := ask(cmd, http.MethodPost, "/v1/baseline/accept", nil, change); err != nil {
				return err
			}
			if command.WantsJSON(cmd) {
				return command.PrintJSON(cmd, change)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), change.Text)
			return err
		},
	})
	return cmd
}
