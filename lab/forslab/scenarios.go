package forslab

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/scenario"
	"github.com/forsd/forsd/testbed/ibsim"
)

// scenarioFlags are the flags of forslab scenarios.
type scenarioFlags struct {
	tree   scenario.Tree
	random int
	seed   uint64
	opensm bool
}

func scenariosCommand() *cobra.Command {
	f := scenarioFlags{tree: scenario.LHCb}
	cmd := &cobra.Command{
		Use:   "scenarios [--opensm]",
		Short: "Plan the exchange in the FORS paper's failure scenarios and in random ones",
		Long: `Scenarios generates a fat tree, breaks it in the nine ways in which the authors of
FORS broke theirs, and in random ones, and plans the exchange in each. "3F SW0,5,11"
are three dead cables at each of these leaves, no two to the same spine; "SW18,19
out" are dead spines. What a tree is too small for is left out. Random scenarios have
1, 9, 40 and 120 of 360 cables dead in turn, wherever it hits.

With --opensm every scenario is also simulated under a real OpenSM (Debian's opensm,
ibsim-utils and infiniband-diags): the linear shift on the tables that OpenSM's
routing engines make of what is left, with LMC 0, and the plan on forsd's tables, as
read back from the switches. A phase takes as long as its busiest link has transfers.
An engine that refuses a fabric leaves it to min-hop. This takes some seconds a scenario.

Gb/s are what a server gets by a model of the paper's measurement: ` + modelText() + `.
The paper's own numbers stand beside them where its text has some.`,
		Example: `  forslab scenarios
  forslab scenarios --spines 32 --leaves 32 --random 20 --seed 7
  forslab scenarios --opensm --json >scenarios.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().IntVar(&f.tree.Spines, "spines", f.tree.Spines, "M0: spines, and servers of a leaf")
	cmd.Flags().IntVar(&f.tree.Leaves, "leaves", f.tree.Leaves, "M1: leaves")
	cmd.Flags().IntVar(&f.random, "random", 4, "number of random scenarios, in addition to the paper's")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the random scenarios")
	cmd.Flags().BoolVar(&f.opensm, "opensm", false, "simulate each under a real OpenSM as well")
	return cmd
}

// run works through the scenarios and prints the results.
func (f *scenarioFlags) run(cmd *cobra.Command) error {
	tree := f.tree
	if err := tree.Validate(); err != nil {
		return fmt.Errorf("--spines %d --leaves %d: %w", tree.Spines, tree.Leaves, err)
	}
	if f.random < 0 || f.random > mostRandom {
		return fmt.Errorf("--random %d: want a number from 0 to %d", f.random, mostRandom)
	}
	o := scenario.Options{Tree: tree, Scenarios: append(scenario.Paper(tree), scenario.Random(tree, f.random, f.seed)...)}
	if f.opensm {
		if err := ibsim.Available(); err != nil {
			return fmt.Errorf("--opensm: %w", err)
		}
		o.Engines = scenario.Engines
	}
	bar := command.Progress(cmd, o.Steps())
	done := 0
	o.Step = func(name, work string) {
		bar.Describe(fmt.Sprintf("%s, %-6s", name, work))
		_ = bar.Set(done)
		done++
	}
	results, err := scenario.Run(cmd.Context(), o)
	_ = bar.Finish()
	if err != nil {
		return err
	}
	return printScenarios(cmd, tree, results)
}

// modelText describes the model.
func modelText() string {
	return fmt.Sprintf("cables of %.0f Gb/s,\nand %.3f of a transfer for the barrier after each phase", scenario.LinkGbps, scenario.PhaseOverhead)
}

// scenarioReport is the output with --json.
type scenarioReport struct {
	Version   int               `json:"version"`
	Spines    int               `json:"spines"`
	Leaves    int               `json:"leaves"`
	Servers   int               `json:"servers"`
	LMC       int               `json:"lmc"` // of the plans
	Scenarios []scenario.Result `json:"scenarios"`
}

func printScenarios(cmd *cobra.Command, t scenario.Tree, results []scenario.Result) error {
	return command.Show(cmd, scenarioReport{1, t.Spines, t.Leaves, t.Servers(), int(t.LMC()), results}, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d servers on %d leaves, %d spines; throughput is (P−1)/phases\n\n", t, t.Servers(), t.Leaves, t.Spines)
		printPlans(w, results)
		if len(results) == 0 || results[0].Exchanges == nil {
			return
		}
		fmt.Fprintf(w, "\nTransfers on the busiest link of a phase, mean over the exchange, on tables read back from the switches;\nlinear shift on OpenSM's engines, forsd's plan on its own:\n\n")
		printLoads(w, results)
		fmt.Fprintf(w, "\nGb/s of a server by the model, and the paper's measurement of Ftree/Min-Hop and of FORS:\n\n")
		printGbps(w, results)
	})
}

// printPlans prints the plans, and counts those over their bound. The time is the last
// column, so that it moves nothing.
func printPlans(w io.Writer, results []scenario.Result) {
	fmt.Fprintln(w, "scenario\tdead cables\tf\tm\tphases\tbound\tcertificate\tunreachable\tengine\tthroughput\tplanned in")
	for i := range results {
		r := &results[i]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%s\t%.3f\t%s\n", r.Scenario, r.DeadCables, r.BandwidthReduction, r.AffectedSpines,
			r.Phases, r.LowerBound, r.Certificate, r.UnreachablePairs, r.Engine, r.Throughput, command.Seconds(r.PlanSeconds))
	}
	fmt.Fprintf(w, "\n%s\n", overBound(results))
}

// overBound says how many plans are longer than their bounds, and by how much.
func overBound(results []scenario.Result) string {
	over, most := 0, 0
	for i := range results {
		if gap := results[i].Gap; gap > 0 {
			over, most = over+1, max(most, gap)
		}
	}
	if over == 0 {
		return fmt.Sprintf("%d plans, none over its bound", len(results))
	}
	return fmt.Sprintf("%d plans, %d over their bound, by %d phases at most", len(results), over, most)
}

// printLoads prints the mean of the largest link load for each engine.
func printLoads(w io.Writer, results []scenario.Result) {
	heading(w, results, "")
	for i := range results {
		fmt.Fprint(w, results[i].Scenario)
		for j := range results[i].Exchanges {
			if x := &results[i].Exchanges[j]; x.Refused() {
				fmt.Fprint(w, "\trefuses")
			} else {
				fmt.Fprintf(w, "\t%.2f", x.Mean)
			}
		}
		fmt.Fprintln(w)
	}
}

// printGbps prints the model's throughput and the paper's.
func printGbps(w io.Writer, results []scenario.Result) {
	heading(w, results, "\tpaper: default\tpaper: FORS")
	for i := range results {
		r := &results[i]
		fmt.Fprint(w, r.Scenario)
		for j := range r.Exchanges {
			fmt.Fprintf(w, "\t%.1f", r.Exchanges[j].Gbps)
		}
		fmt.Fprintf(w, "\t%s\t%s\n", reported(r.Paper.Default), reported(r.Paper.FORS))
	}
}

func heading(w io.Writer, results []scenario.Result, more string) {
	fmt.Fprint(w, "scenario")
	for _, x := range results[0].Exchanges {
		fmt.Fprintf(w, "\t%s", x.Engine)
	}
	fmt.Fprintln(w, more)
}

// reported prints a number of the paper, or a dash.
func reported(gbps float64) string {
	if gbps == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", gbps)
}
