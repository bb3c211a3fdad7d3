package forsplan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/matrix"
	"github.com/forsd/forsd/optical/ocs"
)

func ocsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "ocs",
		Short: "Schedule traffic matrices on parallel optical circuit switches",
		Long: `The commands of ocs work on racks that are joined by parallel optical circuit
switches: each connects every rack to one other at a time and takes a while, δ, to
change. They turn a matrix of what each rack has for each other into what every switch
does, so that the last of them is done early. Times and demands are in one unit, such
as the milliseconds that a circuit takes to carry an entry.`,
	}, "say what to do: schedule, replay, generate, online, session, apply or timetable",
		ocsScheduleCommand(), ocsReplayCommand(), ocsGenerateCommand(), ocsOnlineCommand(), ocsSessionCommand(), ocsApplyCommand(), ocsTimetableCommand())
}

// readDemand reads a demand matrix from a file, or from standard input if path is -.
func readDemand(cmd *cobra.Command, path string) (*ocs.Demand, error) {
	if path == "" {
		return nil, errors.New("--demand is missing: name a matrix (CSV, NPY or JSON), or - for standard input")
	}
	m, err := matrix.ReadInput(cmd, path, matrix.Options{Square: true, MaxSide: ocs.MaxRacks})
	if err != nil {
		return nil, err
	}
	d, err := ocs.NewDemand(m.Rows, m.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// ocsFlags are the flags for schedules.
type ocsFlags struct {
	options ocs.Options
	refine  string
	from    string
	dead    []string
	svg     svgFlag
}

func (f *ocsFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.IntVar(&f.options.Switches, "switches", 0, "s: switches that work in parallel")
	fs.Float64Var(&f.options.Delta, "delta", 0, "δ: what a reconfiguration takes, in the demand's unit")
	fs.StringVar((*string)(&f.options.Method), "method", string(ocs.Best), "best, fast (as published) or eclipse")
	fs.IntVar(&f.options.Steps, "steps", 0, "bound the search of best by steps (default: 8,000,000 over the number of racks, about 0.25 s)")
	fs.DurationVar(&f.options.Budget, "budget", 0, "bound the search of best by the clock instead: what comes out depends on the machine")
	fs.StringVar(&f.refine, "refine", "greedy", "weights of fast and best: greedy, or lp for linear programming")
	fs.BoolVar(&f.options.NoEqualize, "no-equalize", false, "leave the published Equalize out (fast, eclipse)")
}

func (f *ocsFlags) registerDamage(cmd *cobra.Command) {
	cmd.Flags().IntSliceVar(&f.options.DeadSwitches, "dead-switch", nil, "number of a switch, from 0, that is dead; repeatable")
	cmd.Flags().StringArrayVar(&f.dead, "dead-port", nil, "SWITCH:RACK whose ports there are dead, or SWITCH:RACK:sends or SWITCH:RACK:receives for one of them; repeatable")
}

// read converts the flags to options.
func (f *ocsFlags) read(cmd *cobra.Command) (ocs.Options, error) {
	o := f.options
	if !cmd.Flags().Changed("switches") {
		return o, errors.New("--switches is missing: say how many work in parallel")
	}
	if o.Method == "" {
		return o, errors.New("--method is empty: leave it out for best")
	}
	var err error
	if o.DeadPorts, err = f.deadPorts(); err != nil {
		return o, err
	}
	if f.from != "" {
		r, err := readSchedule(f.from)
		if err != nil {
			return o, err
		}
		o.From = r.Schedule()
	}
	return o, o.Refine(f.refine)
}

// keeps reports whether planning has a schedule at any time.
func (f *ocsFlags) keeps() bool { return f.options.Method == ocs.Best && len(f.dead) == 0 }

// deadPorts parses the values of --dead-port.
func (f *ocsFlags) deadPorts() (all []ocs.Port, err error) {
	for _, name := range f.dead {
		where, which, _ := strings.Cut(name, ":")
		rack, way, _ := strings.Cut(which, ":")
		h, errH := strconv.Atoi(where)
		r, errR := strconv.Atoi(rack)
		if errH != nil || errR != nil || way != "" && way != "sends" && way != "receives" {
			return nil, fmt.Errorf("--dead-port %.40q: want SWITCH:RACK, SWITCH:RACK:sends or SWITCH:RACK:receives", name)
		}
		if way != "receives" {
			all = append(all, ocs.Port{Switch: h, Rack: r})
		}
		if way != "sends" {
			all = append(all, ocs.Port{Switch: h, Rack: r, Receives: true})
		}
	}
	return all, nil
}

func ocsScheduleCommand() *cobra.Command {
	var f ocsFlags
	var demand, out string
	cmd := &cobra.Command{
		Use:   "schedule --demand FILE --switches S --delta D",
		Short: "Plan what each switch connects, and when, to carry a matrix",
		Long: `Schedule covers the matrix by permutations and gives them to the switches. The
schedule is replayed, circuit by circuit, before anything is printed.

The methods: fast is the published one (Decompose, Schedule, Equalize); best, the
default, begins with that and searches on, and is never worse; eclipse decomposes as
Eclipse does. The same input gives the same schedule, unless --budget bounds the
search by the clock.

What a rack sends to itself needs no switch and is left out. Two lower bounds are
printed: that of the paper's theorems, and a sharper one that counts configurations.`,
		Example: `  forsplan ocs schedule --demand D.csv --switches 4 --delta 0.01
  forsplan ocs schedule --demand D.npy --switches 8 --delta 0.04 --budget 250ms --json
  forsplan ocs schedule --demand D.json --switches 2 --delta 0.01 --method fast --out schedule.json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, demand, out) },
	}
	f.register(cmd)
	f.registerDamage(cmd)
	cmd.Flags().StringVar(&f.from, "from", "", "file of an earlier schedule for best to begin with: for no more demand the new one is never longer")
	cmd.Flags().StringVar(&demand, "demand", "", "square matrix, a row for each sending rack: CSV, NPY or JSON; - is standard input")
	cmd.Flags().StringVar(&out, "out", "", "write the schedule to this file, as JSON; - is standard output")
	f.svg.register(cmd, "what each switch does when")
	return cmd
}

// run makes a schedule, replays it, and prints it.
func (f *ocsFlags) run(cmd *cobra.Command, demand, out string) error {
	o, err := f.read(cmd)
	if err != nil {
		return err
	}
	if err := command.CheckOutputs(cmd, command.Output{Flag: "out", Path: out, What: "the schedule"}, f.svg.output()); err != nil {
		return err
	}
	d, err := readDemand(cmd, demand)
	if err != nil {
		return err
	}
	start := time.Now()
	done := command.Searching(cmd, "planning", f.keeps())
	s, err := ocs.Make(cmd.Context(), d, o)
	done()
	if s == nil {
		return err
	}
	planned := time.Since(start)
	r, err := ocs.NewReport(d, s, o.Method)
	if err != nil {
		return fmt.Errorf("this is a fault of forsplan: %w", err)
	}
	if out != "" {
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := command.WriteOut(cmd, out, append(data, '\n')); err != nil {
			return err
		}
	}
	err = f.svg.show(cmd, out != "-", func() *chart { return ocsChart(r) }, r, func(w io.Writer) { printSchedule(w, r, planned) })
	return cmp.Or(err, command.Interrupted(cmd))
}

// printSchedule prints a schedule.
func printSchedule(w io.Writer, r *ocs.Report, planned time.Duration) {
	fmt.Fprintf(w, "makespan\t%.6g, by method %s; %s\n", r.Makespan, r.Method, timesBound(r.Makespan, r.LowerBound))
	fmt.Fprintf(w, "lower bound\t%.6g; of the paper's theorems %.6g\n", r.LowerBound, r.PaperBound)
	fmt.Fprintf(w, "configurations\t%d; at least %d permutations cover the demand\n", r.Configurations, r.Degree)
	fmt.Fprintf(w, "planned in\t%s, and replayed\n\n", command.Took(planned))
	fmt.Fprintln(w, "switch\tload\tconfigurations\tthe first weights")
	for h, sw := range r.Switches {
		fmt.Fprintf(w, "%d\t%.6g\t%d\t%s\n", h, sw.Load, len(sw.Configs), firstWeights(sw.Configs))
	}
}

// timesBound compares a makespan with its bound.
func timesBound(makespan, bound float64) string {
	if bound == 0 {
		return "there is nothing to carry"
	}
	return fmt.Sprintf("%.4f times the bound", makespan/bound)
}

func firstWeights(list []ocs.Config) string {
	const most = 6
	var words []string
	for i, c := range list {
		if i == most {
			words = append(words, "…")
			break
		}
		words = append(words, fmt.Sprintf("%.4g", c.Weight))
	}
	return strings.Join(words, " ")
}

// readSchedule reads a schedule from the file of --schedule.
func readSchedule(path string) (*ocs.Report, error) {
	return command.Parse(path, ocs.ReadReport)(command.ReadFlag("schedule", path, "a file of forsplan ocs schedule --out"))
}

func ocsReplayCommand() *cobra.Command {
	var demand, schedule string
	var drawn svgFlag
	cmd := &cobra.Command{
		Use:   "replay --demand FILE --schedule FILE",
		Short: "Carry a schedule out, circuit by circuit, and check that all is carried",
		Long: `Replay checks that every configuration is a permutation, that a δ passes before each,
that the loads are what they are said to be, and that all of the demand is carried. It
knows nothing of how schedules are made. It prints the first violation.`,
		Example: `  forsplan ocs replay --demand D.csv --schedule schedule.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckOutputs(cmd, drawn.output()); err != nil {
				return err
			}
			d, err := readDemand(cmd, demand)
			if err != nil {
				return err
			}
			r, err := readSchedule(schedule)
			if err != nil {
				return err
			}
			s := r.Schedule()
			if err := ocs.Replay(d, s); err != nil {
				return command.Violated{Err: fmt.Errorf("%s: %w", schedule, err)}
			}
			report := map[string]any{"makespan": s.Makespan(), "configurations": s.Configurations()}
			return drawn.show(cmd, true, func() *chart { return ocsChart(r) }, report, func(w io.Writer) {
				fmt.Fprintf(w, "%s holds: %s carry all of %s by %.6g\n", schedule, command.Plural(s.Configurations(), "configuration", "configurations"), demand, s.Makespan())
			})
		},
	}
	cmd.Flags().StringVar(&demand, "demand", "", "the matrix: CSV, NPY or JSON; - is standard input")
	cmd.Flags().StringVar(&schedule, "schedule", "", "file of forsplan ocs schedule --out")
	drawn.register(cmd, "what each switch does when")
	return cmd
}

func ocsGenerateCommand() *cobra.Command {
	var name, out string
	var racks, flows int
	var noise float64
	var seed uint64
	cmd := &cobra.Command{
		Use:   "generate --workload NAME --out FILE",
		Short: "Write a matrix of one of the paper's three workloads",
		Long: `Generate writes a matrix as CSV. benchmark is the field's: the sum of random
permutations, of 16 four large ones and twelve small, with a little noise. gpt is
sparse and skewed as the traffic of a GPT model with three kinds of parallelism, and
moe dense and nearly uniform as that of a model with experts; the matrices that the
paper measured were not published, and these follow its description.`,
		Example: `  forsplan ocs generate --workload benchmark --seed 7 --out D.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckOutput(cmd, command.Output{Flag: "out", Path: out, What: "the matrix"}); err != nil {
				return err
			}
			w, err := ocs.Named(name)
			if err != nil {
				return err
			}
			w.Racks, w.Flows = cmp.Or(racks, w.Racks), cmp.Or(flows, w.Flows)
			if cmd.Flags().Changed("noise") {
				w.Noise = noise
			}
			d, err := w.Demand(seed)
			if err != nil {
				return err
			}
			if err := command.WriteOut(cmd, out, rowsCSV(d.Racks(), func(i, j int) any { return d.At(i, j) })); err != nil || out == "-" {
				return err
			}
			return command.Show(cmd, map[string]any{"workload": name, "racks": d.Racks(), "entries": d.Nonzeros(), "degree": d.Degree(), "width": d.Width()}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d racks, %d pairs with demand, at most %d of a rack, which sum to %.4g at most\n", out, d.Racks(), d.Nonzeros(), d.Degree(), d.Width())
			})
		},
	}
	cmd.Flags().StringVar(&name, "workload", "benchmark", "benchmark, gpt or moe")
	cmd.Flags().IntVar(&racks, "racks", 0, "racks (default: the paper's)")
	cmd.Flags().IntVar(&flows, "flows", 0, "flows of a rack (default: the paper's)")
	cmd.Flags().Float64Var(&noise, "noise", 0, "standard deviation of the noise on nonzero entries, in link bandwidth (default: 0.003, moe 0)")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the random numbers")
	cmd.Flags().StringVar(&out, "out", "", "file to write; - is standard output")
	return cmd
}
