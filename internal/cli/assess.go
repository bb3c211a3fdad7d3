package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/maruel/natural"
	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/fabricflags"
	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// assessment compares the cost of a fabric's forwarding tables with forsd's plan for it.
type assessment struct {
	Tables  *sim.Survey `json:"tables"`
	Planned *planned    `json:"planned"`
	// Dead lists every cable between two switches, the longest exchange first.
	Dead []deadCable `json:"dead_cables"`
}

// planned holds the figures of forsd's plan for a fabric.
type planned struct {
	phasetable.Length
	phasetable.Load
	Base        *phasetable.Length `json:"base,omitempty"` // nil without a plan for base LIDs
	Unreachable int                `json:"unreachable_pairs"`
}

// deadCable describes the effect of losing one cable.
type deadCable struct {
	Cable    string `json:"cable"`
	Cut      int    `json:"cut_pairs"` // pairs that lose packets until the subnet manager has routed again
	*planned        // nil if no plan can be made
	Error    string `json:"error,omitempty"` // why no plan can be made
}

func assessCommand() *cobra.Command {
	var fabric fabricflags.Fabric
	var lfts string
	var rows int
	cmd := &cobra.Command{
		Use:   "assess FILE --lfts FILE",
		Short: "Say what a fabric's tables cost now and with each cable dead, and what forsd gives",
		Long: `Assess looks at a fabric and at any forwarding tables that its switches hold: pairs that
are lost, credit loops, what an exchange of all hosts puts on the busiest cable, in step
and at once. Beside that is forsd's plan. Then each cable between two
switches dies in turn: how many pairs of hosts are cut off until the subnet manager has
routed anew, and how long forsd's plans are then, for lanes and for base LIDs.

Nothing is written, and no daemon is asked. "forsctl routes" tells more of the tables, and
"forsctl plan" of one plan.`,
		Example: `  dump_fts >tables.dump
  forsctl assess ibnetdiscover.txt --lfts tables.dump
  forsctl assess ibnetdiscover.txt --lfts tables.dump --rows 0 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := assess(cmd, &fabric, lfts)
			if err != nil {
				return err
			}
			return command.Show(cmd, a, func(w io.Writer) { a.print(w, rows) })
		},
	}
	registerFabric(&fabric, cmd)
	fabric.TakesFile(cmd)
	cmd.Flags().StringVar(&lfts, "lfts", "", "forwarding tables: the output of dump_fts, opensm-lfts.dump, or lfts.dump")
	cmd.Flags().IntVar(&rows, "rows", 10, "how many dead cables to list, the worst first; 0 for all")
	return cmd
}

func assess(cmd *cobra.Command, flags *fabricflags.Fabric, lfts string) (*assessment, error) {
	f, err := flags.Read()
	if err != nil {
		return nil, err
	}
	base, err := flags.Base(f)
	if err != nil {
		return nil, err
	}
	if err := flags.Damage(f); err != nil {
		return nil, err
	}
	tables, err := fabricflags.ReadTablesOf(cmd, f, flags.Topology, lfts)
	if err != nil {
		return nil, err
	}
	hosts, err := flags.Without(f, f.ConnectedHosts())
	if err != nil {
		return nil, err
	}
	plan := func(ctx context.Context, f *topology.Fabric) (*planned, error) { return planFor(ctx, flags, f, base) }
	a := &assessment{}
	if a.Tables, err = sim.NewSurvey(f, tables, hosts); err != nil {
		return nil, err
	}
	if a.Planned, err = plan(cmd.Context(), f); err != nil {
		return nil, fmt.Errorf("%s: %w", flags.Topology, err)
	}
	carries := map[string]int{} // keyed by the label of a port
	for _, p := range a.Tables.Ports {
		carries[p.Port] = p.Transfers
	}
	var cables []topology.PortRef
	for node := range f.Nodes {
		if f.Nodes[node].Kind != topology.Switch {
			continue
		}
		for _, port := range f.Trunks(int32(node)) {
			at := topology.PortRef{Node: int32(node), Port: port}
			if peer := far(f, at); peer.Node > at.Node || peer.Node == at.Node && peer.Port > at.Port {
				cables = append(cables, at)
			}
		}
	}
	a.Dead = make([]deadCable, len(cables))
	bar := command.Progress(cmd, len(cables))
	defer func() { _ = bar.Finish() }()
	_, err = parallel.Each(cmd.Context(), len(cables), runtime.NumCPU(), func(int) func(int) error {
		return func(i int) error {
			d := &a.Dead[i]
			d.Cable = f.CableLabel(cables[i])
			d.Cut = carries[f.PortLabel(cables[i])] + carries[f.PortLabel(far(f, cables[i]))]
			p, err := plan(cmd.Context(), f.Without(cables[i]))
			if err != nil && cmd.Context().Err() == nil {
				d.Error, err = err.Error(), nil
			}
			d.planned = p
			_ = bar.Add(1)
			return err
		}
	})
	slices.SortStableFunc(a.Dead, func(x, y deadCable) int {
		return cmp.Or(cmp.Compare(y.phases(), x.phases()), cmp.Compare(y.Cut, x.Cut), natural.Compare(x.Cable, y.Cable))
	})
	return a, err
}

// far returns the other end of a port's cable.
func far(f *topology.Fabric, at topology.PortRef) topology.PortRef {
	p := f.At(at)
	return topology.PortRef{Node: p.Peer, Port: p.PeerPort}
}

// phases returns the length of the plan, and a huge number without one, to sort it first.
func (d *deadCable) phases() int {
	if d.planned == nil {
		return 1 << 30
	}
	return d.Phases
}

// planFor plans a fabric on its baseline, for any number of levels.
func planFor(ctx context.Context, flags *fabricflags.Fabric, f *topology.Fabric, base *topology.Baseline) (*planned, error) {
	tree, pods, err := flags.Fit(f, base)
	if err != nil {
		return nil, err
	}
	if pods != nil {
		r, err := podplan.Make(ctx, pods, podplan.Settings{})
		if err != nil {
			return nil, err
		}
		report := r.Report()
		return figures(report.Length, report.Load, report.Base, report.UnreachablePairs), nil
	}
	r, err := planner.Make(ctx, tree, planner.Settings{})
	if err != nil {
		return nil, err
	}
	report := r.Report()
	return figures(report.Length, report.Load, report.Base, report.UnreachablePairs), nil
}

func figures(plan phasetable.Length, load phasetable.Load, base *planner.BaseReport, unreachable int) *planned {
	p := &planned{Length: plan, Load: load, Unreachable: unreachable}
	if base != nil {
		p.Base = &base.Length
	}
	return p
}

// print prints the assessment on one page.
func (a *assessment) print(w io.Writer, rows int) {
	s := a.Tables
	loop := "no credit loop"
	if s.CreditLoop != nil {
		loop = "with a credit loop"
	}
	fmt.Fprintf(w, "fabric\t%s, %s\n", command.Plural(s.Hosts, "host", "hosts"), command.Plural(s.Switches, "switch", "switches"))
	fmt.Fprintf(w, "these tables\t%d of %s arrive, %s\n", s.Pairs-s.Lost, command.Plural(s.Pairs, "pair", "pairs"), loop)
	fmt.Fprintf(w, "  in step\t%.2f transfers on the busiest link of a phase, on average: a phase takes so many times as long\n", s.Shift)
	fmt.Fprintf(w, "  at once\t%d transfers on the busiest cable, %s, at least %d with any tables\n", s.BusiestCable, s.Busiest, s.FairShare)
	fmt.Fprintf(w, "forsd's plan\t%s\n", a.Planned)
	if base := a.Planned.Base; base != nil {
		fmt.Fprintf(w, "  base LIDs\t%d phases (bound %d)\n", base.Phases, base.LowerBound)
	}
	fmt.Fprintf(w, "  at once\t%s\n", loadText(a.Planned.Load))
	if rows <= 0 || rows > len(a.Dead) {
		rows = len(a.Dead)
	}
	fmt.Fprintf(w, "\n%d of %s dead, one at a time:\n", rows, command.Plural(len(a.Dead), "cable", "cables"))
	fmt.Fprintln(w, "cable\tpairs cut now\tforsd's phases\tbound\tbase LIDs\tbound\tbusiest cable\tshare")
	for _, d := range a.Dead[:rows] {
		if d.planned == nil {
			fmt.Fprintf(w, "%s\t%d\t%s\n", d.Cable, d.Cut, d.Error)
			continue
		}
		base := "none\tnone"
		if d.Base != nil {
			base = fmt.Sprintf("%d\t%d", d.Base.Phases, d.Base.LowerBound)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%d\t%d\n", d.Cable, d.Cut, d.Phases, d.LowerBound, base, d.BusiestCable, d.FairShare)
	}
}

// String describes the plan in one line.
func (p *planned) String() string {
	return fmt.Sprintf("%d phases without a collision (bound %d), %s unreachable", p.Phases, p.LowerBound, command.Plural(p.Unreachable, "pair", "pairs"))
}
