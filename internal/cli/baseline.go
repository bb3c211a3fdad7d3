package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/topology"
)

func baselineCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "baseline",
		Short: "Show or accept what the fabric is meant to be",
		Long: `The baseline is the fabric as it is meant to be: spines and their lane numbers,
leaves, cables, and the index of every host port on its leaf. It survives
failures, so that the loss of one cable or host moves nothing else.`,
	}, "say what to do with the baseline: show or accept", &cobra.Command{
		Use:     "show",
		Short:   "Print the baseline, in the form that --baseline reads",
		Example: "  forsctl baseline show >baseline.json\n  forsctl plan --topology now.txt --baseline baseline.json --out plan",
		RunE: func(cmd *cobra.Command, _ []string) error {
			base := &topology.Baseline{}
			if err := ask(cmd, http.MethodGet, "/v1/baseline", base); err != nil {
				return err
			}
			if command.WantsJSON(cmd) {
				return command.PrintJSON(cmd, map[string]any{"baseline": json.RawMessage(base.Encode())})
			}
			_, err := cmd.OutOrStdout().Write(base.Encode())
			return err
		},
	}, acceptCommand())
}

func acceptCommand() *cobra.Command {
	var dry, yes bool
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Take the fabric as it is now for what it is meant to be",
		Long: `Accept makes the fabric as it is now the baseline, with lanes and indices numbered
afresh: new spines and surplus cables get lanes, and what is gone is forgotten.
Any entry of the tables may move, so a new plan and new tables follow.

It shows what changes first, and on a terminal asks before it goes on. forsd keeps a
copy of the old baseline, in baselines below its state directory.`,
		Example: "  forsctl baseline accept --dry-run\n  forsctl baseline accept",
		RunE: func(cmd *cobra.Command, _ []string) error {
			preview := &api.Preview{}
			if err := ask(cmd, http.MethodGet, "/v1/baseline/preview", preview); err != nil {
				return err
			}
			if dry || !command.WantsJSON(cmd) {
				if err := command.Show(cmd, preview, func(w io.Writer) { printPreview(w, preview) }); err != nil || dry {
					return err
				}
			}
			if err := command.Confirm(cmd, "accept this?", yes); err != nil {
				return err
			}
			change := &api.Change{}
			if err := ask(cmd, http.MethodPost, "/v1/baseline/accept", change); err != nil {
				return err
			}
			return command.Show(cmd, change, func(w io.Writer) { fmt.Fprintln(w, change.Text) })
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask on a terminal")
	return cmd
}

func printPreview(out io.Writer, p *api.Preview) {
	for _, d := range p.Deviations {
		fmt.Fprintf(out, "now: %s\n", d)
	}
	for _, c := range p.Changes {
		fmt.Fprintf(out, "then: %s\n", c)
	}
	if len(p.Changes) == 0 {
		fmt.Fprintln(out, "then: no lane, no index and no host changes its place; ports of cables may")
	}
}
