package forsplan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/gpu/mscclpp"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/nics"
)

func gpuCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "gpu",
		Short: "Schedule all-to-all exchanges of GPU clusters with servers of several GPUs and NICs",
		Long: `The commands of gpu work on clusters of two tiers: servers with as many NICs as
GPUs and a fast switch inside, and a network between them. They plan exchanges in
stages, in each of which a NIC sends to one other and receives from one, check plans
by replay, and generate traffic. Those of gpu session have a running forsd plan.`,
	}, "say what to do: schedule, replay, generate or session",
		gpuScheduleCommand(), gpuReplayCommand(), gpuGenerateCommand(), gpuSessionCommand())
}

// gpuScheduleFlags are the flags of forsplan gpu schedule.
type gpuScheduleFlags struct {
	trafficFlags
	options       gpu.Options
	site          siteFlags
	lanes         lanesFlags
	out, programs string
	svg           svgFlag
	mscclpp       string
}

func gpuScheduleCommand() *cobra.Command {
	var f gpuScheduleFlags
	cmd := &cobra.Command{
		Use:   "schedule --traffic FILE --gpus-per-server N",
		Short: "Plan an exchange in stages, with moves inside the servers beside them",
		Long: `Schedule plans what each GPU has for each other: which NIC sends to which in each
stage, which bytes move to another GPU of their server beside the stage before, and
which move on inside their server beside the stage after. The plan is carried out, byte
by byte, before anything is printed.

The modes: bytes makes few long stages, and fewer with --grain or --max-stretch; rails
keeps to the length of the paper's Eq. 26 exactly; minmove does too and moves as little
as that allows inside servers; paper is the published scheme; none moves nothing. auto,
the default, takes that with the least predicted time.

With --fabric, the stages are pinned on the lanes of the fat tree that joins the NICs:
the answer of --json says for each transfer which LID it is sent to. Where cables are
dead (--fail), the plan has no more transfers of a leaf in a stage than lanes are left, and
stages that do not fit are cut into parts in which a cable carries one transfer each way.

Every rank may plan for itself: the same input gives the same plan. --out writes the
lists of all ranks in a compact form that docs/gpu.md describes.`,
		Example: `  forsplan gpu schedule --traffic bytes.csv --gpus-per-server 8
  forsplan gpu schedule --routing tokens.npy --token-bytes 14336 --gpus-per-server 8 --out exchange.bin
  forsplan gpu schedule --traffic bytes.csv --gpus-per-server 8 --mode bytes --max-stretch 1.05 --json
  forsplan gpu schedule --traffic bytes.csv --gpus-per-server 8 --fabric opensm-subnet.lst --lmc 3 --fail Leaf007/31 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd)
	f.site.register(cmd)
	f.lanes.register(cmd)
	registerOptions(cmd, &f.options)
	fs := cmd.Flags()
	fs.StringVar(&f.out, "out", "", "write the lists of all ranks to this file, in binary; - is standard output")
	fs.StringVar(&f.programs, "programs", "", "write the lists of all ranks to this file, as JSON; - is standard output")
	f.svg.register(cmd, "when stages are and what each NIC sends")
	fs.StringVar(&f.mscclpp, "mscclpp", "", "write an execution plan of MSCCL++ for all ranks to this file; - is standard output")
	return cmd
}

// registerOptions adds the flags for planning options, with their defaults.
func registerOptions(cmd *cobra.Command, o *gpu.Options) {
	fs := cmd.Flags()
	fs.StringVar((*string)(&o.Mode), "mode", string(gpu.Auto), "auto, bytes, rails, minmove, paper or none")
	fs.Int64Var(&o.Grain, "grain", 0, "bytes to round a NIC's share up to (bytes), or of a packet, which is not divided (other modes)")
	fs.Float64Var(&o.MaxStretch, "max-stretch", 0, "how many times the least length the stages may have, to be fewer: 1.05 for 5 % (bytes, auto)")
	fs.Int64Var(&o.MaxStage, "max-stage", 0, "bytes that a stage may have at most, for smaller buffers: longer ones are cut (bytes, auto)")
	fs.BoolVar(&o.Fewest, "fewest", false, "look longer for fewer stages (bytes; auto looks both ways)")
	fs.DurationVar(&o.Budget, "budget", 0, "how long to try other ways (auto); 0 tries them all. With a budget, the plan depends on the machine")
	fs.Float64Var(&o.Model.B1, "b1", gpu.DefaultModel.B1, "bytes a second of a GPU inside its server")
	fs.Float64Var(&o.Model.B2, "b2", gpu.DefaultModel.B2, "bytes a second of a NIC")
	fs.DurationVar(&o.Model.Latency, "latency", gpu.DefaultModel.Latency, "what it takes to start a stage")
}

// run makes a plan, carries it out, and prints it.
func (f *gpuScheduleFlags) run(cmd *cobra.Command) error {
	const lists = "the ranks' lists"
	if err := command.CheckOutputs(cmd, command.Output{Flag: "out", Path: f.out, What: lists}, command.Output{Flag: "programs", Path: f.programs, What: lists}, command.Output{Flag: "mscclpp", Path: f.mscclpp, What: lists}, f.svg.output()); err != nil {
		return err
	}
	site, err := f.site.read(&f.trafficFlags)
	if err != nil {
		return err
	}
	t, tokens, err := f.read(cmd)
	if err != nil {
		return err
	}
	servers := t.Servers
	if site != nil {
		servers = len(site.Servers)
	}
	if err := f.lanes.ask(cmd, servers, &f.site.nics); err != nil {
		return err
	}
	if site, err = gpu.Without(site, t.Cluster, f.site.rails, f.site.nics, f.site.gpus); err != nil {
		return err
	}
	if tokens != nil && f.mscclpp != "" {
		if f.once != "" {
			return errors.New("--once server: MSCCL++ does not hand tokens on: want --once gpu")
		}
		tokens = nil
	}
	if o := &f.options; f.mscclpp != "" && o.Grain == 0 && o.MaxStretch == 0 && (o.Mode == gpu.Auto || o.Mode == gpu.Bytes) && site == nil {
		o.Grain = int64(mscclpp.Alignment * t.GPUs) // auto could choose a grain that MSCCL++ cannot copy
	}
	done := command.Searching(cmd, "planning", f.options.Mode == gpu.Auto || f.lanes.fabric.Topology != "")
	start := time.Now()
	plan, pinned, err := nics.Within(t.Cluster, site, f.options, func(site *gpu.Site, o gpu.Options) (*gpu.Plan, error) {
		return f.plan(cmd.Context(), t, tokens, site, o)
	}, func(plan *gpu.Plan) (*lanes.Plan, error) { return f.lanes.pin(cmd.Context(), plan, f.options.Model) })
	elapsed := time.Since(start)
	done()
	if err != nil {
		return err
	}
	chunk, err := f.write(cmd, plan)
	if err != nil {
		return err
	}
	report := plan.Report(f.options.Model)
	chart := func() *chart { return gpuChart(plan, f.options.Model) }
	err = f.svg.show(cmd, f.out != "-" && f.programs != "-" && f.mscclpp != "-", chart, nics.Report{Report: report, Fabric: pinned}, func(w io.Writer) {
		printExchange(w, report, elapsed)
		if pinned != nil {
			printLanes(w, pinned, len(report.Stages))
		}
		if f.mscclpp != "" {
			fmt.Fprintf(w, "plan of MSCCL++       %s, in chunks of %d bytes\n", f.mscclpp, chunk)
		}
	})
	return cmp.Or(err, command.Interrupted(cmd))
}

// plan makes and carries out the plan. If ctx ends during planning, it uses the best plan so far.
func (f *gpuScheduleFlags) plan(ctx context.Context, t *gpu.Traffic, tokens *gpu.Tokens, site *gpu.Site, o gpu.Options) (plan *gpu.Plan, err error) {
	var planner gpu.Planner
	switch {
	case site != nil && site.Lanes != nil && f.mscclpp != "":
		return nil, errors.New("MSCCL++ wants servers that are all alike")
	case site != nil && tokens != nil:
		plan, err = planner.PlanSiteTokens(ctx, site, tokens, o)
	case site != nil:
		plan, err = planner.PlanSite(ctx, site, t.Bytes, o)
	case tokens != nil:
		plan, err = planner.PlanTokens(ctx, tokens, o)
	default:
		plan, err = planner.Plan(ctx, t, o)
	}
	if plan == nil || err != nil && ctx.Err() == nil {
		return nil, err
	}
	if tokens != nil && f.back {
		plan = plan.Return()
	}
	ctx = context.WithoutCancel(ctx)
	switch {
	case site != nil && tokens != nil:
		err = gpu.VerifySiteTokens(ctx, site, tokens, plan)
	case site != nil:
		err = gpu.VerifySite(ctx, site, t.Bytes, plan)
	case tokens != nil:
		err = gpu.VerifyTokens(ctx, tokens, plan)
	default:
		err = gpu.Verify(ctx, t, plan)
	}
	if err != nil {
		return nil, fmt.Errorf("the plan fails its replay, which is a fault of forsplan: %w", err)
	}
	return plan, nil
}

// write writes the lists of all ranks in the requested formats, and returns the size of an
// MSCCL++ chunk in bytes.
func (f *gpuScheduleFlags) write(cmd *cobra.Command, plan *gpu.Plan) (chunk int64, err error) {
	ctx := context.WithoutCancel(cmd.Context())
	for _, x := range []struct {
		file string
		data func() ([]byte, error)
	}{
		{f.out, func() ([]byte, error) { return plan.Encode(ctx) }},
		{f.programs, func() ([]byte, error) {
			programs, err := plan.Programs(ctx)
			if err != nil {
				return nil, err
			}
			list, err := json.Marshal(programs)
			return append(list, '\n'), err
		}},
		{f.mscclpp, func() (data []byte, err error) {
			data, chunk, err = mscclpp.Encode(ctx, plan)
			return data, err
		}},
	} {
		if x.file == "" {
			continue
		}
		done := command.Working(cmd, "making the ranks' lists")
		data, err := x.data()
		done()
		if err != nil {
			return 0, err
		}
		if err := command.WriteOut(cmd, x.file, data); err != nil {
			return 0, err
		}
	}
	return chunk, nil
}

func gpuReplayCommand() *cobra.Command {
	var f trafficFlags
	var exchange string
	cmd := &cobra.Command{
		Use:   "replay --traffic FILE --gpus-per-server N --exchange FILE",
		Short: "Carry out the lists of all ranks and check that every byte arrives once",
		Long: `Replay reads what forsplan gpu schedule --out wrote and carries it out: every byte of
every message must be read once, travel over one NIC at each end, and arrive once, in
its place; and no NIC may send to or receive from more than one other in a stage, nor
more than the stage's length. It prints the first violation.`,
		Example: `  forsplan gpu replay --traffic bytes.csv --gpus-per-server 8 --exchange exchange.bin`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := command.ReadFlag("exchange", exchange, "a file of forsplan gpu schedule --out")
			if err != nil {
				return err
			}
			t, tokens, err := f.read(cmd)
			if err != nil {
				return err
			}
			v, err := gpu.Decode(data)
			if err != nil {
				return fmt.Errorf("%s: %w", exchange, err)
			}
			if v.Cluster != t.Cluster {
				return command.Violated{Err: fmt.Errorf("%s is for %d servers of %d GPUs, the traffic for %d of %d", exchange, v.Servers, v.GPUs, t.Servers, t.GPUs)}
			}
			if v.TokenBytes > 0 && (tokens == nil || v.Returns != f.back) {
				return fmt.Errorf("%s is of tokens that are sent once to each server: give --topk as it was planned, with --return for the way back", exchange)
			}
			done := command.Working(cmd, "carrying it out")
			found, err := command.UnlessStopped(cmd.Context(), func() (found, _ error) {
				if v.TokenBytes > 0 {
					found = v.VerifyTokens(cmd.Context(), tokens)
				} else {
					found = v.Verify(cmd.Context(), t)
				}
				return found, context.Cause(cmd.Context())
			})
			done()
			if err != nil {
				return err
			}
			if found != nil {
				return command.Violated{Err: fmt.Errorf("%s: %w", exchange, found)}
			}
			text := "every byte arrives once"
			if v.Returns {
				text = "every sum has each GPU's part once, and comes once from each server"
			} else if v.TokenBytes > 0 {
				text = "every token arrives once in each server and at each GPU that needs it"
			}
			return command.Show(cmd, map[string]any{"ok": true, "stages": len(v.Lengths), "length": v.Length}, func(w io.Writer) {
				fmt.Fprintf(w, "ok: %s, in %s\n", text, command.Plural(len(v.Lengths), "stage", "stages"))
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&exchange, "exchange", "", "what forsplan gpu schedule --out wrote")
	return cmd
}

func gpuGenerateCommand() *cobra.Command {
	var c gpu.Cluster
	var pattern, out string
	var mean int64
	var skew float64
	var seed uint64
	cmd := &cobra.Command{
		Use:   "generate --servers N --gpus-per-server N",
		Short: "Generate traffic between GPUs of different servers, as CSV",
		Long: `Generate prints a matrix of bytes, a row for each sending GPU. The patterns: uniform
draws each message from 0 to twice the mean; hotspot moves the share --skew of what
servers have for each other to their first GPUs; zipf has each GPU's destinations fall
as rank^−skew; moe routes tokens to the top two of as many experts as GPUs, whose
popularity falls as rank^−skew.`,
		Example: `  forsplan gpu generate --servers 8 --gpus-per-server 8 --pattern moe --skew 0.7 --out bytes.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if command.WantsJSON(cmd) {
				return errors.New("--json: generate prints CSV, which --traffic reads")
			}
			t, err := command.UnlessStopped(cmd.Context(), func() (*gpu.Traffic, error) {
				return gpu.Generate(c, gpu.Pattern(pattern), mean, skew, seed)
			})
			if err != nil {
				return err
			}
			return command.WriteOut(cmd, out, rowsCSV(t.Ranks(), func(i, j int) any { return t.Bytes[i*t.Ranks()+j] }))
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&c.Servers, "servers", 8, "servers")
	fs.IntVar(&c.GPUs, "gpus-per-server", 8, "GPUs, and NICs, of a server")
	fs.StringVar(&pattern, "pattern", string(gpu.Uniform), "uniform, hotspot, zipf or moe")
	fs.Int64Var(&mean, "mean", 1<<20, "bytes from one GPU to another, on average")
	fs.Float64Var(&skew, "skew", 0.5, "how uneven the traffic is, see above")
	fs.Uint64Var(&seed, "seed", 1, "seed of the random numbers")
	fs.StringVar(&out, "out", "-", "file to write; - is standard output")
	return cmd
}

// rowsCSV writes a square matrix such that reading it yields the same numbers.
func rowsCSV(side int, at func(i, j int) any) []byte {
	var out []byte
	for i := range side {
		for j := range side {
			if j > 0 {
				out = append(out, ',')
			}
			out = fmt.Append(out, at(i, j))
		}
		out = append(out, '\n')
	}
	return out
}
