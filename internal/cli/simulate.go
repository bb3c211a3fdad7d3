package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// The schedules that are not read from a file.
const (
	linearShift = "linear-shift"
	hostShift   = "host-shift"
	allAtOnce   = "all-at-once"
)

func simulateCommand() *cobra.Command {
	var fabric command.Fabric
	var lfts string
	var schedules []string
	cmd := &cobra.Command{
		Use:   "simulate FILE --lfts FILE --schedule linear-shift|host-shift|all-at-once|FILE…",
		Short: "Count the transfers on every link, phase by phase, of any schedule over any tables",
		Long: `Simulate walks every transfer of a schedule through forwarding tables and counts
the transfers on every link. A phase takes as long as its busiest link has
transfers; the relative throughput is (P−1) over the sum of these, 1 for an
exchange that takes no longer than the servers' own cables dictate.

The tables may be forsd's or OpenSM's own (opensm-lfts.dump, or the output of
dump_fts). The schedule is linear-shift, in which every server of a fat tree
sends to the one p places on in phase p, on base LIDs; host-shift, the same for
the hosts of a fabric of any shape, in the order of their switches; all-at-once, in
which every server of a fat tree, or every host of another fabric, sends to all others
in one phase, on base LIDs, as programs do that keep no order; or a phases.csv or
phases.bin, on any shape as well.

Several schedules are several exchanges side by side, such as jobs: phase p of
each runs in step p, and a phase of one takes as long as the busiest link that it
uses. The sum of all is shown with what each takes alone and beside the others.
Jobs on a real machine are not in step: this is one of many ways in which they
can meet.`,
		Example: `  dump_fts >tables.dump
  forsctl simulate ibnetdiscover.txt --lfts tables.dump --schedule linear-shift
  forsctl simulate ibnetdiscover.txt --lfts plan/lfts.dump --schedule plan/phases.bin --json
  forsctl simulate ibnetdiscover.txt --lfts tables.dump --schedule job1.bin --schedule job2.bin`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(schedules) == 0 {
				schedules = []string{""}
			}
			if len(schedules) == 1 && schedules[0] == allAtOnce {
				return simulateAtOnce(cmd, &fabric, lfts)
			}
			var f *topology.Fabric
			rows := make([][]sim.Row, len(schedules))
			for i, schedule := range schedules {
				var err error
				if f, rows[i], err = scheduled(&fabric, schedule); err != nil {
					return err
				}
			}
			tables, err := command.ReadTablesOf(cmd, f, fabric.Topology, lfts)
			if err != nil {
				return err
			}
			if len(schedules) > 1 {
				return simulateTogether(cmd, f, tables, schedules, rows)
			}
			result, err := sim.Run(f, tables, rows[0])
			if err != nil {
				return fmt.Errorf("%s on %s: %w", schedules[0], fabric.Topology, err)
			}
			return showSimulation(cmd, result)
		},
	}
	registerFabric(&fabric, cmd)
	fabric.TakesFile(cmd)
	cmd.Flags().StringVar(&lfts, "lfts", "", "forwarding tables: lfts.dump, opensm-lfts.dump, or the output of dump_fts")
	cmd.Flags().StringArrayVar(&schedules, "schedule", nil, "linear-shift, host-shift, or a phases.csv or phases.bin, repeatable; or all-at-once")
	return cmd
}

// simulateAtOnce shows the load on cables if all transfers of an exchange run at the same time.
func simulateAtOnce(cmd *cobra.Command, f *command.Fabric, lfts string) error {
	var fabric *topology.Fabric
	var groups [][]topology.EndPort
	tree, err := f.Tree()
	if _, other := errors.AsType[*topology.NotFatTree](err); other {
		groups = make([][]topology.EndPort, 1)
		fabric, groups[0], err = f.Hosts()
	} else if err == nil {
		fabric, groups = tree.Fabric, tree.ByExchange()
	}
	if err != nil {
		return err
	}
	tables, err := command.ReadTablesOf(cmd, fabric, f.Topology, lfts)
	if err != nil {
		return err
	}
	result, err := sim.AllAtOnce(fabric, tables, groups...)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", allAtOnce, f.Topology, err)
	}
	return showSimulation(cmd, result)
}

