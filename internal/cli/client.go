package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
)

func daemonCommands() []*cobra.Command {
	cmds := []*cobra.Command{statusCommand(), watchCommand(), epochsCommand(), historyCommand(), phasesCommand(), jobCommand(), slurmCommand(), cablesCommand(), whatIfCommand(), rerouteCommand(), rollbackCommand(), baselineCommand(), reloadCommand()}
	for _, c := range cmds {
		c.GroupID = "daemon"
		if c.ValidArgsFunction == nil {
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	return cmds
}

// defaultSocket is where forsd listens unless its configuration says otherwise.
const defaultSocket = "/run/forsd/forsd.sock"

// defaultServer is forsd's socket, unless the environment names another place.
func defaultServer() string {
	if s := os.Getenv("FORSD_SERVER"); s != "" {
		return s
	}
	return defaultSocket
}

// dial returns a client of the forsd that --server names.
func dial(cmd *cobra.Command) (*api.Client, error) {
	addr, _ := cmd.Flags().GetString("server")
	return api.Dial(addr)
}

// with runs f with a client, and sorts its error into the exit codes.
func with(cmd *cobra.Command, f func(context.Context, *api.Client) error) error {
	c, err := dial(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := cmd.Context()
	if t := timeout(cmd); t > 0 {
		addr, _ := cmd.Flags().GetString("server")
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, fmt.Errorf("forsd at %s did not answer within %s: it is stopped or busy, see systemctl status forsd", addr, t))
		defer cancel()
	}
	err = f(ctx, c)
	if err != nil && ctx.Err() != nil && cmd.Context().Err() == nil {
		return context.Cause(ctx)
	}
	return sorted(err)
}

// timeout is how long the command may wait for forsd, 0 for as long as that takes.
func timeout(cmd *cobra.Command) time.Duration {
	t, _ := cmd.Flags().GetDuration("timeout")
	return t
}

// ask sends a request to an endpoint that the client has no method for.
func ask(cmd *cobra.Command, method, path string, out any) error {
	return with(cmd, func(ctx context.Context, c *api.Client) error { return c.Call(ctx, method, path, nil, out) })
}

// sorted marks what forsd refuses as violated. A question that makes no sense,
// and one about what does not exist, stay unusable input.
func sorted(err error) error {
	var e *api.Error
	if errors.As(err, &e) && e.Status != http.StatusBadRequest && e.Status != http.StatusNotFound {
		return command.Violated{Err: err}
	}
	return err
}
