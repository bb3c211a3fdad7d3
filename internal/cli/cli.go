// Package cli is forsctl: one file a command. Commands that plan work offline
// on files; commands that ask or steer talk to a running forsd.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
)

// Version is set at link time.
var Version = "development"

// The exit codes of every command.
const (
	exitOK       = 0
	exitViolated = 1 // a check failed, or forsd refused
	exitUnusable = 2 // unusable input or flags, or nobody to ask
)

// violated marks an error that means "checked and found wrong", exit code 1.
type violated struct{ error }

// Unwrap gives the violation itself.
func (v violated) Unwrap() error { return v.error }

// Run executes forsctl with the arguments until it is done or interrupted, and
// returns its exit code.
func Run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
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
		Use:   "forsctl",
		Short: "Plan, check and steer congestion-free all-to-all exchanges on InfiniBand fat trees",
		Long: `forsctl plans, checks and steers congestion-free all-to-all exchanges on
two-level InfiniBand fat trees. Some commands work offline, on files, and need
nothing else; the others talk to a running forsd.

Exit code 0: done, and nothing is wrong; 1: what was checked is wrong, or forsd
refused; 2: the input cannot be used, or forsd cannot be reached. With --json a
command prints one JSON object on standard output; messages go to standard error.`,
		Version:       Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	})
	root.PersistentFlags().Bool("json", false, "print one JSON object")
	root.PersistentFlags().String("server", defaultServer(), "address of forsd: a socket path or http://host:port (environment FORSD_SERVER)")
	root.AddGroup(&cobra.Group{ID: "offline", Title: "Offline, on files:"}, &cobra.Group{ID: "daemon", Title: "With a running forsd:"})
	root.AddCommand(offlineCommands()...)
	root.AddCommand(daemonCommands()...)
	return root
}

// wantsJSON tells whether --json was given.
func wantsJSON(cmd *cobra.Command) bool {
	on, _ := cmd.Flags().GetBool("json")
	return on
}

// printJSON prints v as one indented object.
func printJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// newTable aligns columns that are ended by tabs.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 8, 2, ' ', 0) }

// How many bytes a file may have that is read as a whole.
const (
	maxFile = 1 << 30  // fabrics, tables and plans
	maxText = 64 << 20 // what people write, and lists of hosts
)

// readFile reads a file named by a flag, which must be given.
func readFile(flag, path, what string) ([]byte, error) {
	if path == "" {
		return nil, fmt.Errorf("--%s is missing: name %s", flag, what)
	}
	return readPath(path, maxFile)
}

// readPath reads a file, which fails where it has more bytes than most. A regular
// file that is too long is not read at all.
func readPath(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if at, err := f.Stat(); err == nil && at.Mode().IsRegular() && at.Size() > most {
		return nil, tooLong(path, most)
	}
	return readAtMost(f, most, path)
}

// readAtMost reads a file, which fails where it has more bytes than most.
func readAtMost(r io.Reader, most int64, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, tooLong(name, most)
	}
	return data, err
}

func tooLong(name string, most int64) error {
	return fmt.Errorf("read %s: it has more than %d bytes: is it the right file?", name, most)
}

// checkOut tells what is wrong with the path that a flag names for what, where -
// is standard output.
func checkOut(cmd *cobra.Command, flag, path, what string) error {
	switch {
	case path == "":
		return fmt.Errorf("--%s is missing: name a file for %s, or - for standard output", flag, what)
	case path == "-" && wantsJSON(cmd):
		return fmt.Errorf("--json and --%s - both want standard output: name a file for %s", flag, what)
	}
	return nil
}

// writeOut writes data to standard output where path is -, and else to a file,
// which it replaces in one step. What is no file, such as /dev/null or a pipe, is
// written into.
func writeOut(cmd *cobra.Command, path string, data []byte) error {
	if path == "-" {
		_, err := cmd.OutOrStdout().Write(data)
		return err
	}
	if at, err := os.Stat(path); err == nil && !at.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	return renameio.WriteFile(path, data, 0o644)
}

// ms prints milliseconds with the digits that matter: 0.42 ms, 6.5 ms, 21 ms.
func ms(v float64) string {
	switch {
	case v < 1:
		return fmt.Sprintf("%.2f ms", v)
	case v < 10:
		return fmt.Sprintf("%.1f ms", v)
	case v < 10_000:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.1f s", v/1000)
}

// took prints a duration as ms does.
func took(d time.Duration) string { return ms(float64(d.Microseconds()) / 1000) }

// clock prints a time of day in local time, "never" for the zero time.
func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// plural prints a number with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
