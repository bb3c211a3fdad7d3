package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseList(t *testing.T) {
	out := `{"Action":"start","Package":"m/b"}
{"Action":"output","Package":"m/b","Output":"FuzzZ\n"}
{"Action":"output","Package":"m/b","Output":"FuzzA\n"}
{"Action":"output","Package":"m/b","Output":"ok  \tm/b\t0.003s\n"}
{"Action":"output","Package":"m/a","Output":"Fuzz\n"}
{"Action":"output","Package":"m/c","Output":"?   \tm/c\t[no test files]\n"}
`
	got, err := parseList([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	want := []target{{"m/a", "Fuzz"}, {"m/b", "FuzzA"}, {"m/b", "FuzzZ"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(target{})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if _, err := parseList([]byte(out[:40])); err == nil {
		t.Error("a list that is cut off is taken for whole")
	}
}

func TestOnlyDeadline(t *testing.T) {
	const head = "fuzz: elapsed: 3s, execs: 40304 (0/sec), new interesting: 104 (total: 108)\n"
	const deadline = head + "--- FAIL: FuzzX (3.20s)\n    context deadline exceeded\nFAIL\nexit status 1\n"
	if !onlyDeadline.MatchString(deadline) {
		t.Error("a run that found nothing counts as failed")
	}
	const found = head + "--- FAIL: FuzzX (0.04s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n"
	if onlyDeadline.MatchString(found) {
		t.Error("a run that found an input counts as passed")
	}
	if got := lastExecs([]byte(head)); got != "40304" {
		t.Errorf("%s inputs", got)
	}
}

// fakeGo puts a go before the real one that runs script in place of "go test
// -fuzz": the real one would rebuild the standard library for it.
func fakeGo(t *testing.T, script string) {
	t.Helper()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := "#!/bin/sh\ncase \"$*\" in *-list*) exec '" + tool + "' \"$@\" ;; esac\n" + script
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// module makes a module with two fuzz targets the working directory.
func module(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module x\n\ngo 1.25\n",
		"x_test.go": `package x
import "testing"
func FuzzBad(f *testing.F)  { f.Fuzz(func(t *testing.T, n int) {}) }
func FuzzGood(f *testing.F) { f.Fuzz(func(t *testing.T, n int) {}) }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestRunReportsTheTargetThatFails(t *testing.T) {
	fakeGo(t, "echo \"args: $*\"\ncase \"$*\" in *FuzzBad*) exit 1 ;; esac\n")
	module(t)
	ok, err := run(t.Context(), []string{"./..."}, time.Minute, 2, "logs")
	if err != nil || ok {
		t.Fatalf("ok %v, %v", ok, err)
	}
	for _, name := range []string{"FuzzBad", "FuzzGood"} {
		log, err := os.ReadFile(filepath.Join("logs", "x."+name+".log"))
		if want := "-fuzz ^" + name + "$ -fuzztime 1m0s"; err != nil || !strings.Contains(string(log), want) {
			t.Errorf("%s was not run with %q: %v\n%s", name, want, err, log)
		}
	}

	fakeGo(t, "exit 0\n")
	if ok, err := run(t.Context(), []string{"./..."}, time.Minute, 1, "logs"); err != nil || !ok {
		t.Errorf("all passed, but ok is %v, %v", ok, err)
	}
}

func TestRunEndsWhatItStarted(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// Each run has a child, as go test has; both say when they are there, and the
	// pipe is at its end when the last of them is gone.
	fakeGo(t, "exec 3>'"+pipe+"'\nsh -c 'echo >&3; sleep 600' &\necho >&3\nwait\n")
	module(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := run(ctx, []string{"./..."}, time.Minute, 1, "logs")
		done <- err
	}()
	r, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was stopped ends with %v", err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
}
