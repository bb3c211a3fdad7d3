package forslab

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/forsd/forsd/testbed/programs"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"forslab": func() { os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the scripts of testdata/script. In addition to testscript's commands
// they have exits CODE COMMAND…, for a command that must end with this exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": programs.Exits},
	})
}

func TestDocumentedCommands(t *testing.T) { programs.Documented(t, "../..", newRoot, 8) }
