package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
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
		Args:    cobra.ExactArgs(1), ValidArgsFunction: atMost(1, epochNames),
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
		if command.WantsJSON(cmd) {
			return command.PrintJSON(cmd, c)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "epoch %d: %s\n", c.Epoch, c.Text)
		return err
	}
}
