package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/health"
)

func rerouteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reroute",
		Short: "Plan, program and read back afresh",
		Long: `Reroute has forsd plan the fabric as it is, write the tables, have OpenSM program
them, and read them back, and waits until that is done. Where the plan in force
is still the right one, the epoch stays.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Answer(cmd, with, func(ctx context.Context, c *api.Client) (*api.Change, error) { return c.Reroute(ctx) }, printChange)
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
				return fmt.Errorf("%q is not an epoch: want a number that forsctl epochs lists", args[0])
			}
			return command.Answer(cmd, with, func(ctx context.Context, c *api.Client) (*api.Change, error) { return c.Rollback(ctx, n) }, printChange)
		},
	}
}

func reloadCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have forsd read its configuration anew",
		Long: `Reload has forsd check its configuration file and take up what may change while
it runs: planning.exclude, planning.roles, planning.exchange,
planning.other_fabrics, jobs.own_lanes, damping, safety, retry, opensm.sweep_timeout and log.level. Other
keys that differ are named; they count when forsd is restarted. A file with a
mistake changes nothing: forsd says where it is wrong, with exit code 1, and
keeps the warning configuration-refused until a reload succeeds.

"systemctl reload forsd" does the same.`,
		Example: "  sudo forsctl reload --dry-run\n  sudo forsctl reload",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Answer(cmd, with, func(ctx context.Context, c *api.Client) (*api.Reload, error) {
				return c.Reload(ctx, api.ReloadRequest{DryRun: dry})
			}, func(w io.Writer, out *api.Reload) {
				fmt.Fprintf(w, "file\t%s is valid\n", out.File)
				how := "in force now"
				if dry {
					how = "would be in force at once"
				}
				if len(out.Changed) > 0 {
					fmt.Fprintf(w, "changed\t%s: %s\n", strings.Join(out.Changed, ", "), how)
				}
				if len(out.Restart) > 0 {
					fmt.Fprintf(w, "restart\t%s: run systemctl restart forsd when it suits\n", strings.Join(out.Restart, ", "))
				}
				if len(out.Changed)+len(out.Restart) == 0 {
					fmt.Fprintln(w, "same\tforsd works by it already")
				}
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check the file and say what would change")
	return cmd
}

// printChange prints the answer to a change.
func printChange(w io.Writer, c *api.Change) { fmt.Fprintf(w, "epoch %d: %s\n", c.Epoch, c.Text) }

func epochsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "epochs",
		Short:   "List the epochs that are kept, with what led to each",
		Example: "  forsctl epochs\n  forsctl diff 41 42",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Answer(cmd, with, func(ctx context.Context, c *api.Client) (api.EpochList, error) {
				list, err := c.Epochs(ctx)
				return api.EpochList{Epochs: list}, err
			}, func(w io.Writer, all api.EpochList) {
				fmt.Fprintln(w, "epoch\tpublished\tphases\tbound\tengine\tfabric\twhy")
				for i := range all.Epochs {
					x := &all.Epochs[i]
					fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\t%.8s\t%s\n", x.Epoch, command.Clock(x.PublishedAt), x.Phases, x.LowerBound, x.Engine, x.TopologyHash, why(x))
				}
			})
		},
	}
}

// why describes the cause of an epoch.
func why(x *api.Epoch) string {
	if x.RollbackOf != 0 {
		return fmt.Sprintf("rollback to epoch %d", x.RollbackOf)
	}
	return cause(x.What)
}

// cause names the first few changes that led to an epoch and counts the others: a failed spine
// removes a cable at every leaf. The JSON output has all changes.
func cause(what []string) string { return health.Join(what, 3) }