// scheduled reads the fabric and the schedule. Only the linear shift requires a fat tree,
// because a schedule in a file names its servers.
func scheduled(f *command.Fabric, schedule string) (*topology.Fabric, []sim.Row, error) {
	switch schedule {
	case "":
		return nil, nil, fmt.Errorf("--schedule is missing: want linear-shift, host-shift, all-at-once, or a phases.csv or phases.bin")
	case allAtOnce:
		return nil, nil, fmt.Errorf("--schedule %s is one phase in which all send to all: simulate it alone", allAtOnce)
	case linearShift:
		tree, err := f.Tree()
		if err != nil {
			return nil, nil, err
		}
		return tree.Fabric, sim.LinearShift(tree), nil
	}
	if _, err := os.Stat(schedule); schedule != hostShift && err != nil {
		return nil, nil, fmt.Errorf("--schedule %s is none of linear-shift, host-shift and all-at-once, and not a file: %w", schedule, err)
	}
	fabric, err := f.Read()
	if err != nil {
		return nil, nil, err
	}
	if err := f.Damage(fabric); err != nil {
		return nil, nil, err
	}
	if schedule == hostShift {
		hosts, err := f.Without(fabric, fabric.ConnectedHosts())
		return fabric, sim.HostShift(hosts), err
	}
	p, err := readPhases("schedule", schedule)
	if err != nil {
		return nil, nil, err
	}
	rows := make([]sim.Row, len(p.rows))
	for i, r := range p.rows {
		rows[i] = sim.Row{Phase: int32(r.Phase), DLID: r.DLID, Src: r.Src, Dst: r.Dst}
	}
	return fabric, rows, nil
}

// simulateTogether shows several schedules side by side.
func simulateTogether(cmd *cobra.Command, f *topology.Fabric, tables *lft.Tables, schedules []string, rows [][]sim.Row) error {
	result, err := sim.RunTogether(f, tables, schedules, rows)
	if err != nil {
		return err
	}
	s := summarize(&result.Result)
	return command.Show(cmd, struct {
		*sim.Together
		loads
	}{result, s}, func(w io.Writer) {
		fmt.Fprintln(w, "schedule\tservers\tphases\tthroughput alone\ttogether\tphases with conflicts alone\ttogether")
		for i := range result.Schedules {
			s := &result.Schedules[i]
			fmt.Fprintf(w, "%s\t%d\t%d\t%.3f\t%.3f\t%.1f %%\t%.1f %%\n", s.Name, s.Alone.Servers, s.Alone.Phases, s.Alone.RelativeThroughput,
				s.Together.RelativeThroughput, 100*s.Alone.ConflictShare, 100*s.Together.ConflictShare)
		}
		fmt.Fprintln(w)
		printSimulation(w, &result.Result, &s)
	})
}

// loads has how many phases have each largest load.
type loads struct {
	Used  int    `json:"phases_with_transfers"`
	Loads []load `json:"largest_loads"`
}

// load is a number of transfers on the busiest link of a phase.
type load struct {
	Transfers int `json:"transfers"`
	Phases    int `json:"phases"`
}

func summarize(r *sim.Result) loads {
	s, phases := loads{Loads: []load{}}, make([]int, r.Max+1)
	for _, m := range r.PerPhaseMax {
		phases[m]++
	}
	for m := 1; m <= r.Max; m++ {
		if phases[m] > 0 {
			s.Loads = append(s.Loads, load{m, phases[m]})
			s.Used += phases[m]
		}
	}
	return s
}

// showSimulation shows the result for one schedule.
func showSimulation(cmd *cobra.Command, r *sim.Result) error {
	s := summarize(r)
	return command.Show(cmd, struct {
		*sim.Result
		loads
	}{r, s}, func(w io.Writer) { printSimulation(w, r, &s) })
}

func printSimulation(w io.Writer, r *sim.Result, s *loads) {
	var largest []string
	for _, l := range s.Loads {
		largest = append(largest, fmt.Sprintf("%d: %s", l.Transfers, command.Plural(l.Phases, "phase", "phases")))
	}
	fmt.Fprintf(w, "exchange\t%d transfers of %d servers in %d phases\n", r.Transfers, r.Servers, s.Used)
	fmt.Fprintf(w, "largest link load\t%s\n", strings.Join(largest, ", "))
	fmt.Fprintf(w, "mean, max\t%.3f, %d\n", r.Mean, r.Max)
	fmt.Fprintf(w, "conflicts\tin %.1f %% of the phases\n", 100*r.ConflictShare)
	fmt.Fprintf(w, "relative throughput\t%.3f\n", r.RelativeThroughput)
	if b := r.Busiest; b != nil && b.Transfers > 1 {
		fmt.Fprintf(w, "busiest\t%s, %d transfers in phase %d\n", b.Cable, b.Transfers, b.Phase)
	}
	if r.Lost > 0 {
		fmt.Fprintf(w, "lost\t%s; the first: %s\n", command.Plural(r.Lost, "transfer", "transfers"), r.FirstLost)
	}
}

