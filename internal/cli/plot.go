package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/lab/figures"
)

// drawSets measures sets of figures and draws them into the directory of --out,
// with a bar on a terminal.
func drawSets(cmd *cobra.Command, out string, sets []string) error {
	if out == "" {
		return errors.New("--out is missing: name a directory for the figures")
	}
	bar := progress(cmd, 1)
	err := figures.Make(cmd.Context(), out, func(done, total int, what string) {
		bar.ChangeMax(total)
		bar.Describe(what)
		_ = bar.Set(done)
	}, sets...)
	_ = bar.Finish()
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, map[string]any{"version": 1, "out": out, "sets": sets})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has the figures of %s\n", out, strings.Join(sets, " and "))
	return err
}
