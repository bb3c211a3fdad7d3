package opensm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
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

// userHz is the unit of times in /proc, fixed in the kernel's interface.
const userHz = 100

// procFS is where the kernel shows processes; "" means /proc.
type procFS string

func (p procFS) path(elem ...string) string {
	return filepath.Join(append([]string{cmp.Or(string(p), "/proc")}, elem...)...)
}

// Inspect describes the process with this PID. The error wraps ErrNotRunning
// when there is none.
func Inspect(pid int) (Process, error) { return procFS("").process(pid) }

func (p procFS) process(pid int) (Process, error) {
	id := strconv.Itoa(pid)
	line, err := os.ReadFile(p.path(id, "stat"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "no such process") {
			return Process{}, fmt.Errorf("process %d: %w", pid, ErrNotRunning)
		}
		return Process{}, fmt.Errorf("inspect process %d: %w", pid, err)
	}
	proc := Process{PID: pid}
	var state byte
	if proc.Comm, state, proc.Ticks, err = parseStat(line); err != nil {
		return Process{}, fmt.Errorf("inspect process %d: %w", pid, err)
	}
	if state == 'Z' || state == 'X' {
		return Process{}, fmt.Errorf("process %d has ended: %w", pid, ErrNotRunning)
	}
	proc.Started = p.bootTime().Add(time.Duration(proc.Ticks) * (time.Second / userHz))
	if data, err := os.ReadFile(p.path(id, "cmdline")); err == nil {
		proc.Cmdline = splitNUL(data)
	}
	proc.Cwd, _ = os.Readlink(p.path(id, "cwd"))
	proc.Env, proc.EnvErr = p.environ(id)
	proc.UID = p.uid(id)
	return proc, nil
}

// uid returns the effective user of a process, −1 where that cannot be read. It does not go
// by the owner of the directory: that is root's for processes that hide their memory.
func (p procFS) uid(id string) int {
	data, _ := os.ReadFile(p.path(id, "status"))
	for line := range strings.Lines(string(data)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			if fields := strings.Fields(ids); len(fields) > 1 {
				if uid, err := strconv.Atoi(fields[1]); err == nil {
					return uid
				}
			}
		}
	}
	return -1
}

// environ reads the variables that OpenSM reads.
func (p procFS) environ(id string) (map[string]string, error) {
	data, err := os.ReadFile(p.path(id, "environ"))
	if err != nil {
		return nil, err
	}
	env := make(map[string]string)
	for _, entry := range splitNUL(data) {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, "OSM_") {
			env[name] = value
		}
	}
	return env, nil
}

// bootTime is zero where the kernel does not tell.
func (p procFS) bootTime() time.Time {
	data, _ := os.ReadFile(p.path("stat"))
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				return time.Unix(seconds, 0)
			}
		}
	}
	return time.Time{}
}

// parseStat takes the name, the state and the start time out of /proc/PID/stat.
// The name stands in parentheses and may hold any character itself.
func parseStat(line []byte) (comm string, state byte, ticks uint64, err error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return "", 0, 0, fmt.Errorf("%q is not a process status", line)
	}
	fields := strings.Fields(string(line[end+1:]))
	const startTime = 22 - 3 // proc(5) counts from 1, and PID and name are cut off
	if len(fields) <= startTime {
		return "", 0, 0, fmt.Errorf("%q is not a process status: it has %d fields", line, len(fields)+2)
	}
	ticks, err = strconv.ParseUint(fields[startTime], 10, 64)
	return string(line[open+1 : end]), fields[0][0], ticks, err
}

func splitNUL(data []byte) []string {
	text := strings.TrimRight(string(data), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

// scan lists the processes whose program is called opensm, by PID.
func (p procFS) scan() ([]Process, error) {
	entries, err := os.ReadDir(p.path())
	if err != nil {
		return nil, fmt.Errorf("search for OpenSM: %w", err)
	}
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		name, err := os.ReadFile(p.path(e.Name(), "comm"))
		if err != nil || strings.TrimSpace(string(name)) != programName {
			continue
		}
		if proc, err := p.process(pid); err == nil {
			found = append(found, proc)
		}
	}
	slices.SortFunc(found, func(a, b Process) int { return a.PID - b.PID })
	return found, nil
}

// isOpenSM reports whether the program of the process is called opensm, by its own name or
// by the file that it was started from.
func (p procFS) isOpenSM(proc Process) bool {
	if proc.Comm == programName {
		return true
	}
	exe, err := os.Readlink(p.path(strconv.Itoa(proc.PID), "exe"))
	return err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == programName
}
