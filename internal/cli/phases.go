package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
)

func phasesCommand() *cobra.Command {
	var csv bool
	var path string
	cmd := &cobra.Command{
		Use:   "phases --out FILE",
		Short: "Fetch the phase table of the plan in force",
		Long: `Phases writes the table of the plan in force to a file, whole or not at all: the
binary table that ranks map into memory, or with --csv the same transfers as
text. FILE - is standard output.`,
		Example: "  forsctl phases --out phases.bin\n  forsctl phases --csv --out - | head",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return savePhases(cmd, path, func(ctx context.Context, c *api.Client) ([]byte, uint64, error) {
				if csv {
					return c.PhasesCSV(ctx)
				}
				view, err := c.Table(ctx)
				if err != nil {
					return nil, 0, err
				}
				return view.Bytes(), view.Epoch(), nil
			})
		},
	}
	cmd.Flags().BoolVar(&csv, "csv", false, "as text instead of the binary table")
	cmd.Flags().StringVar(&path, "out", "", "the file to write, - for standard output")
	return cmd
}

// savePhases fetches a table, writes it and prints a description of it.
func savePhases(cmd *cobra.Command, path string, fetch func(context.Context, *api.Client) ([]byte, uint64, error)) error {
	if err := command.CheckOutput(cmd, command.Output{Flag: "out", Path: path, What: "the phase table"}); err != nil {
		return err
	}
	return with(cmd, func(ctx context.Context, c *api.Client) error {
		data, epoch, err := fetch(ctx, c)
		if err != nil {
			return err
		}
		if err := command.WriteOut(cmd, path, data); err != nil || path == "-" {
			return err
		}
		return command.Show(cmd, struct {
			Epoch uint64 `json:"epoch"`
			File  string `json:"file"`
			Bytes int    `json:"bytes"`
		}{epoch, path, len(data)}, func(w io.Writer) { fmt.Fprintf(w, "%s: epoch %d, %d bytes\n", path, epoch, len(data)) })
	})
}
