package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/health"
)

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
