package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
)

func drainCommand() *cobra.Command {
	var dry, yes bool
	var at, until, reason string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "drain PART...",
		Short: "Take cables or switches out of the plan, to work on them",
		Long: `Drain takes parts of the fabric out of the plan and out of the tables: a spine or a leaf,
on three levels a leaf, a mid or a top, by its description or GUID, or a cable between two
of them as SWITCH/PORT. It shows what that costs first, and on a terminal asks before it goes on. "forsctl drains" tells
when a part is safe to pull. From then on it may vanish and return without an alarm and
without another plan, until "forsctl undrain" gives it back.

The hosts of a leaf that is drained leave all plans. They are routed, and programs that
run on them send without a plan: end these before the leaf is pulled.`,
		Example: `  forsctl drain Leaf007/31 --reason "new cable"
  forsctl drain Spine012 --dry-run
  forsctl drain Leaf003 --at 02:00 --for 2h --yes`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: failureNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := api.DrainRequest{Parts: args, Reason: reason, DryRun: true}
			var err error
			if q.At, err = command.NextTime(at, time.Now()); err != nil {
				return fmt.Errorf("--at: %w", err)
			}
			begin := q.At
			if begin.IsZero() {
				begin = time.Now()
			}
			if q.Until, err = command.NextTime(until, begin); err != nil {
				return fmt.Errorf("--until: %w", err)
			}
			if lasts < 0 || lasts > 0 && until != "" {
				return errors.New("say by --for or by --until when it ends")
			} else if lasts > 0 {
				q.Until = begin.Add(lasts)
			}
			return with(cmd, func(ctx context.Context, c *api.Client) error { return drain(ctx, cmd, c, q, dry, yes) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&dry, "dry-run", false, "show what it costs, and change nothing")
	f.BoolVar(&yes, "yes", false, "do not ask on a terminal")
	f.StringVar(&at, "at", "", "begin at `TIME`: 02:00, 2026-07-01 02:00, or as in RFC 3339")
	f.StringVar(&until, "until", "", "give the parts back at `TIME`")
	f.Var((*command.Duration)(&lasts), "for", "give the parts back after so long, such as 2h or 1d")
	f.StringVar(&reason, "reason", "", "what it is for, for others to read")
	return cmd
}

// drain shows the cost of drains, asks for confirmation, and orders them.
func drain(ctx context.Context, cmd *cobra.Command, c *api.Client, q api.DrainRequest, dry, yes bool) error {
	preview, err := c.Drain(ctx, q)
	if err != nil {
		return err
	}
	if preview.Cost == nil {
		return errors.New("the answer does not say what it would cost: is there a forsd of this version at that address?")
	}
	if dry || !command.WantsJSON(cmd) {
		if err := command.Show(cmd, preview, func(w io.Writer) { printCost(w, preview) }); err != nil || dry {
			return err
		}
	}
	if err := command.Confirm(cmd, "drain this?", yes); err != nil {
		return err
	}
	q.DryRun = false
	out, err := c.Drain(ctx, q)
	if err != nil {
		return err
	}
	return command.Show(cmd, out, func(w io.Writer) { printDrains(w, out.Drains) })
}

// printCost prints the cost of drains.
func printCost(out io.Writer, d *api.Drained) {
	c := d.Cost
	for i := range d.Drains {
		fmt.Fprintf(out, "takes out %s\n", d.Drains[i].Name)
	}
	if more := c.Phases - c.PhasesNow; more == 0 {
		fmt.Fprintf(out, "the exchange keeps its %s\n", command.Plural(c.PhasesNow, "phase", "phases"))
	} else {
		fmt.Fprintf(out, "the exchange takes %d phases instead of %d (%+d)\n", c.Phases, c.PhasesNow, more)
	}
	if c.UnreachablePairs > 0 {
		fmt.Fprintf(out, "%s of servers have no way in the plan\n", command.Plural(c.UnreachablePairs, "pair", "pairs"))
	}
	if n := len(c.Hosts); n > 0 {
		fmt.Fprintf(out, "%s out of all plans: %s\n", command.Plural(n, "host is", "hosts are"), strings.Join(c.Hosts[:min(n, 20)], ", "))
	}
	for _, j := range c.Jobs {
		fmt.Fprintln(out, j)
	}
}

func undrainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "undrain PART...",
		Short: "Give drained parts back to the plan",
		Long: `Undrain gives parts back that were drained, or all of them by the word all: tables
come first, and then a plan that uses them again. What is still absent is a failure from
then on.`,
		Example: "  forsctl undrain Spine012\n  forsctl undrain all",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: drainNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return command.Answer(cmd, with, func(ctx context.Context, c *api.Client) (*api.Drained, error) { return c.Undrain(ctx, args...) }, func(w io.Writer, out *api.Drained) {
				for i := range out.Drains {
					fmt.Fprintf(w, "%s is given back\n", out.Drains[i].Name)
				}
			})
		},
	}
}

func drainsCommand() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "drains",
		Short: "Show what is drained, and what is safe to pull",
		Long: `Drains shows the parts that are taken out of the plan. One that is safe may be pulled:
no plan in force and no table that the switches may hold leads over it. With --wait it
returns when all that has begun are safe.`,
		Example: "  forsctl drains\n  forsctl drain Spine012 --yes && forsctl drains --wait",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				for {
					all, err := c.Drains(ctx)
					if err != nil {
						return err
					}
					if wait && slices.ContainsFunc(all, func(d api.Drain) bool { return d.State == "draining" }) {
						select {
						case <-time.After(200 * time.Millisecond):
							continue
						case <-ctx.Done():
							return ctx.Err()
						}
					}
					return command.Show(cmd, api.Drained{Drains: all}, func(w io.Writer) { printDrains(w, all) })
				}
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all that has begun are safe to pull")
	return cmd
}

// printDrains prints drains as a table.
func printDrains(w io.Writer, all []api.Drain) {
	if len(all) == 0 {
		fmt.Fprintln(w, "nothing is drained")
		return
	}
	fmt.Fprintln(w, "PART\tSTATE\tSINCE\tUNTIL\tBY\tREASON")
	for i := range all {
		d := &all[i]
		state, since := d.State, d.Since
		switch d.State {
		case "safe":
			state = "safe to pull"
		case "scheduled":
			if !d.At.IsZero() {
				since = d.At
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", d.Name, state, clock(since), clock(d.Until), cmp.Or(d.By, "-"), cmp.Or(d.Reason, "-"))
	}
	for i := range all {
		for _, u := range all[i].Uses {
			fmt.Fprintf(w, "%s: %s\n", all[i].Name, u)
		}
	}
}
