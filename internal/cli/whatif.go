package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/podplan"
)

// whatIf are the flags of forsctl whatif.
type whatIf struct {
	fail  []string
	done  string
	epoch uint64
	job   string
	out   string
	csv   bool
}

func whatIfCommand() *cobra.Command {
	var f whatIf
	cmd := &cobra.Command{
		Use:   "whatif [--fail SPEC…] [--done N|PERCENT%]",
		Short: "Plan the fabric as it would be after a failure; nothing changes",
		Long: `Whatif has forsd plan its fabric as it would be without a node (description or
GUID) or a cable (NODE/PORT), and shows what that would cost.

With --done it also plans what remains of an exchange that has run so many phases
of the plan in force, or of that of --epoch: every pair of servers that has not
met yet, in as few phases as can be, and as much of the old plan as can stay.
With --job the exchange is that of a job. Without --fail that is for the fabric
as it is now. --out writes the phases of what remains to a file, or without --done
those of the whole plan.`,
		Example: `  forsctl whatif --fail Spine010
  forsctl whatif --fail Leaf007/31 --fail Leaf007/32 --json
  forsctl whatif --fail Spine010 --done 33%
  forsctl whatif --epoch 42 --done 120 --out rest.bin`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := f.query(cmd)
			if err != nil {
				return err
			}
			return with(cmd, func(ctx context.Context, c *api.Client) error { return f.ask(ctx, cmd, c, q) })
		},
	}
	cmd.Flags().StringArrayVar(&f.fail, "fail", nil, "take a node (description or GUID) or a cable (NODE/PORT) out; a comma separates several")
	if err := cmd.RegisterFlagCompletionFunc("fail", failureNames); err != nil {
		panic(err) // only if the flag has another name
	}
	cmd.Flags().StringVar(&f.done, "done", "", "how much of the exchange has run: a number of phases, or a share such as 33%")
	cmd.Flags().Uint64Var(&f.epoch, "epoch", 0, "the epoch whose plan the exchange runs (default the one in force)")
	_ = cmd.RegisterFlagCompletionFunc("epoch", epochNames)
	cmd.Flags().StringVar(&f.job, "job", "", "the job whose exchange it is, by number or name")
	cmd.Flags().StringVar(&f.out, "out", "", "write the phases to this file, as the binary table; - for standard output")
	cmd.Flags().BoolVar(&f.csv, "csv", false, "write them as text")
	return cmd
}

// query builds a query from the flags.
func (f *whatIf) query(cmd *cobra.Command) (q api.WhatIf, err error) {
	switch {
	case len(f.fail) == 0 && f.done == "":
		return q, fmt.Errorf("--fail is missing: name a node (description or GUID) or a cable (NODE/PORT), or say with --done what has run of an exchange")
	case f.job != "" && f.done == "":
		return q, fmt.Errorf("--done is missing: say how many phases of job %s have run", f.job)
	case f.epoch != 0 && f.done == "":
		return q, fmt.Errorf("--done is missing: say how many phases of epoch %d have run", f.epoch)
	case f.csv || f.out != "":
		if err := command.CheckOutput(cmd, command.Output{Flag: "out", Path: f.out, What: "the phases"}); err != nil {
			return q, err
		}
	}
	q = api.WhatIf{Fail: f.fail, Epoch: f.epoch, Job: f.job}
	if f.done != "" {
		if q.Done, err = api.ParseProgress(f.done); err != nil {
			return q, fmt.Errorf("--done: %w", err)
		}
	}
	return q, nil
}

// ask sends the query, writes the phases if requested, and prints the answer.
func (f *whatIf) ask(ctx context.Context, cmd *cobra.Command, c *api.Client, q api.WhatIf) error {
	if f.out != "" {
		data, err := c.WhatIfTable(ctx, q, f.csv)
		if err != nil {
			return err
		}
		if err := command.WriteOut(cmd, f.out, data); err != nil || f.out == "-" {
			return err
		}
	}
	forecast, err := c.WhatIf(ctx, q)
	if err != nil {
		return err
	}
	var report podplan.Report
	if err := json.Unmarshal(forecast.Plan, &report); err != nil {
		return fmt.Errorf("read the plan in forsd's answer: %w", err)
	}
	return command.Show(cmd, forecast, func(w io.Writer) { printForecast(w, forecast, &report) })
}

func printForecast(w io.Writer, f *api.Forecast, report *podplan.Report) {
	for _, what := range f.What {
		fmt.Fprintln(w, what)
	}
	printReport(w, report)
	fmt.Fprintf(w, "time\tplan %s\n", command.Seconds(report.PlanSeconds))
	for _, code := range report.Warnings {
		fmt.Fprintf(w, "warning\t%s\n", code)
	}
	if f.Remaining != nil {
		printRemaining(w, f.Remaining)
	}
}

func printRemaining(w io.Writer, r *api.Remaining) {
	fmt.Fprintf(w, "remaining\t%d phases after %d of epoch %d (bound %d by %s, gap %d)\n", r.Phases, r.Done, r.Epoch, r.LowerBound, r.Certificate, r.Gap)
	if r.Anew {
		fmt.Fprintf(w, "transfers\tplanned anew, by engine %s\n", r.Engine)
	} else {
		fmt.Fprintf(w, "transfers\t%d as planned, %d on another lane, %d in another phase\n", r.Kept, r.Moved, r.Shed)
	}
	if r.UnreachablePairs > 0 {
		fmt.Fprintf(w, "left out\t%d ordered pairs of servers that share no lane\n", r.UnreachablePairs)
	}
	fmt.Fprintf(w, "time\tplan what remains %s\n", command.Seconds(r.PlanSeconds))
}
