package opensm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/forsd/forsd/topology"
)

const (
	killGrace = 2 * time.Second // for the pipes of a killed command
	errorText = 2048            // bytes of standard error kept, from its start
)

// runCommand runs a command in a temporary working directory and parses its output as it
// arrives. It kills the command and all processes that the command started when ctx ends,
// the time is over or parse fails. The error contains the command's standard error.
func runCommand(ctx context.Context, timeout time.Duration, argv []string, parse func(io.Reader) error) error {
	dir, err := os.MkdirTemp("", "forsd-command-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := Program(argv[0])
	if err != nil {
		return err
	}
	ctx, stop := within(ctx, timeout)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stderr head
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = dir, &stderr, killGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// The kernel sends Pdeathsig when the starting thread ends, so keep it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	reader, writer := io.Pipe()
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	parsed := make(chan error, 1)
	go func() {
		err := parse(reader)
		if err != nil {
			cancel()
		}
		_, _ = io.Copy(io.Discard, reader) // so that the command can end
		parsed <- err
	}()
	runErr := cmd.Wait()
	cause := context.Cause(ctx)
	end := io.EOF // what the parser sees at the end of the output
	if runErr != nil {
		end = errCommand
	}
	_ = writer.CloseWithError(end)
	return describe(runErr, cause, <-parsed, &stderr)
}

// within limits a context in time.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it took longer than %v", timeout))
}

// errCommand is what the parser reads from a command that failed.
var errCommand = errors.New("the command failed")

// describe returns the parser's error, the time limit, or the command's own failure as one
// error, with the command's standard error.
func describe(runErr, cause, parseErr error, stderr *head) error {
	var err error
	switch {
	case parseErr != nil && !errors.Is(parseErr, errCommand):
		err = parseErr
	case runErr == nil:
		return nil
	case cause != nil && !errors.Is(cause, context.Canceled):
		err = cause
	case cause != nil:
		err = fmt.Errorf("interrupted: %w", cause)
	default:
		err = runErr
	}
	if text := strings.TrimSpace(string(stderr.kept)); text != "" {
		return fmt.Errorf("%w; it printed: %s", err, text)
	}
	return err
}

// hint says where the commands are that read the fabric, should one not be found.
func hint(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w; dump_fts and ibnetdiscover are in Debian's package infiniband-diags", err)
	}
	return err
}

// Program finds an executable in PATH or where Debian keeps administrators'
// programs, which a user's PATH may lack. The path is absolute.
func Program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return filepath.Abs(path)
	}
	if !strings.ContainsRune(name, '/') {
		for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
			if path, e := exec.LookPath(filepath.Join(dir, name)); e == nil {
				return path, nil
			}
		}
	}
	return "", err
}

// head keeps the first bytes that are written to it.
type head struct{ kept []byte }

// Write keeps what fits and takes the rest as well.
func (h *head) Write(b []byte) (int, error) {
	h.kept = append(h.kept, b[:min(errorText-len(h.kept), len(b))]...)
	return len(b), nil
}

// maxDiscovery is the most that a discovery may print, in bytes.
const maxDiscovery = 512 << 20

// Discover runs a command that prints the fabric as ibnetdiscover does, with the LIDs and
// LMCs of all ports, and parses its output.
func Discover(ctx context.Context, command []string, timeout time.Duration) (f *topology.Fabric, err error) {
	err = runCommand(ctx, timeout, command, func(text io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(text, maxDiscovery+1))
		if len(data) > maxDiscovery {
			return fmt.Errorf("it prints more than %d bytes", maxDiscovery)
		}
		if err == nil {
			f, _, err = topology.Read(data)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("discover the fabric with %q: %w", strings.Join(command, " "), hint(err))
	}
	return f, nil
}

// Install runs a command that brings the table file to the manager and has it sweep.
// The file's path is its last argument.
func Install(ctx context.Context, command []string, tables string, timeout time.Duration) error {
	argv := append(append([]string{}, command...), tables)
	if err := runCommand(ctx, timeout, argv, func(io.Reader) error { return nil }); err != nil {
		return fmt.Errorf("install the tables with %q: %w", strings.Join(argv, " "), err)
	}
	return nil
}
