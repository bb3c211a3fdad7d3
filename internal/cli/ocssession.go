package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/tiers"
	"github.com/forsd/forsd/optical/ocs"
)

// ofOCS are the sessions of optical circuit switches.
var ofOCS = sessions[api.OCSSession]{path: "/v1/optical/ocs/sessions", head: func(s *api.OCSSession) *api.Session { return &s.Session },
	size: "switches", print: printOCSSession, about: func(s *api.OCSSession) (size int, failed string) { return s.Switches, damageText(&s.Damage) }}

func ocsSessionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Have forsd schedule a matrix a period, one after the other",
		Long: `A session is switches whose matrices a running forsd schedules period by period, as
forsctl ocs online does: circuits are kept from one period to the next, and what fails in
between is planned around. Sessions are named by number. They outlast a restart of forsd,
and end where nobody asks for them during an hour.`,
		Example: `  id=$(forsctl ocs session open --racks 100 --switches 4 --delta 0.01 --period 0.4 --id)
  forsctl ocs session period $id --demand D.csv --out schedule.json
  forsctl ocs session fail $id --dead-switch 2
  forsctl ocs session show $id
  forsctl ocs session end $id`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(ocsSessionOpenCommand(), ofOCS.listCommand(),
		ofOCS.command("show", "Show a session with its latest periods", http.MethodGet), ocsSessionPeriodCommand(), ocsSessionFailCommand(),
		ofOCS.command("end", "End a session", http.MethodDelete))
	return cmd
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
	var id bool
	cmd := &cobra.Command{
		Use:     "open --racks N --switches S --delta D --period T",
		Short:   "Open a session",
		Example: "  forsctl ocs session open --racks 100 --switches 4 --delta 0.01 --period 0.4",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.Options, err = f.read(cmd); err != nil {
				return err
			}
			if q.Refine = f.refine; q.Options.Budget > 0 {
				q.Budget = q.Options.Budget.String()
			}
			return ofOCS.ask(cmd, http.MethodPost, "", "", q, id)
		},
	}
	f.register(cmd)
	fs := cmd.Flags()
	fs.IntVar(&q.Racks, "racks", 0, "racks of every matrix")
	fs.Float64Var(&q.Period, "period", 0, "what a period takes, in the demands' unit")
	fs.StringVar(&q.Name, "name", "", "what people call the session")
	fs.BoolVar(&id, "id", false, "print the session's number and nothing else")
	return cmd
}

func printOCSSession(w io.Writer, s *api.OCSSession) {
	fmt.Fprintf(w, "session\t%d%s\n", s.ID, inBrackets(s.Name))
	fmt.Fprintf(w, "switches\t%d, of %s, δ %g, a period of %g\n", s.Switches, command.Plural(s.Racks, "rack", "racks"), s.Delta, s.Period)
	fmt.Fprintf(w, "opened\t%s, asked for last %s\n", clock(s.Opened), clock(s.Asked))
	fmt.Fprintf(w, "failed\t%s\n", damageText(&s.Damage))
	fmt.Fprintf(w, "periods\t%d planned, %d refused\n", s.Planned, s.Refused)
	if len(s.Periods) > 0 {
		fmt.Fprintln(w, "\nperiod\tat\tmakespan\tbound\tlate by\tleft over\tconfigurations\tkept\tplan\tplanned in\tfailed")
	}
	for i := range s.Periods {
		p := &s.Periods[i]
		fmt.Fprintf(w, "%d\t%s\t%.6g\t%.6g\t%.4g\t%.4g\t%d\t%d\t%s\t%s\t%s\n", p.Number, clock(p.At), p.Makespan, p.LowerBound, p.Late, p.Backlog,
			p.Configurations, p.Kept, keptText(p.Fresh), command.MS(1000*p.PlanningSeconds), damageText(&p.Damage))
	}
}

// damageText lists what of switches has failed.
func damageText(g *ocs.Damage) string {
	var all []string
	for _, h := range g.DeadSwitches {
		all = append(all, fmt.Sprint("switch ", h))
	}
	for _, p := range g.DeadPorts {
		all = append(all, "port "+p.String())
	}
	return cmp.Or(strings.Join(all, ", "), "-")
}

func ocsSessionFailCommand() *cobra.Command {
	var f ocsFlags
	var none bool
	cmd := &cobra.Command{
		Use: "fail SESSION --dead-switch H… | --dead-port SWITCH:RACK… | --none", ValidArgsFunction: atMost(1, ofOCS.ids()),
		Short: "Say what has failed, all of it",
		Long: `Fail says what of a session's switches has failed, in place of what was named before. The
next period is planned around it.`,
		Example: "  forsctl ocs session fail 1 --dead-switch 2 --dead-port 0:17\n  forsctl ocs session fail 1 --none",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if none == (len(f.options.DeadSwitches)+len(f.dead) > 0) {
				return errors.New("say by --dead-switch and --dead-port what has failed, or by --none that all is well again")
			}
			g := f.options.Damage
			if g.DeadPorts, err = f.deadPorts(); err != nil {
				return err
			}
			return ofOCS.ask(cmd, http.MethodPost, args[0], "/failures", g, false)
		},
	}
	f.registerDamage(cmd)
	cmd.Flags().BoolVar(&none, "none", false, "all switches and ports are well again")
	return cmd
}

func ocsSessionPeriodCommand() *cobra.Command {
	var demand, out string
	cmd := &cobra.Command{
		Use: "period SESSION --demand FILE", ValidArgsFunction: atMost(1, ofOCS.ids()),
		Short:   "Schedule the matrix of the next period",
		Example: "  forsctl ocs session period 1 --demand D.csv --out schedule.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOuts(cmd, output{"out", out, "the schedule"}); err != nil {
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
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				var r tiers.PeriodReport
				done := command.Working(cmd, "planning")
				err := c.Call(ctx, http.MethodPost, ofOCS.of(args[0], "/periods"), map[string]any{"demand": rows}, &r)
				done()
				if err != nil {
					return err
				}
				if out != "" {
					text, err := json.Marshal(r.Report)
					if err == nil {
						err = writeOut(cmd, out, append(text, '\n'))
					}
					if err != nil || out == "-" {
						return err
					}
				}
				return command.Show(cmd, r, func(w io.Writer) {
					fmt.Fprintln(w, "makespan\tbound\tlate by\tleft over\tconfigurations\tkept\tplan")
					fmt.Fprintf(w, "%.6g\t%.6g\t%.4g\t%.4g\t%d\t%d\t%s\n", r.Makespan, r.LowerBound, r.Late, r.Backlog, r.Configurations, r.Kept, keptText(r.Fresh))
				})
			})
		},
	}
	cmd.Flags().StringVar(&demand, "demand", "", "the matrix: CSV, NPY or JSON; - is standard input")
	cmd.Flags().StringVar(&out, "out", "", "write the schedule to this file, as JSON; - is standard output")
	return cmd
}
