package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/cli"
	"github.com/forsd/forsd/internal/daemon"
	"github.com/forsd/forsd/testbed/programs"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"forsd":   func() { os.Exit(daemon.Main(os.Args[1:], "test")) },
		"forsctl": func() { os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the scripts of testdata/script. In addition to testscript's commands they have
//
//	exits CODE COMMAND…     run a command that must end with this exit code
//	site FILE [LINE]…       write a configuration of a forsd that keeps to $WORK, with more lines
//	answers SOCKET [WORD]…  wait until forsd answers there, with such words in its status
//	occupy                  listen on a TCP port, $TAKEN
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": programs.Exits, "site": site, "answers": answers, "occupy": occupy},
		Setup: func(e *testscript.Env) error {
			e.Setenv("FORSD_SERVER", "")
			return nil
		},
	})
}

func site(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: site FILE [LINE]...")
	}
	text := `version: 1
state_dir: WORK/state
opensm: {dump_dir: WORK/dump, cache_dir: WORK, conf: WORK/opensm.conf, lfts_file: WORK/lfts.dump, pid_file: WORK/pid, plugin: {socket: WORK/p}}
api: {socket: WORK/s}
`
	for _, line := range args[1:] { // a line replaces an existing one with the same key
		key, _, _ := strings.Cut(line, ":")
		if i := strings.Index("\n"+text, "\n"+key+":"); i >= 0 {
			end := i + strings.Index(text[i:], "\n") + 1
			text = text[:i] + text[end:]
		}
		text += line + "\n"
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, "WORK", ts.Getenv("WORK"))), 0o644))
}

func answers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: answers SOCKET [WORD]...")
	}
	socket := ts.MkAbs(args[0])
	client, err := api.Dial(socket)
	ts.Check(err)
	defer client.Close()
	text := ""
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Clean(socket)); err != nil {
			continue
		}
		if err = ts.Exec("forsctl", "status", "--all", "--timeout", "5s", "--server", socket); err == nil || strings.Contains(ts.ReadFile("stdout"), "state") {
			text = ts.ReadFile("stdout")
			all := true
			for _, word := range args[1:] {
				all = all && strings.Contains(text, word)
			}
			if all {
				return
			}
		}
	}
	ts.Fatalf("forsd at %s does not answer with %q: %v\n%s", socket, args[1:], err, text)
}

func occupy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: occupy")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("TAKEN", l.Addr().String())
}
