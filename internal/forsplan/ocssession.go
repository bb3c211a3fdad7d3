package forsplan

import (
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
