package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
)

// sessions are those of a sort, at a forsd.
type sessions[S any] struct {
	path  string
	head  func(*S) *api.Session
	size  string // what the first figure of about counts
	about func(*S) (size int, failed string)
	print func(io.Writer, *S)
}

// of is the path of a session, given by its number, or of all.
func (x *sessions[S]) of(session, rest string) string {
	if session == "" {
		return x.path
	}
	return x.path + "/" + url.PathEscape(session) + rest
}

// ask sends a request that is answered with a session, and prints this.
func (x *sessions[S]) ask(cmd *cobra.Command, method, session, rest string, in any, id bool) error {
	return with(cmd, func(ctx context.Context, c *api.Client) error {
		var s S
		if err := c.Call(ctx, method, x.of(session, rest), in, &s); err != nil {
			return err
		}
		if id {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), x.head(&s).ID)
			return err
		}
		return command.Show(cmd, s, func(w io.Writer) { x.print(w, &s) })
	})
}

// all asks for all sessions.
func (x *sessions[S]) all(ctx context.Context, c *api.Client) (all map[string][]S, err error) {
	return all, c.Call(ctx, http.MethodGet, x.path, nil, &all)
}

func (x *sessions[S]) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the sessions",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd, x.all, func(w io.Writer, all map[string][]S) {
				fmt.Fprintf(w, "session\tname\t%s\tplanned\trefused\tasked for last\tfailed\n", x.size)
				for _, s := range all["sessions"] {
					h := x.head(&s)
					size, failed := x.about(&s)
					fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%s\t%s\n", h.ID, cmp.Or(h.Name, "-"), size, h.Planned, h.Refused, clock(h.Asked), failed)
				}
			})
		},
	}
}

// ids completes sessions.
func (x *sessions[S]) ids() cobra.CompletionFunc {
	return names(func(ctx context.Context, c *api.Client) (out []cobra.Completion) {
		all, _ := x.all(ctx, c)
		for _, s := range all["sessions"] {
			size, _ := x.about(&s)
			out = append(out, cobra.CompletionWithDesc(fmt.Sprint(x.head(&s).ID), strings.TrimSpace(fmt.Sprintf("%s %d %s", x.head(&s).Name, size, x.size))))
		}
		return out
	})
}

// command asks for one session and prints it.
func (x *sessions[S]) command(use, short, method string) *cobra.Command {
	return &cobra.Command{
		Use: use + " SESSION", ValidArgsFunction: atMost(1, x.ids()),
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return x.ask(cmd, method, args[0], "", nil, false)
		},
	}
}
