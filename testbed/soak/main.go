// Command soak sends random faults and repairs to a real OpenSM with forsd, on a simulated
// fabric: cables, spines, leaves and hosts that go and come back, bursts, cables that bounce,
// lose width, count errors or are plugged into the wrong ports, parts that an operator drains
// and gives back, and jobs whose leases end. At the same time forsd and OpenSM are killed or
// stopped, managers take over from each other, disks are full, and clocks are stepped or
// stopped. After each event soak fetches the plan as a rank does, and walks it on tables that
// another program has read out of the switches.
//
// The events follow from the seed alone. The log has each of them in the form of -replay, so
// that a run can be repeated from its log, also without its beginning or its end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/internal/command"
)

// options are the settings of a run.
type options struct {
	Seed    uint64
	Events  int
	Mode    string // files, or plugin with two managers
	Fabric  string // spines x leaves, or 4-ary
	Replay  string // a log whose events are repeated; "" draws them
	Log     string // path of the log
	Without string // disturbances to leave out, separated by commas
	Pause   string // no event begins while this file exists
	Forsd   string // "" builds one
	Plugin  string
}

func main() {
	var o options
	flag.Uint64Var(&o.Seed, "seed", 1, "of the random events")
	flag.IntVar(&o.Events, "events", 100, "how many there are")
	flag.StringVar(&o.Mode, "mode", "plugin", "how forsd and OpenSM meet: plugin or files")
	flag.StringVar(&o.Fabric, "fabric", "6x6", "spines x leaves, with as many hosts on a leaf as there are spines; or 4-ary, a tree of three levels")
	flag.StringVar(&o.Replay, "replay", "", "repeat the events of this log, on its fabric and in its mode")
	flag.StringVar(&o.Log, "log", "soak.log", "the log to write")
	flag.StringVar(&o.Without, "without", "", "disturbances to leave out: kill-forsd,kill-opensm,disk-full,clock,hang-forsd,handover")
	flag.StringVar(&o.Pause, "pause", "", "begin no event while there is such a file")
	flag.StringVar(&o.Forsd, "forsd", "", "a forsd to take in place of one built now, whose clock is then the host's")
	flag.StringVar(&o.Plugin, "plugin", "bin/libforsosm.so", "the plugin for OpenSM")
	flag.Parse()
	command.Main("soak", func(ctx context.Context) error {
		if err := o.takeHead(); err != nil {
			return err
		}
		f, err := o.carryOut(ctx)
		if f != nil {
			f.print(os.Stdout, "")
		}
		return err
	})
}

// carryOut carries out the events on the fabric of the options.
func (o options) carryOut(ctx context.Context) (*figures, error) {
	if k := o.arity(); k > 0 {
		return runPods(ctx, o, k)
	}
	return run(ctx, o)
}

// arity is the arity of a tree of three levels, 0 if the fabric has two.
func (o options) arity() int {
	if k, ok := strings.CutSuffix(o.Fabric, "-ary"); ok {
		n, _ := strconv.Atoi(k)
		return n
	}
	return 0
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
	fmt.Fprintln(log, o.head())
	watching, stop := context.WithCancel(ctx)
	defer stop()
	w := s.Watch(watching)
	f = &figures{options: o, kinds: map[string]int{}, began: time.Now()}
	defer func() { f.print(log, "# ") }()
	for n := 1; ; n++ {
		e, ok := next()
		if !ok {
			return f, nil
		}
		o.pause(ctx)
		fmt.Fprintf(log, "%s", e)
		s.tails()
		err := s.carry(ctx, e)
		f.overruns = s.Overruns()
		took, plans, broken := w.Since(s.acted)
		if err = errors.Join(err, broken); err != nil {
			fmt.Fprintf(log, " # %s violated: %s\n", s.acted.UTC().Format("15:04:05.000"), strings.ReplaceAll(err.Error(), "\n", "; "))
			return f, fmt.Errorf("event %d, %s: %w; the log is %s, and those of the programs are in %s", n, e, err, o.Log, s.KeepLogs())
		}
		fmt.Fprintf(log, " # %s %v, %d plans, the first after %.1f ms\n", s.acted.UTC().Format("15:04:05.000"), time.Since(s.acted).Round(time.Millisecond), plans, float64(took.Microseconds())/1000)
		if f.add(e, took, plans); plans > 0 && took > late {
			for _, line := range s.since() {
				fmt.Fprintf(log, "#   %s\n", line)
			}
		}
	}
}

// pause waits while others need the machine.
func (o *options) pause(ctx context.Context) {
	for o.Pause != "" && ctx.Err() == nil {
		if _, err := os.Stat(o.Pause); err != nil {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}
