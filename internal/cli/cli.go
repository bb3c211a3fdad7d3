// Package cli is forsctl: one file a command. Commands that plan work offline
// on files; commands that ask or steer talk to a running forsd.
package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Version is set at link time.
var Version = "development"

// The exit codes of every command.
const (
	exitOK       = 0
	exitViolated = 1 // a check failed, or forsd refused
	exitUnusable = 2 // unusable input or flags
)

// violated marks an error that means "checked and found wrong", exit code 1.
type violated struct{ error }

// Unwrap gives the violation itself.
func (v violated) Unwrap() error { return v.error }

// Run executes forsctl with the arguments and returns its exit code.
func Run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "forsctl: %v\n", err)
	var v violated
	if errors.As(err, &v) {
		return exitViolated
	}
	return exitUnusable
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "forsctl",
		Short:         "Plan, check and steer congestion-free all-to-all exchanges on InfiniBand fat trees",
		Version:       Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().Bool("json", false, "print one JSON object")
	root.PersistentFlags().String("server", defaultServer(), "address of forsd: a socket path or http://host:port (environment FORSD_SERVER)")
	root.AddGroup(&cobra.Group{ID: "offline", Title: "Offline, on files:"}, &cobra.Group{ID: "daemon", Title: "With a running forsd:"})
	root.AddCommand(offlineCommands()...)
	root.AddCommand(daemonCommands()...)
	return root
}

// defaultServer is forsd's socket, unless the environment names another place.
func defaultServer() string {
	if s := os.Getenv("FORSD_SERVER"); s != "" {
		return s
	}
	return "/run/forsd/forsd.sock"
}

// wantsJSON tells whether --json was given.
func wantsJSON(cmd *cobra.Command) bool {
	on, _ := cmd.Flags().GetBool("json")
	return on
}

// printJSON prints v as one indented object.
func printJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
