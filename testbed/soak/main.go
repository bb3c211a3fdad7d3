// Command soak lets faults and repairs rain on a real OpenSM with forsd beside it, on a
// simulated fabric: cables, spines, leaves and hosts that go and come back, bursts, cables
// that bounce or are plugged into the wrong ports, and
// meanwhile forsd and OpenSM killed or stopped, managers that take over from each other,
// full disks, clocks that are stepped. After each event the plan is fetched as a rank does,
// and walked on tables that another program has read out of the switches.
//
// The events follow from the seed alone. The log has each of them in a form that -replay
// takes, so that a run can be repeated from its log, also without its beginning or its end.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// options are what a run is made of.
type options struct {
	Seed    uint64
	Events  int
	Mode    string // files, or plugin with two managers
	Fabric  string // spines x leaves
	Replay  string // a log whose events are repeated; "" draws them
	Log     string // where the log goes
	Without string // disturbances to leave out, separated by commas
	Forsd   string // "" builds one
	Plugin  string
}

func main() {
	var o options
	flag.Uint64Var(&o.Seed, "seed", 1, "of the random events")
	flag.IntVar(&o.Events, "events", 100, "how many there are")
	flag.StringVar(&o.Mode, "mode", "plugin", "how forsd and OpenSM meet: plugin or files")
	flag.StringVar(&o.Fabric, "fabric", "6x6", "spines x leaves; as many hosts on a leaf as there are spines")
	flag.StringVar(&o.Replay, "replay", "", "repeat the events of this log")
	flag.StringVar(&o.Log, "log", "soak.log", "the log to write")
	flag.StringVar(&o.Without, "without", "", "disturbances to leave out: kill-forsd,kill-opensm,disk-full,clock,hang-forsd,handover")
	flag.StringVar(&o.Plugin, "plugin", "bin/libforsosm.so", "the plugin for OpenSM")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	f, err := run(ctx, o)
	stop()
	if f != nil {
		f.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "soak: %v\n", err)
		os.Exit(1)
	}
}

// run carries out the events. The figures are those up to the first violation, which is
// the error.
func run(ctx context.Context, o options) (f *figures, err error) {
	s, end, err := start(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	next, err := source(o, s.world)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(o.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	fmt.Fprintf(log, "# seed %d, events %d, mode %s, fabric %s, without %q\n", o.Seed, o.Events, o.Mode, o.Fabric, o.Without)
	w := newWatch()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go w.follow(watching, s.first.Client)
	if s.second != nil {
		go w.follow(watching, s.second.Client)
	}
	f = &figures{options: o, kinds: map[string]int{}, began: time.Now()}
	for n := 1; ; n++ {
		e, ok := next()
		if !ok {
			return f, nil
		}
		fmt.Fprintf(log, "%s", e)
		err := s.carry(ctx, e)
		took, plans, broken := w.since(s.acted)
		if err = errors.Join(err, broken); err != nil {
			fmt.Fprintf(log, " # violated: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
			return f, fmt.Errorf("event %d, %s: %w; the log is %s, and those of the programs are in %s", n, e, err, o.Log, keepLogs(s))
		}
		fmt.Fprintf(log, " # %v, %d plans, the first after %.1f ms\n", time.Since(s.acted).Round(time.Millisecond), plans, float64(took.Microseconds())/1000)
		f.add(e, took, plans)
	}
}

// source draws the events, or reads them.
func source(o options, w *world) (func() (event, bool), error) {
	if o.Replay == "" {
		rng, plan, n := rand.New(rand.NewPCG(o.Seed, 19)), w.clone(), 0
		return func() (event, bool) {
			if n++; n > o.Events {
				return event{}, false
			}
			return plan.draw(rng, strings.Split(o.Without, ",")), true
		}, nil
	}
	file, err := os.Open(o.Replay)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []event
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		e, err := parseEvent(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Replay, err)
		}
		all = append(all, e)
	}
	n := 0
	return func() (event, bool) {
		if n++; n > len(all) {
			return event{}, false
		}
		return all[n-1], true
	}, lines.Err()
}

// settings have forsd's patience in seconds where an operator's would be minutes.
const settings = "damping: {hold_down: 1s, max_hold_down: 2s, flaps: 3, window: 5s}\nretry: {first: 100ms, max: 1s}\n"

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
	s = &site{}
	if err := s.programs(ctx, o, dir); err != nil {
		return nil, nil, err
	}
	fabric := fabgen.Generate(spec)
	options := e2e.Options{Fabric: fabric, LMC: spec.LMC, Forsd: o.Forsd, Config: settings}
	switch o.Mode {
	case "files":
		o.Without += ",handover"
	case "plugin":
		options.Plugin, options.Deadline = o.Plugin, 10*time.Second
		options.Pair, options.Conf = true, map[string]string{"sm_priority": "10"}
	default:
		return nil, nil, fmt.Errorf("mode %q: want files or plugin", o.Mode)
	}
	if s.first, err = e2e.New(ctx, options); err != nil {
		return nil, nil, err
	}
	closers = append(closers, s.first.Close)
	s.leader = s.first
	keep := []int{0}
	if options.Pair {
		last := fabric.Nodes[0].GUID
		for i := range fabric.Nodes {
			if n := &fabric.Nodes[i]; n.Kind == topology.Adapter {
				last = n.GUID
			}
		}
		if s.second, err = s.first.Second(last.String(), map[string]string{"sm_priority": "5"}); err != nil {
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

// programs builds what is not there: a forsd whose clock can be stepped, unless no clock is.
func (s *site) programs(ctx context.Context, o *options, dir string) (err error) {
	switch {
	case o.Forsd != "":
	case strings.Contains(o.Without, "clock"):
		o.Forsd, err = e2e.Build(ctx, dir)
	default:
		s.clock = filepath.Join(dir, "clock")
		o.Forsd, err = buildSteppable(ctx, dir, s.clock)
	}
	return err
}

// ownDisk gives a directory a small file system of its own.
func ownDisk(dir string) (unmount func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mount("forsd", dir, "tmpfs", 0, "size=64m"); err != nil {
		return nil, fmt.Errorf("mount a small file system, which takes root: %w", err)
	}
	return func() error { return syscall.Unmount(dir, syscall.MNT_DETACH) }, nil
}

// keepLogs copies the logs of the programs to where they outlive the run.
func keepLogs(s *site) string {
	dir, err := os.MkdirTemp("", "forsd-soak-logs-")
	if err != nil {
		return err.Error()
	}
	for i, one := range []*e2e.Site{s.first, s.second} {
		if one == nil {
			continue
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
