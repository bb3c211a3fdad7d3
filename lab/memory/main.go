// Command memory measures the memory of forsd with an OpenSM on FT(2;32,32), simulated
// by ibsim: at rest after its start, and while cables die and return one after another.
// Several programs take turns, each from an empty state directory, so that other load on
// the machine affects all of them. With -idle it measures one program at rest: memory and
// processor time without history, with it, and with a page open.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
)

const leaves, spines = 32, 32

// moments are the times of measurement, after the change has settled.
var moments = []time.Duration{2 * time.Second, 10 * time.Second}

func main() {
	programs := flag.String("forsd", "bin/forsd", "the programs to measure, with commas between them")
	starts := flag.Int("starts", 5, "how often each is started")
	failures := flag.Int("failures", 0, "how many cables die and return in each start")
	idle := flag.Duration("idle", 0, "measure the first program at rest for so long instead, without history, with it, and with a page open")
	flag.Parse()
	names := strings.Split(*programs, ",")
	command.Main("memory", func(ctx context.Context) error {
		if *idle > 0 {
			return measureIdle(ctx, names[0], *starts, *idle)
		}
		return run(ctx, names, *starts, *failures)
	})
}

func run(ctx context.Context, programs []string, starts, failures int) error {
	all := make([][][]int, len(programs))
	for n := range starts {
		for i, program := range programs {
			found, err := measure(ctx, program, failures)
			if err != nil {
				return fmt.Errorf("%s, start %d: %w", program, n+1, err)
			}
			fmt.Printf("%s %d: %v MB\n", program, n+1, found)
			all[i] = append(all[i], found)
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nresident MB, median of %d\t", starts)
	for _, m := range moments {
		fmt.Fprintf(w, "after %v\t", m)
	}
	fmt.Fprint(w, "most until then\t")
	if failures > 0 {
		fmt.Fprintf(w, "most by %d failures\tafter these\t", failures)
	}
	fmt.Fprintln(w)
	for i, program := range programs {
		fmt.Fprintf(w, "%s\t", program)
		for k := range all[i][0] {
			values := make([]int, starts)
			for n := range values {
				values[n] = all[i][n][k]
			}
			slices.Sort(values)
			fmt.Fprintf(w, "%d\t", values[starts/2])
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// measure starts a program and returns its memory: at the moments, the peak until then and, if
// cables die and return, the peak until their end and the memory after it.
func measure(ctx context.Context, program string, failures int) (found []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	site, err := e2e.New(ctx, options(program))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	if err := site.Up(ctx); err != nil {
		return nil, err
	}
	look := func(key string) {
		kb, lookErr := resident(site.Forsd.PID(), key)
		found, err = append(found, kb/1024), errors.Join(err, lookErr)
	}
	settled := time.Now()
	for _, m := range moments {
		time.Sleep(time.Until(settled.Add(m)))
		look("VmRSS:")
	}
	look("VmHWM:")
	if failures == 0 || err != nil {
		return found, err
	}
	for n := range failures {
		leaf, lane := (5*n+3)%leaves, (7*n+4)%spines
		for _, change := range []struct {
			act   func(context.Context, string, int) error
			state string
		}{{site.Sim.Unlink, "missing"}, {site.Sim.Relink, "full"}} {
			if err := change.act(ctx, fmt.Sprintf("Leaf%03d", leaf), spines+1+lane); err != nil {
				return nil, err
			}
			if _, err := site.Settled(ctx, e2e.Cable(leaf, lane, change.state)); err != nil {
				return nil, err
			}
		}
	}
	look("VmHWM:")
	time.Sleep(moments[1])
	look("VmRSS:")
	return found, err
}

// options are the site that is measured.
func options(program string) e2e.Options {
	return e2e.Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: leaves}), Forsd: program, LMC: 5,
		Traps: "off", Config: "damping: {flaps: 1000}\n", Conf: map[string]string{"sweep_interval": "600", "honor_guid2lid_file": "TRUE"}}
}

// resident is a figure of a process's status, in kB.
func resident(pid int, key string) (kb int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), key)
	if _, err = fmt.Sscan(rest, &kb); err != nil {
		return 0, fmt.Errorf("%s of process %d: %w", key, pid, err)
	}
	return kb, nil
}
