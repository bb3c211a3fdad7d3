package forsplan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/matrix"
	"github.com/forsd/forsd/optical/photonic"
)

func photonicCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "photonic",
		Short: "Plan all-to-all exchanges of GPUs that are joined by optical circuit switches alone",
		Long: `The commands of photonic work on servers whose GPUs have a link into and out of each
of some optical circuit switches, and nothing else. They choose how often to
reconfigure the switches during an exchange, and to what, so that short paths pay for
the time that this takes.`,
	}
	cmd.AddCommand(photonicPlanCommand(), photonicReplayCommand())
	return cmd
}

// photonicFlags are the flags of forsplan photonic plan.
type photonicFlags struct {
	photonic.Request
	alpha      float64
	relabel    bool
	baselines  bool
	matrixFile string
	out        string
	svg        svgFlag
	given      func(flag string) bool
	instance   *photonic.Instance
	options    photonic.Options
	planned    time.Duration
}

func photonicPlanCommand() *cobra.Command {
	f := &photonicFlags{}
	cmd := &cobra.Command{
		Use:   "plan --gpus N --reconfig-us R",
		Short: "Choose topologies and paths for an exchange, and when to reconfigure",
		Long: `Plan chooses a sequence of topologies and a path for every message, from each GPU to
each other. A plan with d reconfigurations, the first configuration among them, takes
d·R and the time of its hops. The plan is carried out hop by hop, chunk by chunk,
before anything is printed.

Chunks may wait at a relay for the next topology. The lower bound is that of any plan
with as many reconfigurations as are asked for.

Messages have one size, or sizes drawn at random, or those of a matrix of bytes (CSV,
NPY or JSON; - is standard input). Where sizes differ, GPUs are placed so that large
messages have short ways, unless --relabel=false.`,
		Example: `  forsplan photonic plan --gpus 64 --reconfig-us 1000
  forsplan photonic plan --gpus 64 --degree 2 --reconfig-us 100 --reconfigurations 2 --json
  forsplan photonic plan --matrix bytes.csv --reconfig-us 1000 --out plan.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.given = cmd.Flags().Changed
			return f.run(cmd)
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&f.GPUs, "gpus", 0, "GPUs (default: as many as the matrix has)")
	fs.IntVar(&f.Degree, "degree", 1, "optical switches, each with a link to and from every GPU")
	fs.Float64Var(&f.ReconfigUS, "reconfig-us", 10, "R, what a reconfiguration takes, in microseconds")
	fs.IntVar(&f.Reconfigurations, "reconfigurations", 0, "force so many, 0 chooses")
	fs.StringVar(&f.Family, "family", "", "keep to topologies of one kind: cycle (degree 1), circulant, kautz or cayley")
	fs.Float64Var(&f.MessageMB, "message-mb", photonic.DefaultMessage/1e6, "message from each GPU to each other, or the mean, in 10⁶ bytes")
	fs.Float64Var(&f.ChunkMB, "chunk-mb", float64(photonic.DefaultLink.Chunk)/1e6, "chunk, in 10⁶ bytes")
	fs.Float64Var(&f.Gbps, "gbps", photonic.DefaultLink.Gbps, "bandwidth of a link in 10⁹ bits a second")
	fs.Float64Var(&f.alpha, "alpha-us", photonic.DefaultLink.Alpha.US(), "α, latency of a chunk on a link, in microseconds")
	fs.StringVar(&f.Sizes, "sizes", "uniform", "uniform, random or zipf")
	fs.Float64Var(&f.ZipfFactor, "zipf-factor", photonic.ZipfFactor, "exponent of zipf")
	fs.Uint64Var(&f.Seed, "seed", 1, "seed of random and zipf")
	fs.BoolVar(&f.relabel, "relabel", true, "place GPUs by their messages where sizes differ")
	fs.StringVar(&f.matrixFile, "matrix", "", "matrix of bytes, a row a sending GPU, in place of --sizes and --message-mb")
	fs.BoolVar(&f.baselines, "baselines", true, "plan the alternatives too: one topology, and direct links")
	fs.StringVar(&f.out, "out", "", "write the plan with every hop to this file, as JSON; - is standard output")
	f.svg.register(cmd, "what each switch is set to when, and the links in use")
	return cmd
}

// read builds the instance from the flags.
func (f *photonicFlags) read(cmd *cobra.Command) error {
	f.Relabel, f.AlphaUS = &f.relabel, &f.alpha
	for _, v := range []struct {
		name  string
		value float64
	}{{"degree", float64(f.Degree)}, {"message-mb", f.MessageMB}, {"chunk-mb", f.ChunkMB}, {"gbps", f.Gbps}, {"zipf-factor", f.ZipfFactor}} {
		if v.value == 0 {
			return fmt.Errorf("--%s 0: want more", v.name)
		}
	}
	side, entries := 0, []float64(nil)
	if f.matrixFile != "" {
		if f.given("sizes") || f.given("message-mb") {
			return errors.New("--matrix is given, and --sizes or --message-mb as well: the matrix has all sizes")
		}
		f.Sizes, f.MessageMB = "", 0
		m, err := matrix.ReadInput(cmd, f.matrixFile, matrix.Options{Square: true, MaxSide: photonic.MaxVaried})
		if err != nil {
			return err
		}
		side, entries = m.Rows, m.Data
	} else if !f.given("gpus") {
		return errors.New("--gpus is missing: say how many GPUs there are")
	}
	var err error
	f.instance, f.options, err = f.Instance(side, entries)
	return err
}

// run makes a plan, replays it, and prints it.
func (f *photonicFlags) run(cmd *cobra.Command) error {
	if err := command.CheckOutputs(cmd, command.Output{Flag: "out", Path: f.out, What: "the plan"}, f.svg.output()); err != nil {
		return err
	}
	if err := f.read(cmd); err != nil {
		return err
	}
	start := time.Now()
	done := command.Searching(cmd, "planning", true)
	plan, err := photonic.Make(cmd.Context(), f.instance, f.options)
	f.planned = time.Since(start)
	if plan == nil || err != nil && cmd.Context().Err() == nil {
		done()
		return err
	}
	var baselines []photonic.Baseline
	if f.baselines && err == nil {
		baselines, err = photonic.Baselines(cmd.Context(), f.instance)
	}
	done()
	if err != nil && cmd.Context().Err() == nil {
		return err
	}
	report, err := photonic.NewReport(context.WithoutCancel(cmd.Context()), f.instance, plan, baselines)
	if err != nil {
		return fmt.Errorf("the plan fails its replay, which is a fault of forsplan: %w", err)
	}
	if f.out != "" {
		data, err := photonic.Encode(f.instance, plan)
		if err != nil {
			return err
		}
		if err := command.WriteOut(cmd, f.out, append(data, '\n')); err != nil {
			return err
		}
	}
	err = f.svg.show(cmd, f.out != "-", func() *chart { return photonicChart(f.instance, plan) }, report, func(w io.Writer) { f.print(w, report) })
	return cmp.Or(err, command.Interrupted(cmd))
}

// micros prints a time in a suitable unit.
func micros(t photonic.Time) string {
	if t < 1000*photonic.Microsecond {
		return fmt.Sprintf("%.3g µs", t.US())
	}
	return command.MS(t.US() / 1000)
}

// print prints a plan.
func (f *photonicFlags) print(w io.Writer, r *photonic.Report) {
	fmt.Fprintf(w, "exchange\t%d GPUs, %s; R = %s, T = %s a message and hop\n", r.GPUs, command.Plural(r.Degree, "switch", "switches"), micros(r.ReconfigUS), micros(r.HopUS))
	fmt.Fprintf(w, "plan\t%s on %s\n", command.Plural(r.Reconfigurations, "reconfiguration", "reconfigurations"), r.Family)
	fmt.Fprintf(w, "topologies\t%s\n", topologiesText(r.Topologies))
	fmt.Fprintf(w, "hop sum\t%.4g T in %s\n", r.HopSum, command.Plural(len(r.Rounds), "round", "rounds"))
	fmt.Fprintf(w, "cost\t%s: %s of reconfigurations, %s of hops\n", micros(r.CostUS), micros(r.CostUS-r.TransferUS), micros(r.TransferUS))
	if r.LowerBoundUS > 0 {
		fmt.Fprintf(w, "lower bound\t%s; the plan is %.3f times that\n", micros(r.LowerBoundUS), float64(r.CostUS)/float64(r.LowerBoundUS))
	}
	for _, b := range r.Baselines {
		fmt.Fprintf(w, "%s\t%s with %s; the plan takes %.1f %% less\n", b.Name, micros(b.CostUS), command.Plural(b.Reconfigurations, "reconfiguration", "reconfigurations"),
			100*(1-float64(r.CostUS)/float64(b.CostUS)))
	}
	fmt.Fprintf(w, "planned in\t%s, and replayed: %s after %s\n", command.Took(f.planned), command.Plural(r.Messages, "message arrives", "messages arrive"), command.Plural(int(r.Moves), "move", "moves"))
}

// topologiesText lists the topologies that the switches are set to.
func topologiesText(list []photonic.Topology) string {
	const most = 12
	var words []string
	for i, t := range list {
		switch {
		case t.Offsets == nil:
			return "permutations, see --json"
		case i == most:
			return strings.Join(words, " ") + fmt.Sprintf(" … (%d)", len(list))
		case len(t.Offsets) == 1:
			words = append(words, fmt.Sprintf("+%d", t.Offsets[0]))
		default:
			words = append(words, strings.ReplaceAll(strings.Trim(fmt.Sprint(t.Offsets), "[]"), " ", ","))
		}
	}
	return strings.Join(words, " ")
}

func photonicReplayCommand() *cobra.Command {
	var file string
	var drawn svgFlag
	cmd := &cobra.Command{
		Use:   "replay --plan FILE",
		Short: "Carry out a plan hop by hop and check that every chunk arrives",
		Long: `Replay reads what forsplan photonic plan --out wrote and carries it out: switches must
be set to permutations, no link may carry two things at once, a chunk may leave a GPU
only once it is there, everything must arrive, and the cost must be what the plan
says. It prints the first violation.`,
		Example: `  forsplan photonic replay --plan plan.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckOutputs(cmd, drawn.output()); err != nil {
				return err
			}
			data, err := command.ReadFlag("plan", file, "a file of forsplan photonic plan --out")
			if err != nil {
				return err
			}
			in, plan, err := photonic.Decode(data)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			r, err := photonic.Replay(cmd.Context(), in, plan)
			if cmd.Context().Err() != nil {
				return context.Cause(cmd.Context())
			} else if err != nil {
				return command.Violated{Err: fmt.Errorf("%s: %w", file, err)}
			}
			report := map[string]any{"messages": r.Messages, "moves": r.Moves, "cost_us": r.Cost}
			return drawn.show(cmd, true, func() *chart { return photonicChart(in, plan) }, report, func(w io.Writer) {
				fmt.Fprintf(w, "%s holds: %s after %s, at a cost of %s\n", file, command.Plural(r.Messages, "message arrives", "messages arrive"), command.Plural(int(r.Moves), "move", "moves"), micros(r.Cost))
			})
		},
	}
	cmd.Flags().StringVar(&file, "plan", "", "file of forsplan photonic plan --out")
	drawn.register(cmd, "what each switch is set to when, and the links in use")
	return cmd
}
