package forslab

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/figures"
)

func drawCommand() *cobra.Command {
	var out string
	var only bool
	cmd := &cobra.Command{
		Use:   "draw --out DIR [SET…]",
		Short: "Draw the figures of the papers from new measurements",
		Long: `Draw measures what the figures of the documentation show and draws them: SVG and PNG,
with the numbers beside them as CSV. The same numbers give the same bytes.

The sets: ` + setsText() + `. Without a name it draws all; those of the FORS paper
need OpenSM and its simulated fabric.`,
		Example: `  forslab draw --out figures
  forslab draw --out figures gpu-frames gpu-stages
  forslab draw --out docs/figures --numbers-there liquid`,
		RunE: func(cmd *cobra.Command, sets []string) error { return draw(cmd, out, only, sets) },
	}
	cmd.Flags().StringVar(&out, "out", "", "directory of the pictures and of their numbers, created if necessary")
	cmd.Flags().BoolVar(&only, "numbers-there", false, "measure nothing: draw the numbers that are in the directory")
	return cmd
}

// setsText lists the sets of figures, a few a line.
func setsText() string {
	words, line := strings.Builder{}, len("The sets: ")
	for i, name := range figures.Names() {
		if i > 0 {
			words.WriteString(",")
			if line += 2; line+len(name) > 84 {
				words.WriteString("\n")
				line = 0
			} else {
				words.WriteString(" ")
			}
		}
		words.WriteString(name)
		line += len(name)
	}
	return words.String()
}

// draw measures sets of figures, all if none is named, and draws them, with a progress
// bar on a terminal.
func draw(cmd *cobra.Command, out string, only bool, sets []string) error {
	if out == "" {
		return fmt.Errorf("--out is missing: name a directory for the figures")
	}
	if len(sets) == 0 {
		sets = figures.Names()
	}
	if only {
		if err := figures.Draw(out, sets...); err != nil {
			return err
		}
	} else {
		bar := command.Progress(cmd, 1)
		err := figures.Make(cmd.Context(), out, func(done, total int, what string) {
			bar.ChangeMax(total)
			bar.Describe(what)
			_ = bar.Set(done)
		}, sets...)
		_ = bar.Finish()
		if err != nil {
			return err
		}
	}
	return command.Show(cmd, map[string]any{"out": out, "sets": sets}, func(w io.Writer) {
		fmt.Fprintf(w, "%s has the figures of %s\n", out, strings.Join(sets, ", "))
	})
}
