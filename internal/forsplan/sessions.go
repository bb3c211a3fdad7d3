package forsplan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/sessions"
)

// sessionKind implements the commands for sessions of a kind: S is the API's form of a session,
// and F of a frame.
type sessionKind[S, F any] struct {
	path    string
	frame   string // in words
	size    string // the unit of the size from about
	figures string // column headings for a frame's figures
	parts   func(*S) (*sessions.Session, []F)
	about   func(*S) (size int, line, failed string) // line describes the session
	row     func(*F) (f *sessions.Frame, figures, failed string)
}

// of returns the path of a session, given by its number, or of all sessions.
func (x *sessionKind[S, F]) of(session, rest string) string {
	if session == "" {
		return x.path
	}
	return x.path + "/" + url.PathEscape(session) + rest
}

// ask sends a request whose answer is a session, and prints the session.
func (x *sessionKind[S, F]) ask(cmd *cobra.Command, method, session, rest string, in any, id bool) error {
	return with(cmd, func(ctx context.Context, c *api.Client) error {
		var s S
		if err := c.Call(ctx, method, x.of(session, rest), in, &s); err != nil {
			return err
		}
		if h, _ := x.parts(&s); id {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), h.ID)
			return err
		}
		return command.Show(cmd, s, func(w io.Writer) { x.print(w, &s) })
	})
}

// print prints a session.
func (x *sessionKind[S, F]) print(w io.Writer, s *S) {
	h, frames := x.parts(s)
	_, line, failed := x.about(s)
	fmt.Fprintf(w, "session\t%d%s\n", h.ID, command.InBrackets(h.Name))
	fmt.Fprintln(w, line)
	fmt.Fprintf(w, "opened\t%s, asked for last %s\n", command.Clock(h.Opened), command.Clock(h.Asked))
	fmt.Fprintf(w, "failed\t%s\n", failed)
	fmt.Fprintf(w, "%ss\t%d planned, %d refused\n", x.frame, h.Planned, h.Refused)
	if len(frames) > 0 {
		fmt.Fprintf(w, "\n%s\tat\t%s\tplanned in\tfailed\n", x.frame, x.figures)
	}
	for i := range frames {
		f, figures, failed := x.row(&frames[i])
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", f.Number, command.Clock(f.At), figures, command.Seconds(f.PlanningSeconds), failed)
	}
}

// all requests all sessions.
func (x *sessionKind[S, F]) all(ctx context.Context, c *api.Client) (all map[string][]S, err error) {
	return all, c.Call(ctx, http.MethodGet, x.path, nil, &all)
}

// group completes the command that has the session commands below it.
func (x *sessionKind[S, F]) group(cmd, open, plan, fail *cobra.Command) *cobra.Command {
	cmd.Use = "session"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	socketFlag(cmd)
	cmd.AddCommand(open, x.listCommand(), x.command("show", "Show a session with its latest "+x.frame+"s", http.MethodGet),
		x.ofOne(plan), fail, x.command("end", "End a session", http.MethodDelete))
	return cmd
}

// opening completes the command that opens a session. read builds the request from the
// command's flags, and name receives the value of --name.
func (x *sessionKind[S, F]) opening(cmd *cobra.Command, name *string, read func() (any, error)) *cobra.Command {
	var id bool
	cmd.Short = "Open a session"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q, err := read()
		if err != nil {
			return err
		}
		return x.ask(cmd, http.MethodPost, "", "", q, id)
	}
	cmd.Flags().StringVar(name, "name", "", "what people call the session")
	cmd.Flags().BoolVar(&id, "id", false, "print the session's number and nothing else")
	return cmd
}

// failing completes the command that reports failures. read builds the request from the
// command's flags, and reports whether these name any failures.
func (x *sessionKind[S, F]) failing(cmd *cobra.Command, flags, well string, read func() (q any, some bool, err error)) *cobra.Command {
	var none bool
	cmd.Short = "Say what has failed, all of it"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, some, err := read()
		if none == some {
			return fmt.Errorf("say by %s what has failed, or by --none that all is well again", flags)
		} else if err != nil {
			return err
		}
		return x.ask(cmd, http.MethodPost, args[0], "/failures", q, false)
	}
	cmd.Flags().BoolVar(&none, "none", false, well+" are well again")
	return x.ofOne(cmd)
}

// ofOne makes a command take one session as its argument.
func (x *sessionKind[S, F]) ofOne(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), x.ids
	return cmd
}

// planFrame requests the plan of the next frame of a session. If file is not empty, the part of
// the answer that keep selects goes to that file. The answer is also printed.
func planFrame[A any](cmd *cobra.Command, path string, q any, file string, keep func(*A) any, text func(w io.Writer, a *A, elapsed time.Duration)) error {
	return with(cmd, func(ctx context.Context, c *api.Client) error {
		var a A
		start := time.Now()
		done := command.Working(cmd, "planning")
		err := c.Call(ctx, http.MethodPost, path, q, &a)
		done()
		if err != nil {
			return err
		}
		elapsed := time.Since(start)
		if file != "" {
			data, err := json.Marshal(keep(&a))
			if err == nil {
				err = command.WriteOut(cmd, file, append(data, '\n'))
			}
			if err != nil || file == "-" {
				return err
			}
		}
		return command.Show(cmd, a, func(w io.Writer) { text(w, &a, elapsed) })
	})
}

func (x *sessionKind[S, F]) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the sessions",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Answer(cmd, with, x.all, func(w io.Writer, all map[string][]S) {
				fmt.Fprintf(w, "session\tname\t%s\tplanned\trefused\tasked for last\tfailed\n", x.size)
				for _, s := range all["sessions"] {
					h, _ := x.parts(&s)
					size, _, failed := x.about(&s)
					fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%s\t%s\n", h.ID, cmp.Or(h.Name, "-"), size, h.Planned, h.Refused, command.Clock(h.Asked), failed)
				}
			})
		},
	}
}

// command returns a command that requests one session and prints it.
func (x *sessionKind[S, F]) command(use, short, method string) *cobra.Command {
	return x.ofOne(&cobra.Command{
		Use:   use + " SESSION",
		Short: short,
		RunE:  func(cmd *cobra.Command, args []string) error { return x.ask(cmd, method, args[0], "", nil, false) },
	})
}

// failedText lists the failures.
func failedText(lists ...[]string) string {
	return cmp.Or(strings.Join(slices.Concat(lists...), ", "), "-")
}

// eachOf names all parts of a kind.
func eachOf[T any](what string, parts []T) (names []string) {
	for _, x := range parts {
		names = append(names, fmt.Sprint(what, x))
	}
	return names
}
