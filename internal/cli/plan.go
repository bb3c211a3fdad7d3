package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/topology"
)

// planFlags are the flags of forsctl plan.
type planFlags struct {
	fabric        command.Fabric
	engine        string
	lids          string
	mayLeaveOut   float64
	out           string
	from          string
	writeBaseline string
}

func planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan FILE [--out DIR]",
		Short: "Plan the exchange on a fabric, with tables that carry it",
		Long: `Plan computes the phases of a complete all-to-all exchange on the fabric of a
topology file and the forwarding tables that carry them, verifies the plan on the
tables. With --out it writes plan.json, phases.csv, lfts.dump, phases.bin,
unreachable.csv and baseline.json. With --fail it shows what a failure would cost. A plan that would
leave out more than --max-unreachable of the pairs of servers is refused, and
nothing is written.

With --from, pairs of servers keep the lanes and LIDs that they have by the plan in a
directory, where these live and, on two levels, the plan gets no longer, and plan.json
counts those that do not: pairs_changed. "forsctl diff --json DIR DIR" lists them.
The baseline is that of the plan in the directory, unless --baseline names another: a
spine or leaf that the topology lacks is missing, and the others keep their numbers.

With --lmc and a fabric of a smaller LMC, LIDs are numbered anew, as OpenSM would do:
so plan shows what another LMC would give, and whether there are enough LIDs.

--engine ilp may take a minute. Ctrl-C takes the plan of auto instead, with exit code 1.

The bound is a number of phases that no plan can beat. The gap is
the number of phases by which the plan is longer.
Bounds are proved by servers, each of which sends to one other in a phase; by leaf:
what one has to send over the cables that it has left; or by lp: what several leaves
have to send over all their cables together, by linear programming.

A fat tree of three levels is planned too. Its bounds may also be proved by pod: what
one has to send over its cables to the highest level. --engine and --lids are for two
levels alone. Transfers are written out for up to 2048 servers. With --from, blocks of
tables that differ from those in the directory are counted too: table_blocks_changed.`,
		Example: `  forsctl plan ibnetdiscover.txt --out plan
  forsctl plan opensm-subnet.lst --lmc 5 --fail Leaf007/31 --fail Spine010 --out plan
  forsctl plan ibnetdiscover.txt --from plan --fail Leaf007/31 --out hurt`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	registerFabric(&f.fabric, cmd)
	f.fabric.TakesFile(cmd)
	f.fabric.Renumber = true
	cmd.Flags().StringVar(&f.engine, "engine", planner.Auto, "auto, algorithm, exact or ilp")
	if err := cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(planner.Engines, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // only if the flag has another name
	}
	cmd.Flags().StringVar(&f.lids, "lids", planner.AutoLIDs.String(), "LIDs of each server that the plan uses: lanes, a number, or auto")
	cmd.Flags().Float64Var(&f.mayLeaveOut, "max-unreachable", planner.DefaultMaxUnreachable, "the share of the pairs of servers that the plan may leave out, from 0 to 1")
	cmd.Flags().StringVar(&f.out, "out", "", "directory for the plan's files")
	cmd.Flags().StringVar(&f.from, "from", "", "directory of a plan to start from: pairs of servers keep its LIDs where they can")
	cmd.Flags().StringVar(&f.writeBaseline, "write-baseline", "", "write the baseline that was used to this file")
	return cmd
}

// run makes the plan, writes the files and prints the report.
func (f *planFlags) run(cmd *cobra.Command) error {
	use, err := planner.ParseLIDs(f.lids)
	if err != nil {
		return fmt.Errorf("--lids: %w", err)
	}
	if !(f.mayLeaveOut >= 0 && f.mayLeaveOut <= 1) {
		return fmt.Errorf("--max-unreachable %v: want a share from 0 to 1", f.mayLeaveOut)
	}
	if f.from != "" && f.fabric.Baseline == "" {
		if kept := filepath.Join(f.from, planner.BaselineFile); exists(kept) {
			f.fabric.Baseline = kept
		}
	}
	tree, err := f.fabric.Tree()
	if err != nil {
		return err
	}
	if len(tree.Servers) == 0 {
		return fmt.Errorf("%s: no host takes part in the exchange: let --exclude leave some", f.fabric.Topology)
	}
	var made *planMade
	if tree.Pods != nil {
		made, err = f.planPods(cmd, tree.Pods)
	} else {
		made, err = f.planTree(cmd, tree, planner.Settings{Engine: f.engine, LIDs: use, MaxUnreachable: &f.mayLeaveOut})
	}
	if err != nil {
		return err
	}
	if err := f.write(made.writeDir, tree.Baseline.Encode()); err != nil {
		return err
	}
	made.told.Tables, made.told.Verify = made.times.Tables.Seconds(), made.times.Verify.Seconds()
	err = command.Show(cmd, struct {
		podplan.Report
		planTold
	}{made.report, made.told}, func(w io.Writer) { f.print(w, made) })
	return cmp.Or(err, command.Interrupted(cmd))
}

