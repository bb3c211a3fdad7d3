package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"forsd/api"
	"forsd/planner"
)

func rerouteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reroute",
		Short: "Plan, program and read back afresh",
		Long: `Reroute has forsd plan the fabric as it is, write the tables, have OpenSM program
them, and read them back, and waits until that is done. Where the plan in force
is still the right one, the epoch stays.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, c *api.Client) error { return printChange(cmd)(c.Reroute(ctx)) })
		},
	}
}

func rollbackCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rollback EPOCH",
		Short: "Put the plan of an older epoch in force again",
		Long: `Rollback publishes the plan of an older epoch as a new epoch, once it has been
verified on the fabric and the tables as they are now. It is refused, with the
reason and exit code 1, where it does not hold any more; nothing changes then.`,
		Example: "  forsctl epochs\n  forsctl rollback 41",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil || n == 0 {
				return fmt.Errorf("%q is no epoch: want a number that forsctl epochs lists", args[0])
			}
			return with(cmd, func(ctx context.Context, c *api.Client) error { return printChange(cmd)(c.Rollback(ctx, n)) })
		},
	}
}

// printChange returns what prints the answer to a change.
func printChange(cmd *cobra.Command) func(*api.Change, error) error {
	return func(c *api.Change, err error) error {
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd, c)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "epoch %d: %s\n", c.Epoch, c.Text)
		return err
	}
}

func whatIfCommand() *cobra.Command {
	var fail []string
	cmd := &cobra.Command{
		Use:   "whatif --fail SPEC…",
		Short: "Plan the fabric as it would be after a failure; nothing changes",
		Long: `Whatif has forsd plan its fabric as it would be without a node (description or
GUID) or a cable (NODE/PORT), and shows what that would cost.`,
		Example: "  forsctl whatif --fail Spine010\n  forsctl whatif --fail Leaf007/31 --fail Leaf007/32 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(fail) == 0 {
				return fmt.Errorf("--fail is missing: name a node (description or GUID) or a cable (NODE/PORT)")
			}
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				forecast, err := c.WhatIf(ctx, api.WhatIf{Fail: fail})
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, forecast)
				}
				return printForecast(cmd, forecast)
			})
		},
	}
	cmd.Flags().StringArrayVar(&fail, "fail", nil, "take a node (description or GUID) or a cable (NODE/PORT) out; repeatable")
	return cmd
}

func printForecast(cmd *cobra.Command, f *api.Forecast) error {
	var report planner.Report
	if err := json.Unmarshal(f.Plan, &report); err != nil {
		return fmt.Errorf("read the plan in forsd's answer: %w", err)
	}
	for _, what := range f.What {
		fmt.Fprintln(cmd.OutOrStdout(), what)
	}
	w := newTable(cmd.OutOrStdout())
	printReport(w, &report)
	fmt.Fprintf(w, "time\tplan %s\n", ms(1e3*report.PlanSeconds))
	for _, code := range report.Warnings {
		fmt.Fprintf(w, "warning\t%s\n", code)
	}
	return w.Flush()
}
