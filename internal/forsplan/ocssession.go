package forsplan

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/sessions"
	"github.com/forsd/forsd/optical/ocs"
)

// ofOCS has the commands for sessions of optical circuit switches.
var ofOCS = sessionKind[sessions.OCSSession, sessions.OCSPeriod]{path: "/v1/optical/ocs/sessions", frame: "period", size: "switches", figures: periodFigures,
	parts: func(s *sessions.OCSSession) (*sessions.Session, []sessions.OCSPeriod) { return &s.Session, s.Periods },
	about: func(s *sessions.OCSSession) (size int, line, failed string) {
		return s.Switches, fmt.Sprintf("switches\t%d, of %s, δ %g, a period of %g", s.Switches, command.Plural(s.Racks, "rack", "racks"), s.Delta, s.Period), damageText(&s.Damage)
	},
	row: func(p *sessions.OCSPeriod) (f *sessions.Frame, figures, failed string) {
		return &p.Frame, periodText(&p.PeriodFigures), damageText(&p.Damage)
	}}

// damageText lists the failed parts of switches.
func damageText(g *ocs.Damage) string {
	return failedText(eachOf("switch ", g.DeadSwitches), eachOf("port ", g.DeadPorts))
}

func ocsSessionCommand() *cobra.Command {
	return ofOCS.group(&cobra.Command{
		Short: "Schedule a matrix a period, one after the other, by a forsplan that runs",
		Long: `A session is switches whose matrices forsplan serve schedules period by period, as
forsplan ocs online does: circuits are kept from one period to the next, and what fails in
between is planned around. Sessions are named by number. They end when they have not been
asked for during an hour.`,
		Example: `  forsplan serve &
  id=$(forsplan ocs session open --racks 100 --switches 4 --delta 0.01 --period 0.4 --id)
  forsplan ocs session period $id --demand D.csv --out schedule.json
  forsplan ocs session fail $id --dead-switch 2
  forsplan ocs session show $id
  forsplan ocs session end $id`,
	}, ocsSessionOpenCommand(), ocsSessionPeriodCommand(), ocsSessionFailCommand())
}

func ocsSessionOpenCommand() *cobra.Command {
	var f ocsFlags
	var q struct {
		Name   string  `json:"name"`
		Racks  int     `json:"racks"`
		Period float64 `json:"period"`
		ocs.Options
		Budget string `json:"budget,omitempty"`
		Refine string `json:"refine"`
	}
	cmd := &cobra.Command{
		Use:     "open --racks N --switches S --delta D --period T",
		Example: "  forsplan ocs session open --racks 100 --switches 4 --delta 0.01 --period 0.4",
	}
	f.register(cmd)
	fs := cmd.Flags()
	fs.IntVar(&q.Racks, "racks", 0, "racks of every matrix")
	fs.Float64Var(&q.Period, "period", 0, "what a period takes, in the demands' unit")
	return ofOCS.opening(cmd, &q.Name, func() (_ any, err error) {
		if q.Options, err = f.read(cmd); err == nil && q.Options.Budget > 0 {
			q.Budget = q.Options.Budget.String()
		}
		q.Refine = f.refine
		return q, err
	})
}

func ocsSessionFailCommand() *cobra.Command {
	var f ocsFlags
	cmd := &cobra.Command{
		Use: "fail SESSION --dead-switch H… | --dead-port SWITCH:RACK… | --none",
		Long: `Fail says what of a session's switches has failed, in place of what was named before. The
next period is planned around it.`,
		Example: "  forsplan ocs session fail 1 --dead-switch 2 --dead-port 0:17\n  forsplan ocs session fail 1 --none",
	}
	f.registerDamage(cmd)
	return ofOCS.failing(cmd, "--dead-switch and --dead-port", "all switches and ports", func() (_ any, some bool, err error) {
		g := f.options.Damage
		g.DeadPorts, err = f.deadPorts()
		return g, len(g.DeadSwitches)+len(f.dead) > 0, err
	})
}

