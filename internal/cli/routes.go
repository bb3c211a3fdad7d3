package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/sim"
)

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