// planMade is a plan on a tree of any levels.
type planMade struct {
	report   podplan.Report
	times    planner.Times
	told     planTold
	writeDir func(dir string) error
}

// planTree plans a fat tree of two levels.
func (f *planFlags) planTree(cmd *cobra.Command, tree *topology.FatTree, settings planner.Settings) (*planMade, error) {
	done := command.Searching(cmd, "planning", f.engine != planner.Auto) // auto would start again
	r, err := f.plan(cmd.Context(), tree, settings)
	if errors.Is(err, context.Canceled) { // the result is the plan that auto has so far
		settings.Engine = planner.Auto
		r, err = f.plan(context.WithoutCancel(cmd.Context()), tree, settings)
	}
	done()
	if err != nil {
		return nil, err
	}
	out := &planMade{podplan.Report{Report: r.Report()}, r.Times, planTold{Details: slices.Concat(r.Warnings, r.Notes), Findings: r.Tree.Findings}, r.WriteDir}
	if r.Base != nil && r.Base != r.Schedule {
		out.told.Details = append(out.told.Details, r.Base.Warnings...)
	}
	return out, nil
}

// planTold has the parts of the output of forsctl plan that a report lacks.
type planTold struct {
	Tables   float64            `json:"tables_seconds"`
	Verify   float64            `json:"verify_seconds"`
	Details  []topology.Finding `json:"details,omitempty"`  // of the warnings
	Findings []topology.Finding `json:"findings,omitempty"` // how the fabric deviates from its baseline
}

// print prints the warnings and the findings.
func (t *planTold) print(w io.Writer) {
	for _, warning := range t.Details {
		fmt.Fprintf(w, "warning %s: %s\n", warning.Code, warning.Text)
	}
	for _, found := range t.Findings {
		fmt.Fprintf(w, "fabric %s: %s\n", found.Code, found.Text)
	}
}

// writesNothing is printed instead of the directory if no directory is named.
const writesNothing = "nothing: --out DIR writes the plan and its tables"

// write writes the plan's files and the baseline, where it is told to.
func (f *planFlags) write(dir func(string) error, baseline []byte) error {
	if f.out != "" {
		if err := dir(f.out); err != nil {
			return err
		}
	}
	if f.writeBaseline == "" {
		return nil
	}
	return os.WriteFile(f.writeBaseline, baseline, 0o644)
}

