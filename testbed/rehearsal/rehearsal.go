// Package rehearsal plays random failures, returns, kills, handovers, jobs and drains on any
// fabric that forsd plans: simulated, under two real OpenSM with a forsd each. After each event
// the second judge checks tables and plans.
package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/report"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/judge"
	"github.com/forsd/forsd/topology"
)

// Options are the settings of a rehearsal.
type Options struct {
	Fabric *topology.Fabric
	LMC    uint8
	Conf   map[string]string // further settings of opensm.conf
	Seed   uint64
	Events int
	Forsd  string // paths of the program and of OpenSM's plugin
	Plugin string

	Played func(report.Played)                                                   // is told of each event
	Judged func(context.Context, *judge.Site, *judge.Fabric, judge.Tables) error // checks more after each event; nil checks nothing
}

// Run carries out a rehearsal and fills in its report. It ends with the first violation, which is
// in the report, or with ctx. The error is that the site did not come up.
func Run(ctx context.Context, o Options, r *report.Rehearsal) (err error) {
	began := time.Now()
	s, err := start(ctx, &o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	w := s.Watch(watching)
	before, err := s.rest(ctx)
	if err != nil {
		return fmt.Errorf("before all events: %w; the logs of the programs are in %s", err, s.KeepLogs())
	}
	r.Kind, r.Servers, r.Leaves, r.Lanes, r.LMC = before.FabricKind, before.Servers, len(s.world.start.Leaves), before.Lanes, int(o.LMC)
	r.Phases, r.LowerBound = before.Phases, before.LowerBound
	w.Warned()
	rng := rand.New(rand.NewPCG(o.Seed, 19))
	for n := 1; n <= o.Events && ctx.Err() == nil && r.Violation() == ""; n++ {
		was, next := s.world, *s.world
		e := next.draw(rng)
		s.look()
		after, err := s.carry(ctx, e, was, &next)
		if ctx.Err() != nil {
			break
		}
		s.look()
		took, plans, broken := w.Since(s.acted)
		p := report.Played{Number: n, Change: e.change, Where: e.where, With: e.with, PhasesBefore: before.Phases, Plans: plans, PlanSeconds: took.Seconds(), RestSeconds: max(0, s.still.Sub(s.acted).Seconds())}
		p.Warnings = note(r, before.Warnings, w.Warned())
		if err = errors.Join(err, broken); err != nil {
			p.Violation = fmt.Sprintf("%v; the logs of the programs are in %s", err, s.KeepLogs())
		} else {
			p.PhasesAfter, before = after.Phases, after
		}
		r.Events = append(r.Events, p)
		if o.Played != nil {
			o.Played(p)
		}
	}
	r.Seconds, r.Programs = time.Since(began).Seconds(), s.used()
	return nil
}

// note returns the codes of the warnings that came, without those in force before, and counts
// them.
func note(r *report.Rehearsal, before []api.Warning, all map[string]api.Warning) (came []string) {
	for _, code := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(before, func(w api.Warning) bool { return w.Code == code }) {
			continue
		}
		came = append(came, code)
		i := slices.IndexFunc(r.Warnings, func(w report.Warned) bool { return w.Code == code })
		if i < 0 {
			i = len(r.Warnings)
			r.Warnings = append(r.Warnings, report.Warned{Code: code, Severity: health.Severity(all[code].Severity), Title: all[code].Title})
		}
		r.Warnings[i].Events++
	}
	return came
}

// life is the usage of a process.
type life struct {
	program string
	cpu     float64 // seconds
	peak    int64   // KiB
}

// look notes the usage of all programs.
func (s *site) look() {
	for _, one := range []*e2e.Site{s.First, s.Second} {
		for program, pid := range map[string]int{"forsd": one.Forsd.PID(), "opensm": one.SM.PID()} {
			if cpu, peak, err := usage(pid); err == nil {
				s.lives[pid] = life{program, cpu, peak}
			}
		}
	}
}

// used sums up the usage of each program as it was noted last.
func (s *site) used() (out []report.Used) {
	for _, program := range []string{"forsd", "opensm"} {
		u := report.Used{Program: program}
		for _, l := range s.lives {
			if l.program == program {
				u.CPUSeconds += l.cpu
				u.PeakMiB = max(u.PeakMiB, float64(l.peak)/1024)
			}
		}
		out = append(out, u)
	}
	return out
}

// usage is the processor time and the peak of the memory of a process so far.
func usage(pid int) (cpu float64, peak int64, err error) {
	dir := filepath.Join("/proc", fmt.Sprint(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, 0, err
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	var user, system float64
	if f := strings.Fields(fields); len(f) > 12 {
		if _, err := fmt.Sscan(f[11]+" "+f[12], &user, &system); err != nil {
			return 0, 0, err
		}
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0, 0, err
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscan(line, &peak)
	return (user + system) / 100, peak, err // the kernel counts hundredths for all programs
}
