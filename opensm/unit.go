package opensm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/coreos/go-systemd/v22/dbus"
)

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
