package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/rehearsal"
)

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
	options := e2e.Options{Fabric: fabric, LMC: spec.LMC, Forsd: o.Forsd, Config: rehearsal.Hasty(every), Conf: conf("10"), Reports: true}
	switch o.Mode {
	case "files":
		o.Without += ",handover"
	case "plugin":
		options.Plugin, options.Deadline = o.Plugin, 10*time.Second
		options.Pair = true
	default:
		return nil, nil, fmt.Errorf("mode %q: want files or plugin", o.Mode)
	}
	if s.First, err = e2e.New(ctx, options); err != nil {
		return nil, nil, err
	}
	s.First.Judge.Everyone = true
	closers = append(closers, s.First.Close)
	keep := []int{0}
	if options.Pair {
		if s.Second, err = s.First.Second(conf("5")); err != nil {
			return nil, nil, err
		}
		closers = append(closers, s.Second.Close)
		keep = append(keep, spec.Leaves-1)
	}
	for _, one := range []*e2e.Site{s.First, s.Second} {
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
