package matrix

import (
	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
)

// ReadInput reads a matrix from a file, or from standard input if path is -. It stops waiting
// for standard input when the program is interrupted.
func ReadInput(cmd *cobra.Command, path string, o Options) (*Dense, error) {
	defer command.Working(cmd, "reading "+path)()
	return command.UnlessStopped(cmd.Context(), func() (*Dense, error) {
		if path == "-" {
			return Read(cmd.InOrStdin(), "standard input", o)
		}
		return ReadFile(path, o)
	})
}