// shownFaults is the number of faults that forsctl routes prints without --json.
const shownFaults = 10

func routesCommand() *cobra.Command {
	var fabric command.Fabric
	var lfts string
	var ports bool
	cmd := &cobra.Command{
		Use:   "routes FILE --lfts FILE",
		Short: "Say what any forwarding tables make of a fabric: reachability, credit loops, use of each cable",
		Long: `Routes follows the packets of every host to the base LID of every other one through
forwarding tables, on a fabric of any shape, and says which are lost and where, whether
links can wait for each other in a circle (a credit loop), and how evenly the cables are
used: by an exchange of all hosts at once, beside a share that no tables with one LID a
host can go below; by a shift, in which hosts send to each other in step; by rings; and by
the worst pairs, in which each host sends to one other and receives from one other.

The tables may be forsd's, OpenSM's own (opensm-lfts.dump), or the output of dump_fts.

Exit code 0: every host reaches every other, without a credit loop; 1: not so; 2: the
input cannot be used.`,
		Example: `  dump_fts >tables.dump
  forsctl routes ibnetdiscover.txt --lfts tables.dump
  forsctl routes ibnetdiscover.txt --lfts plan/lfts.dump --ports`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fabric.IgnoreUnlessGiven(); err != nil {
				return err
			}
			f, hosts, err := fabric.Hosts()
			if err != nil {
				return err
			}
			tables, err := command.ReadTablesOf(cmd, f, fabric.Topology, lfts)
			if err != nil {
				return err
			}
			survey, err := sim.NewSurvey(f, tables, hosts)
			if err != nil {
				return err
			}
			if err := command.Show(cmd, survey, func(w io.Writer) { printSurvey(w, survey, ports) }); err != nil {
				return err
			}
			return wrongRoutes(survey)
		},
	}
	registerFabric(&fabric, cmd)
	fabric.TakesFile(cmd)
	cmd.Flags().StringVar(&lfts, "lfts", "", "forwarding tables: lfts.dump, opensm-lfts.dump, or the output of dump_fts")
	cmd.Flags().BoolVar(&ports, "ports", false, "list each link between switches")
	return cmd
}

// wrongRoutes returns an error for tables that lose packets or can deadlock.
func wrongRoutes(s *sim.Survey) error {
	var wrong []string
	if s.Lost > 0 {
		wrong = append(wrong, fmt.Sprintf("%d of %s are not reached", s.Lost, command.Plural(s.Pairs, "pair", "pairs")))
	}
	if s.CreditLoop != nil {
		wrong = append(wrong, "the tables have a credit loop")
	}
	if wrong == nil {
		return nil
	}
	return command.Violated{Err: fmt.Errorf("%s", strings.Join(wrong, "; "))}
}

func printSurvey(w io.Writer, s *sim.Survey, ports bool) {
	fmt.Fprintf(w, "fabric\t%s, %s\n", command.Plural(s.Hosts, "host", "hosts"), command.Plural(s.Switches, "switch", "switches"))
	fmt.Fprintf(w, "reached\t%d of %s\n", s.Pairs-s.Lost, command.Plural(s.Pairs, "pair", "pairs"))
	loop := "none"
	if s.CreditLoop != nil {
		loop = strings.Join(s.CreditLoop, ", then ") + ", and back"
	}
	fmt.Fprintf(w, "credit loop\t%s\n", loop)
	fmt.Fprintf(w, "unused cables\t%d between switches\n", s.Unused)
	fmt.Fprintf(w, "all at once\t%d transfers on the busiest cable, %s; no tables with one LID a host have fewer than %d\n", s.BusiestCable, s.Busiest, s.FairShare)
	fmt.Fprintf(w, "shift\t%.2f transfers on the busiest link of a phase, on average\n", s.Shift)
	fmt.Fprintf(w, "ring\t%d in the order of hosts, %.1f in random order, on average\n", s.Ring, s.RandomRing)
	fmt.Fprintf(w, "worst pairs\t%d on %s\n", s.WorstPairs, s.WorstLink)
	for i, f := range s.Faults {
		if i == shownFaults {
			fmt.Fprintf(w, "lost\t%d more; --json lists them\n", len(s.Faults)-i)
			break
		}
		fmt.Fprintf(w, "lost\t%s, LID %d: %s (%s)\n", f.Switch, f.LID, f.Why, command.Plural(f.Pairs, "pair", "pairs"))
	}
	if !ports {
		return
	}
	fmt.Fprintln(w, "\nport\tto\tdestinations\tall at once\tworst pairs")
	for _, p := range s.Ports {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", p.Port, p.To, p.Destinations, p.Transfers, p.WorstPairs)
	}
}
