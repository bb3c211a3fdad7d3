// Package programs is shared by tests of the command lines: it has a command for
// their scripts, and the check of the documentation's command lines.
package programs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exits is the script command exits CODE COMMAND…: it runs a command, which must
// end with this exit code.
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%s exits with %d, want %d: %s", fmt.Sprint(args[1:]), got, want, ts.ReadFile("stderr"))
	}
}

// Documented checks that every command line of a program in the documentation below
// root names a command that exists, with flags that it has. Examples, each at the
// beginning of a line, have the arguments that the command needs; code within
// sentences may leave them out. At least that many must be found.
func Documented(t *testing.T, root string, program func() *cobra.Command, least int) {
	t.Helper()
	name := program().Name()
	documented := regexp.MustCompile("(?m)^(?:    |\\$ )?(?:sudo |go run ./cmd/)?(" + name + " [^|>#`\n]+)|`(?:[^`]*\\| |sudo )?(" + name + " [^`|…]+)`")
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, file := range append(files, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
			commands++
			line, example := m[1]+m[2], m[1] != ""
			if err := Parses(program(), strings.Fields(line)[1:], example); err != nil {
				t.Errorf("%s: %s: %v", file, line, err)
			}
		}
	}
	if commands < least {
		t.Errorf("only %d command lines of %s found", commands, name)
	}
}

// Parses returns an error if a program would not run a command with these arguments. If
// they are not whole, a flag at the end may lack its value, and arguments may be missing.
func Parses(root *cobra.Command, args []string, whole bool) error {
	root.SetOut(io.Discard)
	root.InitDefaultHelpFlag()
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if last := len(rest) - 1; !whole && last >= 0 { // a flag may stand there without its value
		if name, ok := strings.CutPrefix(rest[last], "--"); ok && cmd.Flag(name) != nil {
			rest = rest[:last]
		}
	}
	if err := cmd.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if !whole {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
