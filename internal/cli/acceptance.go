package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/failures"
	"github.com/forsd/forsd/internal/report"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// acceptor has the flags of the command.
type acceptor struct {
	fabric         command.Fabric
	lfts, intended string
	measured       string
	rows, atATime  int
	out, keep      string
	shard          failures.Shard
}

func acceptanceCommand() *cobra.Command {
	x := acceptor{shard: failures.Shard{Number: 1, Of: 1}}
	cmd := &cobra.Command{
		Use:   "acceptance FILE [--intended FILE] [--lfts FILE] [--out FILE]",
		Short: "Report on a new or repaired fabric: its faults, its tables, forsd's plan, every failure",
		Long: `Acceptance compares a fabric with what it is meant to be, and names cables that are missing,
extra, degraded, or in the ports of others, and nodes with another name or GUID. Cables
without an intended speed must be as fast as most of their kind. What is meant is a CSV of
cables or a dump, as "forsctl report" takes it.

It says what the forwarding tables in the switches make of the fabric (pairs of hosts that
are lost, credit loops, an exchange in step and at once) and what forsd's plan does, now and
with each fault between switches mended. Then each cable between switches and each switch
dies in turn, and with --failures 2 each pair of them: how many pairs of hosts are cut off
until the subnet manager has routed anew, and how long forsd's plans are, for lanes and for
base LIDs.

With --keep the failures are kept in a folder, one in a line of JSON, in which work that was
interrupted goes on. With --shard several processes or machines share them; each ends with a
report of all that are there, and the last of them writes failures.jsonl.

With --measured each cable is listed at its rate and as measured, and slow ones are faults: an
exchange takes as long as its slowest cable. It takes a directory of FORS_LOG, with --lfts, or
what "forsctl measure --json" has printed, by logs or from forsd.

No switch is touched, and no daemon is asked.

Exit code 0: no fault; 1: the cabling has faults, or the tables lose packets or have a credit
loop; 2: the input cannot be used.`,
		Example: `  dump_fts >tables.dump
  forsctl acceptance ibnetdiscover.txt --intended cables.csv --lfts tables.dump --out accepted.html
  forsctl acceptance ibnetdiscover.txt --lfts tables.dump --rows 0 --json
  sbatch --array=1-16 --wrap \
    'forsctl acceptance net.txt --failures 2 --keep pairs --shard $SLURM_ARRAY_TASK_ID/16'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return x.run(cmd) },
	}
	registerFabric(&x.fabric, cmd)
	x.fabric.TakesFile(cmd)
	f := cmd.Flags()
	f.StringVar(&x.intended, "intended", "", "what the cabling is meant to be: a CSV of cables, or a dump")
	f.StringVar(&x.measured, "measured", "", "times of exchanges: a directory of FORS_LOG, or a file of forsctl measure --json")
	f.StringVar(&x.lfts, "lfts", "", "forwarding tables: the output of dump_fts, opensm-lfts.dump, or lfts.dump")
	f.StringVar(&x.out, "out", "", "a page to write")
	f.IntVar(&x.rows, "rows", 10, "how many failures to list, the worst first; 0 for all")
	f.IntVar(&x.atATime, "failures", 1, "how many parts die at the same time, at most: 0, 1 or 2")
	f.StringVar(&x.keep, "keep", "", "folder in which failures are kept, and found again")
	f.Var(&x.shard, "shard", "plan the I-th of N parts of the failures, which share the folder of --keep")
	_ = cmd.MarkFlagFilename("intended")
	return cmd
}

func (x *acceptor) run(cmd *cobra.Command) error {
	if err := command.CheckOutputs(cmd, command.Output{Flag: "out", Path: x.out, What: "the page"}); err != nil {
		return err
	}
	if x.atATime < 0 || x.atATime > failures.Most {
		return fmt.Errorf("--failures %d: want 0 to %d", x.atATime, failures.Most)
	}
	if x.keep == "" && x.shard.Of > 1 {
		return fmt.Errorf("--shard needs --keep: name the folder that all shards share")
	}
	a, err := x.accept(cmd)
	if err != nil {
		return err
	}
	if err := command.WritePage(cmd, x.out, a.WriteHTML); err != nil {
		return err
	}
	if err := command.Show(cmd, a, func(w io.Writer) { printAcceptance(w, a, x.rows) }); err != nil {
		return err
	}
	if a.Cabling.Faults > 0 {
		return command.Violated{Err: fmt.Errorf("the fabric has %s", command.Plural(a.Cabling.Faults, "fault", "faults"))}
	}
	if a.Tables == nil {
		return nil
	}
	return wrongRoutes(a.Tables)
}

// accept examines the fabric and plans its failures.
func (x *acceptor) accept(cmd *cobra.Command) (*report.Acceptance, error) {
	in, err := x.read(cmd)
	if err != nil {
		return nil, err
	}
	a, err := report.Accept(cmd.Context(), *in)
	if err != nil || x.atATime == 0 {
		return a, err
	}
	parts := failures.Parts(in.Fabric)
	cases := failures.Cases(parts, x.atATime)
	plan := func(cases []failures.Case) ([]failures.Failure, error) {
		bar := command.Progress(cmd, len(cases))
		defer func() { _ = bar.Finish() }()
		return failures.Plan(cmd.Context(), in.Fabric, in.Tables, parts, cases, in.Plan, func() { _ = bar.Add(1) })
	}
	if x.keep == "" {
		a.Failures, err = plan(cases)
	} else {
		a.Failures, a.Missing, err = x.share(cmd, plan, cases)
	}
	a.Summary = failures.Summarize(a.Failures)
	failures.Rank(a.Failures)
	return a, err
}

// read reads the fabric and the files that belong to it.
func (x *acceptor) read(cmd *cobra.Command) (*report.Accepted, error) {
	f, err := x.fabric.Read()
	if err != nil {
		return nil, err
	}
	in := &report.Accepted{Now: time.Now(), Version: cmd.Root().Version, Fabric: f}
	var base *topology.Baseline
	if x.intended != "" {
		if in.Wanted, base, err = x.meant(); err != nil {
			return nil, err
		}
	}
	if x.fabric.Baseline != "" {
		if base, err = x.fabric.Base(f); err != nil {
			return nil, err
		}
	}
	given := base
	if base == nil {
		base, _ = topology.Recognise(f) // nil unless it is a tree
	}
	if err := x.fabric.Damage(f); err != nil {
		return nil, err
	}
	if in.Hosts, err = x.fabric.Without(f, f.ConnectedHosts()); err != nil {
		return nil, err
	}
	var tables *lft.Tables
	if x.lfts != "" {
		tables, err = command.ReadTablesOf(cmd, f, x.fabric.Topology, x.lfts)
		if err != nil {
			return nil, err
		}
		if in.Tables, err = sim.NewSurvey(f, tables, in.Hosts); err != nil {
			return nil, err
		}
	}
	if x.measured != "" {
		if in.Measured, err = readMeasured(f, tables, x.measured); err != nil {
			return nil, err
		}
	}
	fit := func(f *topology.Fabric, on *topology.Baseline) (_ *topology.FatTree, err error) {
		if on == nil {
			if on, err = topology.Recognise(f); err != nil {
				return nil, err
			}
		}
		return x.fabric.Fit(f, on)
	}
	in.Tree = func(f *topology.Fabric) (*topology.FatTree, error) { return fit(f, base) }
	planOn := func(on *topology.Baseline) func(context.Context, *topology.Fabric) (*failures.Planned, error) {
		return func(ctx context.Context, f *topology.Fabric) (*failures.Planned, error) {
			tree, err := fit(f, on)
			if err != nil {
				return nil, err
			}
			return planFor(ctx, tree)
		}
	}
	in.Plan, in.PlanMended = planOn(base), planOn(given)
	return in, nil
}

// meant reads the intended topology. A dump of a fat tree gives a baseline too.
func (x *acceptor) meant() ([]report.Wanted, *topology.Baseline, error) {
	data, err := command.ReadPath(x.intended, command.MaxText)
	if err != nil {
		return nil, nil, err
	}
	wanted, err := report.ReadIntended(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", x.intended, err)
	}
	f, _, err := topology.Read(data)
	if err != nil {
		return wanted, nil, nil // a CSV
	}
	base, _ := topology.Recognise(f) // nil unless it is a tree
	return wanted, base, nil
}

// share plans the cases of the shard, unless that has been done, and returns the failures of
// all shards in the folder.
func (x *acceptor) share(cmd *cobra.Command, plan func([]failures.Case) ([]failures.Failure, error), cases []failures.Case) (all []failures.Failure, missing []int, err error) {
	inputs, err := x.inputs(cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(x.keep, 0o755); err != nil {
		return nil, nil, err
	}
	folder := failures.Folder{Dir: x.keep, Inputs: inputs}
	there, err := folder.Read(x.shard)
	if err != nil {
		return nil, nil, err
	}
	if there == nil {
		some, err := plan(x.shard.Cases(cases))
		if err != nil {
			return nil, nil, err
		}
		if err := folder.Write(x.shard, some); err != nil {
			return nil, nil, err
		}
	}
	return folder.Merge(x.shard.Of)
}

// inputs is a checksum of all that the failures follow from: the program, and the values of
// flags, of files their content.
func (x *acceptor) inputs(cmd *cobra.Command) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, cmd.Root().Version)
	var err error
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		value := []byte(flag.Value.String())
		switch flag.Name {
		case "rows", "out", "keep", "shard", "help", "measured":
			return
		case "topology", "intended", "lfts", "baseline", "node-name-map", "guid2lid":
			if len(value) > 0 {
				var failed error
				value, failed = command.ReadPath(string(value), command.MaxText)
				err = errors.Join(err, failed)
			}
		}
		fmt.Fprintf(sum, "%s %d\n%s", flag.Name, len(value), value)
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// planFor plans a fabric for any number of levels.
func planFor(ctx context.Context, tree *topology.FatTree) (*failures.Planned, error) {
	var report planner.Report
	if tree.Pods != nil {
		r, err := podplan.Make(ctx, tree.Pods, podplan.Settings{})
		if err != nil {
			return nil, err
		}
		report = r.Report().Report
	} else {
		r, err := planner.Make(ctx, tree, planner.Settings{})
		if err != nil {
			return nil, err
		}
		report = r.Report()
	}
	p := &failures.Planned{Length: report.Length, Load: report.Load, Unreachable: report.UnreachablePairs}
	if report.Base != nil {
		p.Base = &report.Base.Length
	}
	return p, nil
}

// printAcceptance prints the acceptance on one page.
func printAcceptance(w io.Writer, a *report.Acceptance, rows int) {
	fmt.Fprintf(w, "fabric\t%s, %s\n", command.Plural(a.Hosts, "host", "hosts"), command.Plural(a.Switches, "switch", "switches"))
	printCosts(w, a)
	for _, s := range a.Summary {
		fmt.Fprintf(w, "%s dead\t%s: %d phases at most, %d over their bound, %d cut hosts off, %d leave no plan\n",
			command.Plural(s.Parts, "part", "parts"), command.Plural(s.Failures, "failure", "failures"), s.Longest, s.OverBound, s.CutOff, s.NoPlan)
	}
	if a.Missing != nil {
		fmt.Fprintf(w, "not planned yet\tshards %s\n", strings.Trim(fmt.Sprint(a.Missing), "[]"))
	}
	fmt.Fprintf(w, "faults\t%d\n", a.Cabling.Faults)
	for i := range a.Cabling.Differences {
		d := &a.Cabling.Differences[i]
		now := ""
		if d.Now != nil {
			now = ": now " + strings.Join(d.Now, ", ")
		}
		fmt.Fprintf(w, "  %d: %s\t%s%s\n", d.Fault, d.Kind, d.What(), now)
	}
	if n := len(a.Measured); n > 0 {
		shown := min(n, 10)
		fmt.Fprintf(w, "\nthe slowest %d of %d measured cables:\ncable\trate\tGb/s\tmeasured\tslower by\ttransfers\n", shown, n)
		for i := range a.Measured[:shown] {
			m := &a.Measured[i]
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.1f %% ± %.1f %%\t%d\n", m.Cable, m.Rate, m.Gbps, m.MeasuredCable.Gbps, 100*m.Slowdown, 100*m.Error, m.Transfers)
		}
	}
	for _, text := range a.Findings {
		fmt.Fprintf(w, "note\t%s\n", text)
	}
	const columns = "forsd's phases\tbound\tbase LIDs\tbound\tbusiest cable\tshare"
	if len(a.Repairs) > 0 {
		fmt.Fprintf(w, "\nmended\t%s\tphases are longer by\n", columns)
	}
	for i := range a.Repairs {
		r := &a.Repairs[i]
		fmt.Fprintf(w, "%d: %s\t%s\t%.1f %%\n", r.Fault, r.What, cells(r.Planned, r.Error), 100*r.Slowdown)
	}
	if rows <= 0 || rows > len(a.Failures) {
		rows = len(a.Failures)
	}
	if rows > 0 {
		fmt.Fprintf(w, "\nthe worst %d of %s:\ndead\t%s", rows, command.Plural(len(a.Failures), "failure", "failures"), columns)
		if a.Tables != nil {
			fmt.Fprint(w, "\tpairs cut now")
		}
		fmt.Fprintln(w)
	}
	for i := range a.Failures[:rows] {
		x := &a.Failures[i]
		fmt.Fprintf(w, "%s\t%s", x.What(), cells(x.Planned, x.Error))
		if a.Tables != nil {
			fmt.Fprintf(w, "\t%d", x.Cut)
		}
		fmt.Fprintln(w)
	}
}

// printCosts prints what the tables cost, and the plan.
func printCosts(w io.Writer, a *report.Acceptance) {
	if s := a.Tables; s != nil {
		loop := "no credit loop"
		if s.CreditLoop != nil {
			loop = "with a credit loop"
		}
		fmt.Fprintf(w, "these tables\t%d of %s arrive, %s\n", s.Pairs-s.Lost, command.Plural(s.Pairs, "pair", "pairs"), loop)
		fmt.Fprintf(w, "  in step\t%.2f transfers on the busiest link of a phase, on average: a phase takes so many times as long\n", s.Shift)
		fmt.Fprintf(w, "  at once\t%d transfers on the busiest cable, %s, at least %d with any tables\n", s.BusiestCable, s.Busiest, s.FairShare)
	}
	p := a.Planned
	if p == nil {
		fmt.Fprintf(w, "forsd's plan\tnone: %s\n", a.NoPlan)
		return
	}
	fmt.Fprintf(w, "forsd's plan\t%s\n", p)
	if p.Base != nil {
		fmt.Fprintf(w, "  base LIDs\t%d phases (bound %d)\n", p.Base.Phases, p.Base.LowerBound)
	}
	fmt.Fprintf(w, "  at once\t%s\n", loadText(p.Load))
}

// cells are the figures of a plan in the columns of a table, or why there is none.
func cells(p *failures.Planned, why string) string {
	if p == nil {
		return why
	}
	base := "none\tnone"
	if p.Base != nil {
		base = fmt.Sprintf("%d\t%d", p.Base.Phases, p.Base.LowerBound)
	}
	return fmt.Sprintf("%d\t%d\t%s\t%d\t%d", p.Phases, p.LowerBound, base, p.BusiestCable, p.FairShare)
}
