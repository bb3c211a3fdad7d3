// Command demo shows forsd's main job from end to end on a simulated fabric: the
// LHCb network FT(2;20,18), 360 hosts, under a real OpenSM with forsd's plugin. A
// cable is pulled, then a spine, and both are put back; then nine cables are pulled
// at once. After each step it prints the changes that forsd saw, its plan, how long
// that took, and the duration of the exchange on the tables that the switches then
// hold, compared with OpenSM's own min-hop tables in the same state. At the end it
// compares the times with those of a forsd that only has OpenSM's files.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
)

// limit bounds the whole demonstration.
const limit = 5 * time.Minute

// tcp is where forsd answers over HTTP besides its socket.
const tcp = "127.0.0.1:7341"

func main() {
	keep := flag.Bool("keep", false, "leave everything running until interrupted, with forsd listening on "+tcp)
	forsd := flag.String("forsd", "bin/forsd", "the forsd to show")
	plugin := flag.String("plugin", "bin/libforsosm.so", "the plugin for OpenSM")
	flag.Parse()
	command.Main("demo", func(ctx context.Context) error { return run(ctx, *forsd, *plugin, *keep) })
}

func run(ctx context.Context, forsd, plugin string, keep bool) (err error) {
	limited, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the demonstration took longer than five minutes"))
	defer cancel()
	fmt.Println("FT(2;20,18), the LHCb network: 18 leaves, 20 spines, 360 hosts, an aggregation node in every switch, LMC 5; simulated by ibsim under a real OpenSM.")
	o := e2e.Options{Fabric: fabgen.WithAggregation(fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5})), LMC: 5, Forsd: forsd,
		Conf: map[string]string{"honor_guid2lid_file": "TRUE"}}
	steps := makeSteps()
	costs, err := minhop(limited, o, steps)
	if err != nil {
		return fmt.Errorf("min-hop: %w", err)
	}
	byFiles, err := files(limited, o, steps)
	if err != nil {
		return fmt.Errorf("forsd by files: %w", err)
	}
	o.Plugin = plugin
	if keep {
		o.Config = "  listen: " + tcp + "\n"
	}
	s, err := e2e.New(limited, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := firstStart(limited, s, costs); err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	byPlugin := make([]times, len(steps))
	for i, st := range steps {
		if byPlugin[i], err = walk(limited, s, st, costs); err != nil {
			return fmt.Errorf("%s: %w", st.title, err)
		}
	}
	printCosts(costs)
	printTimes(steps, byFiles, byPlugin)
	if keep {
		fmt.Printf("\nLeft running. Ask it:\n  bin/forsctl --server %s status\n  curl http://%s/v1/status\nPull a cable, and put it back:\n  echo 'unlink \"Leaf003\"[25]' > %s\n  echo 'relink \"Leaf003\"[25]' > %[3]s\nInterrupt (Ctrl-C) to end.\n",
			s.Socket(), tcp, filepath.Join(s.Sim.Dir(), "console"))
		<-ctx.Done()
	}
	return nil
}

// firstStart starts forsd and OpenSM without a table file.
func firstStart(ctx context.Context, s *e2e.Site, c costs) error {
	fmt.Println("\nforsd and its plugin in OpenSM, with routing_engine fors,file,updn; no table file exists yet.")
	if _, err := os.Stat(s.TableFile()); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists already (%w)", s.TableFile(), err)
	}
	if err := s.StartForsd(); err != nil {
		return err
	}
	if err := s.StartOpenSM(ctx); err != nil {
		return err
	}
	st := step{title: "first start", state: healthy}
	status, err := s.Settled(ctx, nil)
	if err != nil {
		return err
	}
	if err := check(ctx, s, st, c); err != nil {
		return err
	}
	show(st.title, status, "1 plan published")
	return nil
}

// minhop lets OpenSM route by min-hop through the same states.
func minhop(ctx context.Context, o e2e.Options, steps []step) (c costs, err error) {
	fmt.Println("\nOpenSM's own min-hop tables, read back from the switches, exchange by linear shift:")
	o.Engine = "minhop"
	s, err := e2e.New(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.StartOpenSM(ctx); err != nil {
		return nil, err
	}
	if _, _, err := s.SM.WaitLog(ctx, ibsim.SubnetUp, 0); err != nil {
		return nil, err
	}
	c = costs{}
	measure := func(state string) error {
		if c[state] != nil {
			return nil
		}
		if err := s.SM.Sweep(ctx); err != nil {
			return err
		}
		r, err := shiftOn(ctx, s, o.Fabric)
		if err != nil {
			return err
		}
		c[state] = &cost{minhop: r}
		fmt.Printf("  %-16s %.2f transfers on the busiest link of a phase on average, relative throughput %.3f\n", state, r.Mean, r.RelativeThroughput)
		return nil
	}
	if err := measure(healthy); err != nil {
		return nil, err
	}
	for _, st := range steps {
		if err := st.do(ctx, s.Sim); err != nil {
			return nil, err
		}
		if err := measure(st.state); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// files goes through the steps with a forsd that only has OpenSM's files, and returns
// the times.
func files(ctx context.Context, o e2e.Options, steps []step) (all []times, err error) {
	fmt.Println("\nforsd with OpenSM by files, with routing_engine file,updn: the same steps, timed alone.")
	o.Traps = "off"
	s, err := e2e.New(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Up(ctx); err != nil {
		return nil, err
	}
	for _, st := range steps {
		began := time.Now()
		if err := st.do(ctx, s.Sim); err != nil {
			return nil, fmt.Errorf("%s: %w", st.title, err)
		}
		status, err := s.Settled(ctx, st.seen)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", st.title, err)
		}
		all = append(all, timesOf(status, began))
	}
	return all, nil
}

// walk does one step, waits until forsd has dealt with it, and checks the site
// from outside.
func walk(ctx context.Context, s *e2e.Site, st step, c costs) (t times, err error) {
	before, err := s.Client.Status(ctx)
	if err != nil {
		return t, err
	}
	from, began := s.SM.LogSize(), time.Now()
	if err := st.do(ctx, s.Sim); err != nil {
		return t, err
	}
	status, err := s.Settled(ctx, st.seen)
	if err != nil {
		return t, err
	}
	if err := check(ctx, s, st, c); err != nil {
		return t, err
	}
	log, err := s.SM.Log()
	if err != nil {
		return t, err
	}
	show(st.title, status, fmt.Sprintf("%s published; %s of OpenSM, %d with tables that forsd gave",
		command.Plural(int(status.Epoch-before.Epoch), "plan", "plans"), command.Plural(bytes.Count(log[from:], []byte(ibsim.SubnetUp)), "sweep", "sweeps"),
		bytes.Count(log[from:], []byte("fors tables configured"))))
	return timesOf(status, began), nil
}

// check compares the site with forsd's promises, and simulates the plan.
func check(ctx context.Context, s *e2e.Site, st step, c costs) error {
	sight, err := s.Check(ctx)
	if err != nil {
		return err
	}
	plan, err := s.Client.Table(ctx)
	if err != nil {
		return err
	}
	if c[st.state].forsd, err = sim.Run(sight.Tree.Fabric, sight.Tables, sim.RowsOf(plan)); err != nil {
		return err
	}
	base, err := s.Client.BaseTable(ctx)
	if err != nil {
		return err
	}
	c[st.state].base, err = sim.Run(sight.Tree.Fabric, sight.Tables, sim.RowsOf(base))
	return err
}
