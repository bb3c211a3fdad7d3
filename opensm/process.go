package opensm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Process is a running OpenSM.
type Process struct {
	PID     int
	Ticks   uint64    // start time in clock ticks since boot; with PID it names the process for good
	Started time.Time // the same as a time of day, to about a second
	Comm    string    // name of the program, at most 15 bytes
	Cmdline []string
	Cwd     string // "" where it may not be read
	UID     int    // as whom it acts, −1 where that may not be read
	// Env are the variables that concern OpenSM; EnvErr says why they could not
	// be read, which takes the same user or CAP_SYS_PTRACE.
	Env    map[string]string
	EnvErr error
}

// Same reports whether p and q are one process, not two that shared a PID.
func (p Process) Same(q Process) bool { return p.PID == q.PID && p.Ticks == q.Ticks }

// Lives reports whether the process still exists.
func (p Process) Lives() bool {
	now, err := procFS("").process(p.PID)
	return err == nil && p.Same(now)
}

// String names the process for messages.
func (p Process) String() string {
	return fmt.Sprintf("process %d (%s)", p.PID, strings.Join(p.Cmdline, " "))
}

// procFS is where the kernel shows processes; "" means /proc.
type procFS string

func (p procFS) root() string { return cmp.Or(string(p), procfs.DefaultMountPoint) }

// Inspect describes the process with this PID. The error wraps ErrNotRunning
// when there is none.
func Inspect(pid int) (Process, error) { return procFS("").process(pid) }

func (p procFS) process(pid int) (Process, error) {
	var of procfs.Proc
	var stat procfs.ProcStat
	all, err := procfs.NewFS(p.root())
	if err == nil {
		of, err = all.Proc(pid)
	}
	if err == nil {
		stat, err = of.Stat()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return Process{}, fmt.Errorf("process %d: %w", pid, ErrNotRunning)
	case err != nil:
		return Process{}, fmt.Errorf("inspect process %d: %w", pid, err)
	case stat.State == "Z", stat.State == "X":
		return Process{}, fmt.Errorf("process %d has ended: %w", pid, ErrNotRunning)
	}
	proc := Process{PID: pid, Comm: stat.Comm, Ticks: stat.Starttime, UID: -1}
	// The owner of the directory does not tell: it is root for processes that hide their memory.
	if status, err := of.NewStatus(); err == nil && status.TGID == of.PID {
		proc.UID = int(status.UIDs[1])
	}
	if seconds, err := stat.StartTime(); err == nil {
		proc.Started = time.UnixMilli(int64(1000 * seconds))
	}
	proc.Cmdline, _ = of.CmdLine()
	proc.Cwd, _ = of.Cwd()
	proc.Env, proc.EnvErr = environ(of)
	return proc, nil
}

// environ reads the variables that OpenSM reads.
func environ(of procfs.Proc) (map[string]string, error) {
	all, err := of.Environ()
	if err != nil {
		return nil, err
	}
	env := make(map[string]string)
	for _, entry := range all {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, "OSM_") {
			env[name] = value
		}
	}
	return env, nil
}

// scan lists the processes whose program is called opensm, by PID.
func (p procFS) scan() ([]Process, error) {
	var all procfs.Procs
	from, err := procfs.NewFS(p.root())
	if err == nil {
		all, err = from.AllProcs()
	}
	if err != nil {
		return nil, fmt.Errorf("search for OpenSM: %w", err)
	}
	sort.Sort(all)
	var found []Process
	for _, one := range all {
		if name, err := one.Comm(); err != nil || name != programName {
			continue
		}
		if proc, err := p.process(one.PID); err == nil {
			found = append(found, proc)
		}
	}
	return found, nil
}

// isOpenSM reports whether the program of the process is called opensm, by its own name or
// by the file that it was started from.
func (p procFS) isOpenSM(proc Process) bool {
	if proc.Comm == programName {
		return true
	}
	exe, err := os.Readlink(filepath.Join(p.root(), strconv.Itoa(proc.PID), "exe"))
	return err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == programName
}

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
