// Package forslab is the laboratory's program: it measures the results of the papers,
// compares with them, and draws them. One file a command.
package forslab

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
)

// Version is set at link time.
var Version = "development"

// mostRandom limits the random scenarios or matrices of a command.
const mostRandom = 10_000

// Run executes forslab with the arguments until it is done or interrupted, and
// returns its exit code.
func Run(args []string, stdout, stderr io.Writer) int {
	return command.Run(newRoot(), args, stdout, stderr)
}

func newRoot() *cobra.Command {
	root := command.NewRoot(&cobra.Command{
		Use:   "forslab",
		Short: "Measure what the papers show, compare with it, and draw it",
		Long: `forslab measures again what the five papers show: it compares planners with what was
published and with each other, and draws the figures of the documentation. It needs no
forsd, and no operator needs it: forsctl plans, replays and verifies.

Exit code 0: done; 2: the input cannot be used, or the measurement failed. With --json
a command prints one JSON object on standard output; messages go to standard error.`,
		Version: Version,
	})
	root.AddCommand(scenariosCommand(), packetsCommand(), gpuFramesCommand(), liquidClassesCommand(), liquidTopologiesCommand(), ocsCompareCommand(), ocsReferenceCommand(),
		photonicSumsCommand(), photonicSequencesCommand(), setsCommand(), drawCommand())
	return root
}
