package cli

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"forsctl": func() { os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr)) },
		"fabgen":  fabgen.Main,
		"spoil":   spoilMain,
	})
}

// TestScripts runs the scripts in testdata/script. In addition to testscript's commands
// they use
//
//	fabgen [flags]           print a generated fabric
//	spoil FILE FAULT [args]  put a fault into an output file of forsctl plan
//	daemon SOCKET            serve a forsd whose answers are fixed
//	exits CODE COMMAND…      run a command that must end with this exit code
//
// and $FORSCTL is the path of forsctl.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": programs.Exits, "daemon": serveFake},
		Setup: func(e *testscript.Env) error {
			forsctl, err := exec.LookPath("forsctl")
			e.Setenv("FORSCTL", forsctl)
			e.Setenv("TZ", "UTC")
			e.Setenv("FORSD_SERVER", "")
			return err
		},
	})
}