func ocsSessionPeriodCommand() *cobra.Command {
	var demand, out string
	cmd := &cobra.Command{
		Use:     "period SESSION --demand FILE",
		Short:   "Schedule the matrix of the next period",
		Example: "  forsplan ocs session period 1 --demand D.csv --out schedule.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckOutputs(cmd, command.Output{Flag: "out", Path: out, What: "the schedule"}); err != nil {
				return err
			}
			d, err := readDemand(cmd, demand)
			if err != nil {
				return err
			}
			rows := make([][]float64, d.Racks())
			for i := range rows {
				for j := range d.Racks() {
					rows[i] = append(rows[i], d.At(i, j))
				}
			}
			keep := func(r *sessions.PeriodReport) any { return r.Report }
			return planFrame(cmd, ofOCS.of(args[0], "/periods"), map[string]any{"demand": rows}, out, keep, func(w io.Writer, r *sessions.PeriodReport, _ time.Duration) {
				figures := r.Figures()
				fmt.Fprintf(w, "%s\n%s\n", periodFigures, periodText(&figures))
			})
		},
	}
	cmd.Flags().StringVar(&demand, "demand", "", "the matrix: CSV, NPY or JSON; - is standard input")
	cmd.Flags().StringVar(&out, "out", "", "write the schedule to this file, as JSON; - is standard output")
	return cmd
}

// onlinePeriod is a period in the output of --json.
type onlinePeriod struct {
	Demand string `json:"demand"`
	sessions.PeriodFigures
	Switches []ocs.Switch `json:"switches"`
}

func ocsOnlineCommand() *cobra.Command {
	var f ocsFlags
	var demands []string
	var period float64
	cmd := &cobra.Command{
		Use:   "online --demand FILE --demand FILE … --switches S --delta D --period T",
		Short: "Schedule a matrix a period, and keep what did not change",
		Long: `Online schedules matrices one after the other, each in its period. It keeps the
permutations of the period before where they still serve, begins with the circuits
that stand, which takes no δ, and carries what a period was too short for over to the
next. A period that is too short is reported, with exit code 1 in the end. Ctrl-C prints
the periods until then, the last one by the best schedule so far.`,
		Example: `  forsplan ocs online --demand D1.csv --demand D2.csv --switches 4 --delta 0.01 --period 0.4`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.read(cmd)
			if err != nil {
				return err
			}
			if len(demands) == 0 {
				return errors.New("--demand is missing: name a matrix (CSV, NPY or JSON) for each period")
			}
			l, err := ocs.NewOnline(o, period)
			if err != nil {
				return err
			}
			var list []onlinePeriod
			late := 0
			var failed error
			for _, name := range demands {
				p, err := f.nextPeriod(cmd, l, name)
				if err != nil {
					failed = err
					break
				}
				if p.Late > 0 {
					late++
				}
				list = append(list, onlinePeriod{name, sessions.PeriodFigures{Makespan: p.Schedule.Makespan(), LowerBound: p.Bounds.Sharp, Late: p.Late, Backlog: p.Backlog,
					Fresh: p.Fresh, Kept: p.Kept, Configurations: p.Schedule.Configurations()}, p.Schedule.Switches})
				if cmd.Context().Err() != nil {
					break
				}
			}
			if len(list) == 0 {
				return failed
			}
			if err := command.Show(cmd, map[string]any{"period": period, "periods": list}, func(w io.Writer) {
				fmt.Fprintln(w, "demand\t"+periodFigures)
				for i := range list {
					fmt.Fprintf(w, "%s\t%s\n", list[i].Demand, periodText(&list[i].PeriodFigures))
				}
			}); err != nil {
				return err
			}
			if err := cmp.Or(command.Interrupted(cmd), failed); err != nil {
				return err
			}
			if late > 0 {
				return command.Violated{Err: fmt.Errorf("the period is too short for %d of %s: want a longer one, more switches, or less traffic", late, command.Plural(len(list), "matrix", "matrices"))}
			}
			return nil
		},
	}
	f.register(cmd)
	f.registerDamage(cmd)
	cmd.Flags().StringArrayVar(&demands, "demand", nil, "matrix of a period, in turn; repeatable")
	cmd.Flags().Float64Var(&period, "period", 0, "what a period takes, in the demands' unit")
	return cmd
}

// nextPeriod schedules the matrix in a file.
func (f *ocsFlags) nextPeriod(cmd *cobra.Command, l *ocs.Online, name string) (*ocs.Period, error) {
	d, err := readDemand(cmd, name)
	if err != nil {
		return nil, err
	}
	defer command.Searching(cmd, "planning "+name, f.keeps())()
	p, err := l.Next(cmd.Context(), d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// periodFigures are the column headings of periodText.
const periodFigures = "makespan\tbound\tlate by\tleft over\tconfigurations\tkept\tplan"

func periodText(p *sessions.PeriodFigures) string {
	plan := "kept"
	if p.Fresh {
		plan = "new"
	}
	return fmt.Sprintf("%.6g\t%.6g\t%.4g\t%.4g\t%d\t%d\t%s", p.Makespan, p.LowerBound, p.Late, p.Backlog, p.Configurations, p.Kept, plan)
}
