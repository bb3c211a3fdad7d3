// Package forsplan is the program forsplan: plans of exchanges on GPU clusters, on optical
// circuit switches and on networks of any shape. It needs neither forsd nor OpenSM.
package forsplan

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
)

// Version is set at link time.
var Version = "development"

// Run executes forsplan with the arguments until it ends or is interrupted, and returns its
// exit code.
func Run(args []string, stdout, stderr io.Writer) int {
	return command.Run(Command(), args, stdout, stderr)
}

// Command returns forsplan with all its commands.
func Command() *cobra.Command {
	root := command.NewRoot(&cobra.Command{
		Use:   "forsplan",
		Short: "Plan exchanges on GPU clusters, optical circuit switches and any network",
		Long: `forsplan plans exchanges of data, and checks plans, on four kinds of networks: servers
with several GPUs and NICs (gpu), parallel optical circuit switches (ocs), GPUs that are
joined by such switches alone (photonic), and networks of any shape with the routes that
they have (liquid). Commands work on files, but for those of session, which ask a
forsplan serve to plan one exchange after the other.

Exit code 0: done, and nothing is wrong; 1: what was checked is wrong, or the request was
refused; 2: the input cannot be used, or the service cannot be reached. With --json a
command prints one JSON object on standard output; messages go to standard error.`,
		Version: Version,
	})
	root.AddCommand(gpuCommand(), ocsCommand(), photonicCommand(), liquidCommand(), serveCommand())
	command.NoArgs(root)
	return root
}
