package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
)

// settings give forsd a patience of seconds instead of an operator's minutes.
// An isolated cable does not come back by itself within a run, however the clock is stepped,
// nor is one isolated because it was pulled often. Counters are read as often as the machine
// that plays all switches can answer in addition to the events.
func settings(every time.Duration) string {
	short := max(4*time.Second, 2*every)
	return fmt.Sprintf(`damping: {hold_down: 1s, max_hold_down: 2s, flaps: 3, window: 5s}
retry: {first: 100ms, max: 1s}
drains: {grace: 300ms}
jobs: {base_lids: never}
cables: {mode: isolate, every: %v, max_cost: 1000, short: %v, short_ber: 1.3e-11, long: %v, long_ber: 1.3e-11, test: 10h, probation: 1s, flaps: 1000000}
`, every, short, 2*short)
}

// start brings up the site.
func start(ctx context.Context, o *options) (s *site, end func() error, err error) {
	var spec fabgen.Spec
	if n, err := fmt.Sscanf(o.Fabric, "%dx%d", &spec.Spines, &spec.Leaves); n != 2 || err != nil || spec.Spines < 2 || spec.Leaves < 3 {
		return nil, nil, fmt.Errorf("fabric %q: want SPINESxLEAVES, such as 6x6", o.Fabric)
	}
	for 1<<spec.LMC < spec.Spines {
		spec.LMC++
	}
	dir, err := os.MkdirTemp("", "forsd-soak-")
	if err != nil {
		return nil, nil, err
	}
	var closers []func() error
	down := func() error {
		var errs []error
		for i := len(closers); i > 0; i-- {
			errs = append(errs, closers[i-1]())
		}
		return errors.Join(append(errs, os.RemoveAll(dir))...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, down())
		}
	}()
	every := max(500*time.Millisecond, time.Duration(spec.Spines*spec.Leaves)*8*time.Millisecond)
	s = &site{lids: 1 << spec.LMC, leases: map[string]lease{}, counted: map[place]*count{}}
	if err := s.programs(ctx, o, dir); err != nil {
		return nil, nil, err
	}
	fabric := fabgen.Generate(spec)
	conf := func(priority string) map[string]string {
		return map[string]string{"sm_priority": priority, "force_link_width": "0"}
	}
	options := e2e.Options{Fabric: fabric, LMC: spec.LMC, Forsd: o.Forsd, Config: settings(every), Conf: conf("10"), Reports: true}
	switch o.Mode {
	case "files":
		o.Without += ",handover"
	case "plugin":
		options.Plugin, options.Deadline = o.Plugin, 10*time.Second
		options.Pair = true
	default:
		return nil, nil, fmt.Errorf("mode %q: want files or plugin", o.Mode)
	}
	if s.first, err = e2e.New(ctx, options); err != nil {
		return nil, nil, err
	}
	s.first.Judge.Everyone = true
	closers = append(closers, s.first.Close)
	s.leader = s.first
	keep := []int{0}
	if options.Pair {
		if s.second, err = s.first.Second(conf("5")); err != nil {
			return nil, nil, err
		}
		closers = append(closers, s.second.Close)
		keep = append(keep, spec.Leaves-1)
	}
	for _, one := range []*e2e.Site{s.first, s.second} {
		if one == nil {
			continue
		}
		unmount, err := ownDisk(one.StateDir())
		if err != nil {
			return nil, nil, err
		}
		closers = append(closers, unmount)
	}
	return s, down, s.begin(ctx, keep)
}

// programs builds the missing programs: a forsd whose clock can be stepped, unless no clock is.
func (s *site) programs(ctx context.Context, o *options, dir string) (err error) {
	switch {
	case o.Forsd != "":
	case strings.Contains(o.Without, "clock"):
		o.Forsd, err = e2e.Build(ctx, dir)
	default:
		o.Forsd, err = e2e.BuildSteppable(ctx, dir)
	}
	return err
}

// ownDisk gives a directory a small file system of its own.
func ownDisk(dir string) (unmount func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mount("forsd", dir, "tmpfs", 0, "size=256m"); err != nil {
		return nil, fmt.Errorf("mount a small file system, which takes root: %w", err)
	}
	return func() error { return syscall.Unmount(dir, syscall.MNT_DETACH) }, nil
}

// keepLogs copies the logs of the programs to a directory that outlives the run. Each forsd is
// ended first by the signal that makes it log its goroutines.
func keepLogs(sites ...*e2e.Site) string {
	dir, err := os.MkdirTemp("", "forsd-soak-logs-")
	if err != nil {
		return err.Error()
	}
	for i, one := range sites {
		if one == nil {
			continue
		}
		if one.Forsd != nil && syscall.Kill(one.Forsd.PID(), syscall.SIGQUIT) == nil {
			select {
			case <-one.Forsd.Done():
			case <-time.After(10 * time.Second):
			}
		}
		for _, path := range []string{filepath.Join(one.Dir(), "forsd.log"), filepath.Join(one.ManagerDir(), "opensm.log")} {
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-%s", i+1, filepath.Base(path))), text, 0o644)
			}
			if err != nil {
				return err.Error()
			}
		}
	}
	return dir
}