// print prints the report, the warnings and the findings as text.
func (f *planFlags) print(w io.Writer, r *planMade) {
	if f.fabric.Numbered {
		fmt.Fprintf(w, "note: the LIDs of %s leave no room for LMC %d; the plan and its tables are for renumbered LIDs\n", f.fabric.Topology, f.fabric.Value)
	}
	for _, note := range f.fabric.Rails {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	printReport(w, &r.report)
	base := ""
	if r.report.Levels == 0 { // on three levels it is a part of the plan
		base = ", base plan " + command.Took(r.times.Base)
	}
	fmt.Fprintf(w, "time\tplan %s%s, tables %s, verification %s\n", command.Took(r.times.Plan), base, command.Took(r.times.Tables), command.Took(r.times.Verify))
	fmt.Fprintf(w, "written\t%s\n", cmp.Or(f.out, writesNothing))
	r.told.print(w)
}

// plan makes a plan, starting from an earlier plan if --from names its directory.
func (f *planFlags) plan(ctx context.Context, tree *topology.FatTree, s planner.Settings) (*planner.Result, error) {
	if f.from == "" {
		return planner.Make(ctx, tree, s)
	}
	old, err := f.readFrom()
	if err != nil {
		return nil, err
	}
	var base, tables compared
	if path := f.nextTo(planner.BaseBinaryFile); exists(path) {
		base, err = readOld(path, planKind)
	}
	if path := f.nextTo(planner.TablesFile); err == nil && exists(path) {
		tables, err = readOld(path, tablesKind)
	}
	if err != nil {
		return nil, err
	}
	s.Before, s.Tables = base.plan, tables.tables
	return planner.MakeFrom(ctx, tree, s, old)
}

// readFrom reads the plan of --from.
func (f *planFlags) readFrom() (*phasetable.View, error) {
	c, err := readOld(f.from, planKind)
	if err != nil {
		return nil, fmt.Errorf("%w: name a directory that forsctl plan has written, or its %s", err, planner.BinaryFile)
	}
	return c.plan, nil
}

// readOld reads a file of the plan of --from, which must be of a kind.
func readOld(path, kind string) (compared, error) {
	c, err := readCompared(path)
	if err == nil && c.kind != kind {
		err = fmt.Errorf("%s is %s", path, c.kind)
	}
	if err != nil {
		err = fmt.Errorf("--from: %w", err)
	}
	return c, err
}

// nextTo is the path of a file next to the plan of --from.
func (f *planFlags) nextTo(name string) string {
	if info, err := os.Stat(f.from); err == nil && !info.IsDir() {
		return filepath.Join(filepath.Dir(f.from), name)
	}
	return filepath.Join(f.from, name)
}

// loadText describes the load of an exchange without phases.
func loadText(l phasetable.Load) string {
	return fmt.Sprintf("%d transfers by base LIDs over the busiest cable, at least %d with any tables", l.BusiestCable, l.FairShare)
}

// printReport prints the figures of a plan.
func printReport(w io.Writer, r *podplan.Report) {
	fmt.Fprintf(w, "phases\t%d (bound %d by %s, gap %d)\n", r.Phases, r.LowerBound, r.Certificate, r.Gap)
	if b := r.Base; b != nil {
		fmt.Fprintf(w, "base LIDs\t%d phases (bound %d by %s, gap %d), %d entries moved\n", b.Phases, b.LowerBound, b.Certificate, b.Gap, b.Moved)
	}
	for _, g := range r.Groups {
		fmt.Fprintf(w, "group %s\t%d servers, %d phases (bound alone %d)\n", g.Name, g.Servers, g.Phases, g.LowerBound)
	}
	if r.FairShare > 0 {
		fmt.Fprintf(w, "all at once\t%s\n", loadText(r.Load))
	}
	engine, above, changes := r.Engine, fmt.Sprintf("%d leaves, %d spines", r.Leaves, r.Spines), ""
	if r.Levels > 0 {
		engine += ", in blocks of " + command.Plural(r.Group, "phase", "phases")
		above = fmt.Sprintf("%d leaves in %d pods, %d planes", r.Leaves, r.Pods, r.Planes)
	}
	if c := r.Changes; c != nil {
		changes = fmt.Sprintf("; %d of %d blocks of tables", c.BlocksChanged, c.TableBlocks)
	}
	fmt.Fprintf(w, "engine\t%s\n", engine)
	if n := r.PairsChanged; n != nil {
		fmt.Fprintf(w, "changes\t%s%s\n", changedPairs(*n, r.Servers), changes)
	}
	fmt.Fprintf(w, "servers\t%d on %s, %d lanes, LMC %d\n", r.Servers, above, r.Lanes, r.LMC)
	if r.Levels > 0 {
		fmt.Fprintf(w, "LIDs\t%d a server\n", r.LIDs)
		fmt.Fprintf(w, "failures\t%d pairs unreachable%s\n", r.UnreachablePairs, notCovered(r.UncoveredPairs))
		return
	}
	if r.LIDs > 0 {
		fmt.Fprintf(w, "LIDs\t%s a server; the tables follow from the plan\n", r.LIDs)
	}
	fmt.Fprintf(w, "failures\tf = %d, m = %d spines affected, %d pairs unreachable%s\n", r.BandwidthReduction, r.AffectedSpines, r.UnreachablePairs, notCovered(r.UncoveredPairs))
}

// notCovered describes how many pairs of hosts are outside the tree, or returns "".
func notCovered(pairs int) string {
	if pairs == 0 {
		return ""
	}
	return fmt.Sprintf(", %d pairs of hosts outside the tree", pairs)
}

// planPods plans a fat tree of three levels.
func (f *planFlags) planPods(cmd *cobra.Command, tree *topology.PodTree) (*planMade, error) {
	for _, flag := range []string{"engine", "lids"} {
		if cmd.Flags().Changed(flag) {
			return nil, fmt.Errorf("--%s is for fat trees of two levels: leave it out", flag)
		}
	}
	done := command.Working(cmd, "planning")
	r, err := f.makePods(cmd.Context(), tree, podplan.Settings{MaxUnreachable: &f.mayLeaveOut})
	done()
	if err != nil {
		return nil, err
	}
	out := &planMade{r.Report(), r.Times, planTold{Details: slices.Concat(r.Warnings, r.Notes), Findings: r.Tree.Findings}, r.WriteDir}
	if r.Base != nil {
		out.told.Details = append(out.told.Details, r.Base.Warnings...)
	}
	return out, nil
}

// makePods makes a plan, starting from an earlier plan if --from names its directory.
func (f *planFlags) makePods(ctx context.Context, tree *topology.PodTree, s podplan.Settings) (*podplan.Result, error) {
	if f.from == "" {
		return podplan.Make(ctx, tree, s)
	}
	plan, err := f.readFrom()
	if err != nil {
		return nil, err
	}
	c, err := readOld(f.nextTo(planner.TablesFile), tablesKind)
	if err != nil {
		return nil, fmt.Errorf("%w: on three levels tables are compared too, which forsctl plan has written next to it", err)
	}
	return podplan.MakeFrom(ctx, tree, s, plan, c.tables)
}
