package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"forsctl": func() { os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr)) },
		"fabgen":  fabgenMain,
		"spoil":   spoilMain,
	})
}

// TestScripts runs the scripts of testdata/script. Beside testscript's commands
// they have
//
//	fabgen [flags]           print a generated fabric
//	spoil FILE FAULT [args]  put a fault into an output file of forsctl plan
//	daemon SOCKET            serve a forsd whose answers are fixed
//	exits CODE COMMAND…      run a command that must end with this exit code
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "daemon": serveFake},
		Setup: func(e *testscript.Env) error {
			e.Setenv("TZ", "UTC")
			e.Setenv("FORSD_SERVER", "")
			return nil
		},
	})
}

// exits runs a command and compares its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
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
