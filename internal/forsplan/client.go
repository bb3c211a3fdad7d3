package forsplan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
)

// with runs f with a client of the forsplan serve that --socket names, and maps its error to an
// exit code.
func with(cmd *cobra.Command, f func(context.Context, *api.Client) error) error {
	path, err := socketOf(cmd)
	if err != nil {
		return err
	}
	c, err := api.Dial(path)
	if err != nil {
		return err
	}
	defer c.Close()
	err = f(cmd.Context(), c)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("forsplan serve does not run on %s: start it, or name its socket by --socket", path)
	}
	return command.Refused(err)
}

// ids completes the argument SESSION. The shell waits for at most a second.
func (x *sessionKind[S, F]) ids(cmd *cobra.Command, args []string, _ string) (out []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	cmd.SetContext(ctx)
	_ = with(cmd, func(ctx context.Context, c *api.Client) error { // without an answer nothing is completed
		all, err := x.all(ctx, c)
		for _, s := range all["sessions"] {
			h, _ := x.parts(&s)
			size, _, _ := x.about(&s)
			out = append(out, cobra.CompletionWithDesc(fmt.Sprint(h.ID), fmt.Sprintf("%s, %d %s", h.Name, size, x.size)))
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}
