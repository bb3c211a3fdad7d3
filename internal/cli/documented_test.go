package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// documented finds forsctl's command lines in a text: examples, each at the
// beginning of a line, and code within sentences.
var documented = regexp.MustCompile("(?m)^(?:    |\\$ )?(?:sudo )?(forsctl [^|>#`\n]+)|`(?:[^`]*\\| |sudo )?(forsctl [^`|…]+)`")

// TestDocumentedCommands holds that every command line of the documentation names
// a command that exists, with flags that it has. Examples have the arguments that
// the command wants; sentences may leave them out.
func TestDocumentedCommands(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, file := range append(files, "../../README.md", "../../CHANGELOG.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
			commands++
			line, example := m[1]+m[2], m[1] != ""
			if err := parses(strings.Fields(line)[1:], example); err != nil {
				t.Errorf("%s: %s: %v", file, line, err)
			}
		}
	}
	if commands < 30 {
		t.Errorf("only %d command lines found", commands)
	}
	for _, wrong := range []string{"nonsense", "plan --wild 3", "baseline drop", "whatif --done", "rollback", "status more"} {
		if parses(strings.Fields(wrong), true) == nil {
			t.Errorf("forsctl %s is found to be right", wrong)
		}
	}
}

// parses tells whether forsctl would run a command with these arguments.
func parses(args []string, whole bool) error {
	root := newRoot()
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
	if err := cmd.ParseFlags(rest); err != nil && err != pflag.ErrHelp {
		return err
	}
	if !whole {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
