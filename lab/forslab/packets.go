package forslab

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/packets"
	"github.com/forsd/forsd/topology"
)

// packetFlags are the flags of forslab packets.
type packetFlags struct {
	spec  fabgen.Spec
	dead  int
	bytes int
	jits  []float64
	news  int
	late  int
	speed int
	seed  uint64
}

func packetsCommand() *cobra.Command {
	f := packetFlags{}
	cmd := &cobra.Command{
		Use:   "packets",
		Short: "Simulate the packets of an exchange under each rule by which ranks can send",
		Long: `Packets generates a fat tree, takes cables out, plans the exchange, and simulates it packet
by packet on forsd's tables, with equal blocks: on switches whose inputs have one queue each
(fifo: head-of-line blocking) and on switches that have one for each output (voq). Links have
200 Gb/s, packets 4 KiB, input buffers 16 packets, a hop takes 0.2 µs. With --speedup 2 an input
of one queue passes on two packets at once, to different outputs. An adaptive switch sends each
packet to its shortest queue on a shortest path, as it was at most --late ago if it is late.

The figure is the share of the time that the servers' own links need for their data in the time
that the exchange takes. Jitter is the mean of an exponential delay before each send, as a share
of the time of a block.`,
		Example: `  forslab packets
  forslab packets --spines 20 --leaves 18 --dead 1 --bytes 262144 --jitter 0,0.1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().IntVar(&f.spec.Spines, "spines", 6, "spines, and hosts of a leaf")
	cmd.Flags().IntVar(&f.spec.Leaves, "leaves", 6, "leaves")
	cmd.Flags().IntVar(&f.dead, "dead", 1, "number of dead cables between leaves and spines, at random places")
	cmd.Flags().IntVar(&f.bytes, "bytes", 256<<10, "bytes of a block")
	cmd.Flags().Float64SliceVar(&f.jits, "jitter", []float64{0, .1}, "mean delays before a send, as shares of the time of a block")
	cmd.Flags().IntVar(&f.news, "news", 500, "nanoseconds that a message without data takes")
	cmd.Flags().IntVar(&f.late, "late", 1000, "nanoseconds after which an adaptive switch that is late learns of its queues")
	cmd.Flags().IntVar(&f.speed, "speedup", 1, "packets that an input with one queue passes on at once")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the dead cables and of the jitter")
	return cmd
}

// packetRow is one simulation.
type packetRow struct {
	Exchange string  `json:"exchange"`
	Queues   string  `json:"queues"`
	Jitter   float64 `json:"jitter"`
	Pace     string  `json:"pace"`
	Guard    float64 `json:"guard,omitempty"`
	Window   int     `json:"window,omitempty"`
	Share    float64 `json:"share"`
}

// packetReport is the output with --json.
type packetReport struct {
	Version    int         `json:"version"`
	Spines     int         `json:"spines"`
	Leaves     int         `json:"leaves"`
	Dead       int         `json:"dead_cables"`
	Bytes      int         `json:"bytes"`
	PhaseNS    int         `json:"phase_ns"`
	PlanPhases int         `json:"plan_phases"`
	Rows       []packetRow `json:"rows"`
}

// exchange is a schedule to simulate.
type exchange struct {
	name     string
	adaptive bool
	late     int // nanoseconds
	messages []packets.Message
	paces    []packets.Pacing
}

func (f *packetFlags) check() error {
	cables := f.spec.Spines * f.spec.Leaves
	switch {
	case f.spec.Spines < 2 || f.spec.Spines > 32 || f.spec.Leaves < 2 || f.spec.Leaves > 32:
		return errors.New("--spines and --leaves: want numbers from 2 to 32")
	case f.dead < 0 || f.dead > cables/4:
		return fmt.Errorf("--dead %d: want a number from 0 to %d, a quarter of the cables", f.dead, cables/4)
	case f.bytes < 1 || f.bytes > 16<<20:
		return fmt.Errorf("--bytes %d: want a number from 1 to %d", f.bytes, 16<<20)
	case f.speed < 1 || f.speed > 64:
		return fmt.Errorf("--speedup %d: want a number from 1 to 64", f.speed)
	case f.news < 0 || f.late < 0:
		return errors.New("--news and --late: a time cannot be negative")
	}
	for _, j := range f.jits {
		if !(j >= 0 && j <= 10) {
			return fmt.Errorf("--jitter %g: want shares from 0 to 10", j)
		}
	}
	return nil
}

func (f *packetFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	tree, err := f.tree()
	if err != nil {
		return err
	}
	made, err := planner.Make(cmd.Context(), tree, planner.Settings{})
	if err != nil {
		return err
	}
	report := packetReport{1, f.spec.Spines, f.spec.Leaves, f.dead, f.bytes, f.bytes * int(packets.HDR.Byte) / 1000, made.Plan.Phases, nil}
	exchanges, err := f.exchanges(made)
	if err != nil {
		return err
	}
	bar := command.Progress(cmd, 2*len(f.jits)*len(exchanges))
	for _, queues := range []packets.Queues{packets.VOQ, packets.FIFO} {
		for _, jitter := range f.jits {
			for _, x := range exchanges {
				rows, err := f.simulate(cmd.Context(), made, x, queues, jitter)
				if err != nil {
					return err
				}
				report.Rows = append(report.Rows, rows...)
				_ = bar.Add(1)
			}
		}
	}
	_ = bar.Finish()
	return command.Show(cmd, report, func(w io.Writer) { printPackets(w, &report) })
}

// tree is the fat tree with its dead cables.
func (f *packetFlags) tree() (*topology.FatTree, error) {
	f.spec.LMC = 5
	return f.spec.Fit(f.spec.DrawDead(f.seed, f.dead)...)
}

// exchanges are the plan on lanes and that on base LIDs, and the plan's order with adaptive
// routing, each under the applicable rules.
func (f *packetFlags) exchanges(made *planner.Result) ([]exchange, error) {
	paces := []packets.Pacing{
		{Pace: packets.AtOnce}, {Pace: packets.Window, Window: 4}, {Pace: packets.Pairwise}, {Pace: packets.ByLinks},
	}
	for _, guard := range []float64{0, .03, .05, .1, .15} {
		paces = append(paces, packets.Pacing{Pace: packets.Clock, Guard: guard})
	}
	lanes, err := f.messages(made.Schedule)
	if err != nil {
		return nil, err
	}
	list := []exchange{{"lanes", false, 0, lanes, paces}}
	if made.Base != nil {
		base, err := f.messages(made.Base)
		if err != nil {
			return nil, err
		}
		lanes = base
		list = append(list, exchange{"base LIDs", false, 0, base, paces})
	}
	return append(list, exchange{"adaptive", true, 0, lanes, paces[:3]}, exchange{"adaptive, late", true, f.late, lanes, paces[:3]}), nil
}

func (f *packetFlags) messages(s *planner.Schedule) ([]packets.Message, error) {
	rows, err := sim.RowsOfTable(s.Table(0))
	return packets.Of(rows, f.bytes), err
}

// simulate runs an exchange under each of its rules.
func (f *packetFlags) simulate(ctx context.Context, made *planner.Result, x exchange, queues packets.Queues, jitter float64) (rows []packetRow, err error) {
	cfg := packets.HDR
	cfg.Queues, cfg.Speedup, cfg.Adaptive, cfg.Delay, cfg.Seed = queues, f.speed, x.adaptive, int64(x.late)*1000, f.seed
	for _, p := range x.paces {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		p.News = int64(f.news) * 1000
		p.Jitter = int64(jitter * float64(f.bytes) * float64(cfg.Byte))
		r, err := packets.Run(made.Tree.Fabric, made.Tables, cfg, p, x.messages)
		if err != nil {
			return nil, err
		}
		rows = append(rows, packetRow{x.name, queues.String(), jitter, p.Pace.String(), p.Guard, p.Window, r.Share})
	}
	return rows, nil
}

func printPackets(w io.Writer, r *packetReport) {
	fmt.Fprintf(w, "FT(2;%d,%d), %d dead cables, blocks of %d bytes: %d ns at 200 Gb/s; the plan has %d phases\n\n", r.Spines, r.Leaves, r.Dead, r.Bytes, r.PhaseNS, r.PlanPhases)
	fmt.Fprintln(w, "exchange\tqueues\tjitter\tpace\tshare")
	for _, row := range r.Rows {
		pace := row.Pace
		if row.Pace == packets.Clock.String() {
			pace += fmt.Sprintf(", guard %.0f %%", 100*row.Guard)
		}
		if row.Window > 0 {
			pace += fmt.Sprintf(" of %d", row.Window)
		}
		fmt.Fprintf(w, "%s\t%s\t%g\t%s\t%.3f\n", row.Exchange, row.Queues, row.Jitter, pace, row.Share)
	}
}
