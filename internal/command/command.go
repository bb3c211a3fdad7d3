// Package command has the shared parts of command lines: running, exit codes, input and output,
// the flags that describe a fabric, the files of TLS, and the command that rehearses.
package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/rights"
)

// The exit codes of every command.
const (
	OK       = 0
	Failed   = 1 // a check failed, or forsd refused
	Unusable = 2 // unusable input or flags, or forsd cannot be reached
)

// Violated marks an error that means "checked and found wrong", exit code Failed.
type Violated struct{ Err error }

// Error returns the text of the violation.
func (v Violated) Error() string { return v.Err.Error() }

// Unwrap returns the violation itself.
func (v Violated) Unwrap() error { return v.Err }

// Refused turns the refusals of a daemon into violations. A malformed question, or one about
// something that does not exist, remains invalid input.
func Refused(err error) error {
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code != api.CodeBadRequest && e.Code != api.CodeNotFound {
		return Violated{err}
	}
	return err
}

// NewRoot returns a program with one command, which prints its version. It has the flag --json,
// and errors about flags refer to the help.
func NewRoot(root *cobra.Command) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	})
	root.PersistentFlags().Bool("json", false, "print one JSON object")
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Show(cmd, map[string]any{"program": root.Name(), "release": root.Version}, func(w io.Writer) {
				fmt.Fprintf(w, "%s version %s\n", root.Name(), root.Version)
			})
		},
	})
	return root
}

// Run executes a program with the arguments until it ends or is interrupted, and returns its
// exit code.
func Run(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	root.SetArgs(args)
	root.SetOut(plain{stdout})
	stderr = plain{stderr}
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return OK
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = Violated{errors.New("interrupted before there was anything to show")}
	}
	if of, unknown := strings.CutPrefix(err.Error(), "unknown command "); unknown {
		_, of, _ = strings.Cut(of, " for ")
		of, _, _ = strings.Cut(strings.Trim(of, `"`), `"`)
		err = fmt.Errorf("%w: see %s --help", err, of)
	}
	if lack := rights.Self().Lacks(err); lack != nil {
		err = fmt.Errorf("%w: %w: run it with sudo", err, lack)
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	if _, violated := errors.AsType[Violated](err); violated {
		return Failed
	}
	return Unusable
}

// Group puts commands below one that does nothing by itself but ask what to do.
func Group(cmd *cobra.Command, ask string, below ...*cobra.Command) *cobra.Command {
	cmd.RunE = func(*cobra.Command, []string) error { return errors.New(ask) }
	cmd.AddCommand(below...)
	return cmd
}

// NoArgs refuses arguments to the commands below one that do not say which they take.
func NoArgs(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.Args == nil && c.Runnable() {
			c.Args = cobra.NoArgs
		}
		NoArgs(c)
	}
}

// Main runs a program without commands until it ends or is interrupted, and exits.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(Failed)
	}
}

// WantsJSON reports whether --json was given.
func WantsJSON(cmd *cobra.Command) bool {
	on, _ := cmd.Flags().GetBool("json")
	return on
}

// object encodes v, which is an object, with the schema that the command names, such as
// forsctl/job/list, and its version in front. A v that begins with a version keeps it.
func object(cmd *cobra.Command, v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	if out.Bytes()[0] != '{' {
		return nil, fmt.Errorf("%T is not an object in JSON", v)
	}
	head := fmt.Sprintf("{%q:%q", "schema", strings.ReplaceAll(cmd.CommandPath(), " ", "/"))
	fields := out.Bytes()[1:]
	if !bytes.HasPrefix(fields, []byte(`"version":`)) {
		head += `,"version":1`
	}
	if fields[0] != '}' {
		head += ","
	}
	return append([]byte(head), fields...), nil
}

// PrintJSON prints v as one indented object.
func PrintJSON(cmd *cobra.Command, v any) error {
	data, err := object(cmd, v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return err
	}
	_, err = out.WriteTo(cmd.OutOrStdout())
	return err
}

// PrintLine prints v as an object in one line, as commands do that print several.
func PrintLine(cmd *cobra.Command, v any) error {
	data, err := object(cmd, v)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(data)
	return err
}

// Show prints v as JSON with --json, or otherwise as text. Columns that end with tabs are
// aligned.
func Show(cmd *cobra.Command, v any, text func(w io.Writer)) error {
	if WantsJSON(cmd) {
		return PrintJSON(cmd, v)
	}
	var out bytes.Buffer
	w := NewTable(&out)
	text(w)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := out.WriteTo(cmd.OutOrStdout())
	return err
}

// Answer asks a question through the client that with opens, and shows the answer.
func Answer[C, T any](cmd *cobra.Command, with func(*cobra.Command, func(context.Context, C) error) error, ask func(context.Context, C) (T, error), text func(w io.Writer, answer T)) error {
	return with(cmd, func(ctx context.Context, c C) error {
		a, err := ask(ctx, c)
		if err != nil {
			return err
		}
		return Show(cmd, a, func(w io.Writer) { text(w, a) })
	})
}

// Confirm asks a question on a terminal, and fails unless the answer is yes. Without a
// terminal the flag --yes is required.
func Confirm(cmd *cobra.Command, question string, yes bool) error {
	in, is := cmd.InOrStdin().(*os.File)
	if !is || yes || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(in, &answer); err != nil || !strings.HasPrefix(strings.ToLower(answer), "y") {
		return errors.New("nothing was changed")
	}
	return nil
}

// NewTable returns a writer that aligns columns that end with tabs.
func NewTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 8, 2, ' ', 0) }

// MS formats milliseconds with the significant digits: 0.42 ms, 6.5 ms, 21 ms.
func MS(v float64) string {
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

// Plural formats a number with its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Progress returns a progress bar on standard error if that is a terminal, and otherwise a bar
// without output. It disappears when the work is done.
func Progress(cmd *cobra.Command, steps int) *progressbar.ProgressBar {
	w := Raw(cmd.ErrOrStderr())
	f, isFile := w.(*os.File)
	return progressbar.NewOptions(steps, progressbar.OptionSetWriter(w), progressbar.OptionSetVisibility(isFile && term.IsTerminal(int(f.Fd()))),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(24), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true))
}

// Searching is Working for a search that may have a result when it is interrupted: keeps
// reports whether it has.
func Searching(cmd *cobra.Command, what string, keeps bool) (done func()) {
	w := Raw(cmd.ErrOrStderr())
	if f, isFile := w.(*os.File); !isFile || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	hint := ""
	if keeps {
		hint = "; Ctrl-C takes the best so far"
	}
	return working(w, what, hint)
}

// Working tells on standard error, where that is a terminal, what is being done and for how
// long, from the first second on. done ends that and takes the line away.
func Working(cmd *cobra.Command, what string) (done func()) { return Searching(cmd, what, false) }

// working writes a line to a terminal each second, over the one before.
func working(w io.Writer, what, hint string) (done func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for seconds := 0; ; {
			select {
			case <-stop:
				if seconds > 0 {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			case <-tick.C:
				seconds++
				fmt.Fprintf(w, "\r\x1b[K%s: %d s%s", what, seconds, hint)
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// Interrupted returns an error, exit code Failed, where the command was interrupted: what
// it has printed is the best that was found until then.
func Interrupted(cmd *cobra.Command) error {
	if cmd.Context().Err() == nil {
		return nil
	}
	return Violated{errors.New("interrupted: this is the best that was found until then")}
}
