package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// target is one fuzz target.
type target struct{ pkg, name string }

// String prints the target as package.FuzzName.
func (t target) String() string { return t.pkg + "." + t.name }

// list finds the fuzz targets of the packages, in order.
func list(ctx context.Context, packages []string) ([]target, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-run", "^$", "-list", "^Fuzz"}, packages...)...)
	out, err := cmd.Output()
	targets, parseErr := parseList(out)
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s%s", err, exit.Stderr, failures(out))
		}
		return nil, fmt.Errorf("list the fuzz targets: %w", err)
	}
	return targets, parseErr
}

// event is a line of go test -json.
type event struct{ Action, Package, Output string }

// parseList reads the output of go test -json -list.
func parseList(out []byte) ([]target, error) {
	var targets []target
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list the fuzz targets: %w", err)
		}
		if name := strings.TrimSpace(e.Output); e.Action == "output" && isTarget.MatchString(name) {
			targets = append(targets, target{e.Package, name})
		}
	}
	slices.SortFunc(targets, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
	})
	return slices.Compact(targets), nil
}

var isTarget = regexp.MustCompile(`^Fuzz\w*$`)

// failures are the complaints of the build of the tests.
func failures(out []byte) string {
	var text strings.Builder
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var e event
		if dec.Decode(&e) != nil {
			return text.String()
		}
		if e.Action == "build-output" {
			text.WriteString(e.Output)
		}
	}
}

// fuzzer runs targets.
type fuzzer struct {
	length  time.Duration
	logs    string // directory
	workers int    // processes for a target
}

// logPath is the path of a target's log.
func (f *fuzzer) logPath(t target) string {
	return filepath.Join(f.logs, strings.ReplaceAll(t.pkg, "/", ".")+"."+t.name+".log")
}

// result is the outcome of a target's run.
type result struct {
	target target
	took   time.Duration
	execs  string // number of inputs tried, as Go's fuzzer printed it last
	err    error
}

// String is a line of the summary.
func (r result) String() string {
	verdict := "ok  "
	if r.err != nil {
		verdict = "FAIL"
	}
	line := fmt.Sprintf("%s  %-55s %8s  %12s inputs", verdict, r.target, r.took.Round(time.Second), r.execs)
	if r.err != nil {
		line += "  " + r.err.Error()
	}
	return line
}

// fuzz runs one target and keeps its log.
func (f *fuzzer) fuzz(ctx context.Context, t target) result {
	start := time.Now()
	log, err := os.Create(f.logPath(t))
	if err != nil {
		return result{target: t, execs: "0", err: err}
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$",
		"-fuzztime", f.length.String(), "-fuzzminimizetime", "20x", "-parallel", fmt.Sprint(f.workers), "-timeout", "0", t.pkg)
	cmd.Stdout, cmd.Stderr = log, log
	// The test binary and its workers are children of children: end the group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	text, readErr := os.ReadFile(log.Name())
	if err == nil {
		err = readErr
	} else if ctx.Err() == nil && onlyDeadline.Match(text) {
		err = nil
	}
	return result{target: t, took: time.Since(start), execs: lastExecs(text), err: err}
}

// onlyDeadline matches the log of a run that found nothing and yet failed: up to
// Go 1.26 the end of -fuzztime itself may be reported, see go.dev/issue/75804.
var onlyDeadline = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w* \([\d.]+s\)\n    context deadline exceeded\nFAIL$`)

var execs = regexp.MustCompile(`execs: (\d+)`)

// lastExecs reads the number of inputs from a log.
func lastExecs(log []byte) string {
	all := execs.FindAllSubmatch(log, -1)
	if len(all) == 0 {
		return "0"
	}
	return string(all[len(all)-1][1])
}
