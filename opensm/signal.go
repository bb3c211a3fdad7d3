package opensm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Sweep has OpenSM do a heavy sweep, in which it reads the table file again: it
// finds the process and sends it SIGHUP. The process is returned, to be
// compared with earlier ones by Same. The error wraps ErrNotRunning when there
// is no OpenSM.
func Sweep(ctx context.Context, f Finder) (Process, error) {
	p, err := f.Find(ctx)
	if err != nil {
		return p, err
	}
	// The handle pins the process; if it is still the one found, its PID can no longer be
	// reused for another.
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return p, fmt.Errorf("signal %s: %w", p, err)
	}
	defer func() { _ = handle.Release() }()
	now, err := Inspect(p.PID)
	if err != nil {
		return p, err
	}
	if !now.Same(p) {
		return p, fmt.Errorf("%w: %s ended just now", ErrNotRunning, p)
	}
	switch err := handle.Signal(syscall.SIGHUP); {
	case err == nil:
		return p, nil
	case errors.Is(err, os.ErrProcessDone):
		return p, fmt.Errorf("%w: %s ended just now", ErrNotRunning, p)
	case errors.Is(err, fs.ErrPermission):
		return p, fmt.Errorf("signal %s: %w; run forsd as the same user or give it CAP_KILL", p, err)
	default:
		return p, fmt.Errorf("signal %s: %w", p, err)
	}
}
