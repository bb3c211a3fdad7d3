// Package cli is forsctl, with one file for each command. Commands that plan work offline on
// files; commands that query or control talk to a running forsd.
package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
)

// Version is set at link time.
var Version = "development"

// Run executes forsctl with the arguments until it ends or is interrupted, and returns its exit
// code.
func Run(args []string, stdout, stderr io.Writer) int {
	return command.Run(Command(), args, stdout, stderr)
}

// Command returns forsctl with all its commands.
func Command() *cobra.Command {
	root := command.NewRoot(&cobra.Command{
		Use:   "forsctl",
		Short: "Plan, check and steer congestion-free all-to-all exchanges on InfiniBand fat trees",
		Long: `forsctl plans, checks and steers congestion-free all-to-all exchanges on
InfiniBand fat trees of two and three levels. Some commands work on files and need
nothing else; the others talk to a running forsd.

Exit code 0: done, and nothing is wrong; 1: what was checked is wrong, or forsd
refused; 2: the input cannot be used, or forsd cannot be reached. With --json a
command prints one JSON object on standard output, which begins with its schema and
version; messages go to standard error.`,
		Version: Version,
	})
	connection := connectionFlags()
	root.PersistentFlags().AddFlagSet(connection)
	addGroup(root, "Daily work, with a running forsd:",
		online(statusCommand()), online(watchCommand()), online(cablesCommand()), online(drainCommand()), online(drainsCommand()), online(undrainCommand()), online(historyCommand()), online(whatIfCommand()), online(jobCommand()), doctorCommand(), explainCommand())
	addGroup(root, "On files, without forsd:",
		offline(planCommand(), connection), offline(acceptanceCommand(), connection), offline(verifyCommand(), connection), offline(simulateCommand(), connection), offline(routesCommand(), connection), measureCommand(), topologyCommand(), diffCommand(), offline(rehearseCommand(), connection))
	addGroup(root, "Seldom, with a running forsd:",
		online(baselineCommand()), online(rerouteCommand()), online(rollbackCommand()), online(epochsCommand()), online(phasesCommand()), online(reportCommand()), supportCommand())
	addGroup(root, "Setup:",
		offline(setupCommand(), connection), online(reloadCommand()), online(tokenCommand()), offline(backupCommand(), connection), offline(restoreCommand(), connection), online(slurmCommand()))
	command.NoArgs(root)
	return root
}

// addGroup adds commands that --help shows under a common title.
func addGroup(root *cobra.Command, title string, cmds ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range cmds {
		c.GroupID = title
	}
	root.AddCommand(cmds...)
}

// registerFabric adds the flags of a fabric to a command. A running forsd completes --fail.
func registerFabric(f *command.Fabric, cmd *cobra.Command) {
	f.Register(cmd)
	if err := cmd.RegisterFlagCompletionFunc("fail", failureNames); err != nil {
		panic(err) // only if the flag has another name
	}
}
