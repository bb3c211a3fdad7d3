// Package cli is forsctl: one file a command. Commands that plan work offline
// on files; commands that ask or steer talk to a running forsd.
package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
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

// readFile reads a file named by a flag, which must be given.
func readFile(flag, path, what string) ([]byte, error) {
	if path == "" {
		return nil, fmt.Errorf("--%s is missing: name %s", flag, what)
	}
	return command.ReadPath(path, command.MaxFile)
}

// checkOut tells what is wrong with the path that a flag names for what, where -
// is standard output.
func checkOut(cmd *cobra.Command, flag, path, what string) error {
	switch {
	case path == "":
		return fmt.Errorf("--%s is missing: name a file for %s, or - for standard output", flag, what)
	case path == "-" && command.WantsJSON(cmd):
		return fmt.Errorf("--json and --%s - both want standard output: name a file for %s", flag, what)
	}
	return nil
}

// output is a file that a flag names for something, "" for none.
type output struct{ flag, path, what string }

// checkOuts is checkOut for outputs that need not be: each is to have a place of its own.
func checkOuts(cmd *cobra.Command, outs ...output) error {
	for i, x := range outs {
		if x.path == "" {
			continue
		}
		if err := checkOut(cmd, x.flag, x.path, x.what); err != nil {
			return err
		}
		for _, other := range outs[:i] {
			if other.path == x.path {
				return fmt.Errorf("--%s and --%s both write to %s: give each a file of its own", other.flag, x.flag, x.path)
			}
		}
	}
	return nil
}

// writeOut writes data to standard output where path is -, and else to a file,
// which it replaces in one step. What is no file, such as /dev/null or a pipe, is
// written into.
func writeOut(cmd *cobra.Command, path string, data []byte) error {
	if path == "-" {
		_, err := command.Raw(cmd.OutOrStdout()).Write(data)
		return err
	}
	if at, err := os.Stat(path); err == nil && !at.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	return renameio.WriteFile(path, data, 0o644)
}

// took prints a duration as ms does.
func took(d time.Duration) string { return command.MS(float64(d.Microseconds()) / 1000) }

// clock prints a time of day in local time, "never" for the zero time.
func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
