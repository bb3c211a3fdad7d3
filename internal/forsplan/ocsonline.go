package forsplan

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/sessions"
	"github.com/forsd/forsd/optical/ocs"
)

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
