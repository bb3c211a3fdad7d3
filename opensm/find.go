package opensm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
)

// ErrNotRunning means that no OpenSM runs.
var ErrNotRunning = errors.New("OpenSM is not running")

// Finder finds the OpenSM that forsd works with. Errors wrap ErrNotRunning when
// there is none.
type Finder interface {
	Find(ctx context.Context) (Process, error)
}

// PIDFile finds OpenSM by the file that its option --pidfile names. A process that is not
// called opensm does not count: the file may be stale.
type PIDFile struct {
	Path string
	proc procFS
}

// Find reads the file and looks at the process.
func (f PIDFile) Find(context.Context) (Process, error) {
	data, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return Process{}, fmt.Errorf("%w: there is no PID file %s", ErrNotRunning, f.Path)
	}
	if err != nil {
		return Process{}, fmt.Errorf("find OpenSM: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return Process{}, fmt.Errorf("find OpenSM: %s holds %.40q, which is not a process ID", f.Path, data)
	}
	p, err := f.proc.process(pid)
	if err != nil {
		return Process{}, fmt.Errorf("PID file %s: %w", f.Path, err)
	}
	if !f.proc.isOpenSM(p) {
		return Process{}, fmt.Errorf("%w: PID file %s is stale, %s is another program", ErrNotRunning, f.Path, p)
	}
	return p, nil
}

// Search finds OpenSM among all processes of the machine. It must be the only
// one there. Anybody may call a process opensm, so only root's count, and those of the
// user that asks.
type Search struct{ proc procFS }

// Find looks for processes called opensm.
func (s Search) Find(context.Context) (Process, error) {
	all, err := s.proc.scan()
	var found, strange []Process
	for _, p := range all {
		if p.UID == 0 || p.UID == os.Geteuid() {
			found = append(found, p)
		} else {
			strange = append(strange, p)
		}
	}
	switch {
	case err != nil:
		return Process{}, err
	case len(found) == 0 && len(strange) > 0:
		return Process{}, fmt.Errorf("%w: %s is called %s, but is the process of user %d: name it by its PID file or systemd unit if it is the one", ErrNotRunning, strange[0], programName, strange[0].UID)
	case len(found) == 0:
		return Process{}, fmt.Errorf("%w: no process is called %s", ErrNotRunning, programName)
	case len(found) == 1:
		return found[0], nil
	}
	return Process{}, severalFound(found)
}

// severalFound returns the error that lists candidates.
func severalFound(found []Process) error {
	names := make([]string, len(found))
	for i, p := range found {
		names[i] = p.String()
	}
	return fmt.Errorf("find OpenSM: %d are running: %s; name the one to work with by its PID file or systemd unit", len(found), strings.Join(names, ", "))
}

// FirstOf asks its finders in turn until one finds OpenSM, or fails otherwise
// than by ErrNotRunning.
type FirstOf []Finder

// Find asks the finders.
func (f FirstOf) Find(ctx context.Context) (Process, error) {
	var missing []string
	for _, finder := range f {
		p, err := finder.Find(ctx)
		if err == nil || !errors.Is(err, ErrNotRunning) {
			return p, err
		}
		missing = append(missing, strings.TrimLeft(strings.TrimPrefix(err.Error(), ErrNotRunning.Error()), ": "))
	}
	return Process{}, fmt.Errorf("%w: %s", ErrNotRunning, strings.Join(missing, "; "))
}

// Unit finds OpenSM as the main process of a systemd unit.
type Unit struct {
	Pattern string // a unit's name or a glob pattern, "" for DefaultUnit

	list func(ctx context.Context, pattern string) (map[string]int, error)
	proc procFS
}

// Find asks systemd for the active units. Where systemd is not there to be
// asked, the error wraps ErrNotRunning: OpenSM is not running under it.
func (u Unit) Find(ctx context.Context) (Process, error) {
	pattern := cmp.Or(u.Pattern, DefaultUnit)
	list := u.list
	if list == nil {
		list = mainPIDs
	}
	pids, err := list(ctx, pattern)
	if err != nil {
		return Process{}, fmt.Errorf("%w under systemd: unit %s: %w", ErrNotRunning, pattern, err)
	}
	var found []Process
	for _, pid := range slices.Compact(slices.Sorted(maps.Values(pids))) {
		p, err := u.proc.process(pid)
		if err == nil && u.proc.isOpenSM(p) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return Process{}, fmt.Errorf("%w: no active unit %s has it as its main process", ErrNotRunning, pattern)
	case 1:
		return found[0], nil
	}
	return Process{}, severalFound(found)
}

// mainPIDs asks systemd for the main process of every active unit that matches.
func mainPIDs(ctx context.Context, pattern string) (map[string]int, error) {
	conn, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to systemd: %w", err)
	}
	defer conn.Close()
	units, err := conn.ListUnitsByPatternsContext(ctx, []string{"active"}, []string{pattern})
	if err != nil {
		return nil, fmt.Errorf("list units: %w", err)
	}
	pids := make(map[string]int)
	for _, unit := range units {
		property, err := conn.GetUnitTypePropertyContext(ctx, unit.Name, "Service", "MainPID")
		if err != nil {
			return nil, fmt.Errorf("ask for the main process of %s: %w", unit.Name, err)
		}
		if pid, ok := property.Value.Value().(uint32); ok && pid > 1 {
			pids[unit.Name] = int(pid)
		}
	}
	return pids, nil
}
