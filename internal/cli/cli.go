// Package cli is forsctl: one file a command. Commands that plan work offline
// on files; commands that ask or steer talk to a running forsd.
package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/fabricflags"
)

// Version is set at link time.
var Version = "development"

// Run executes forsctl with the arguments until it is done or interrupted, and
// returns its exit code.
func Run(args []string, stdout, stderr io.Writer) int {
	return command.Run(Command(), args, stdout, stderr)
}

// Command is forsctl with all its commands.
func Command() *cobra.Command {
	root := command.NewRoot(&cobra.Command{
		Use:   "forsctl",
		Short: "Plan, check and steer congestion-free all-to-all exchanges on InfiniBand fat trees",
		Long: `forsctl plans, checks and steers congestion-free all-to-all exchanges on
two-level InfiniBand fat trees. Some commands work offline, on files, and need
nothing else; the others talk to a running forsd.

Exit code 0: done, and nothing is wrong; 1: what was checked is wrong, or forsd
refused; 2: the input cannot be used, or forsd cannot be reached. With --json a
command prints one JSON object on standard output; messages go to standard error.`,
		Version: Version,
	})
	root.PersistentFlags().String("server", defaultServer(), "address of forsd: a socket path, http://host:port or https://host:port (environment FORSD_SERVER)")
	credentialFlags(root)
	root.PersistentFlags().Duration("timeout", 0, "how long to wait for forsd, such as 5s (default as long as the request may take, up to 5m30s)")
	root.AddGroup(&cobra.Group{ID: "offline", Title: "Offline, on files:"}, &cobra.Group{ID: "daemon", Title: "With a running forsd:"})
	root.AddCommand(offlineCommands()...)
	root.AddCommand(daemonCommands()...)
	return root
}

func offlineCommands() []*cobra.Command {
	cmds := []*cobra.Command{planCommand(), verifyCommand(), simulateCommand(), routesCommand(), topologyCommand(), explainCommand(), diffCommand(), doctorCommand(), backupCommand(), restoreCommand(), supportCommand(), setupCommand()}
	for _, c := range cmds {
		c.GroupID = "offline"
	}
	return cmds
}

// registerFabric adds the flags of a fabric to a command. --fail is completed by what a
// running forsd knows.
func registerFabric(f *fabricflags.Fabric, cmd *cobra.Command) {
	f.Register(cmd)
	if err := cmd.RegisterFlagCompletionFunc("fail", failureNames); err != nil {
		panic(err) // the flag is not the one above
	}
}
