package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
)

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the state of forsd: epoch, plan, OpenSM, the last event, warnings",
		Long: `Status shows what forsd is doing, the epoch in force and its plan, OpenSM as far
as it is known, how long the last change took, and every warning in force with
what to do about it. docs/operating.md explains each warning by its code.

The exit code is 0 also when there are warnings.`,
		Example: "  forsctl status\n  forsctl status --json | jq .warnings[].code",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				s, err := c.Status(ctx)
				if err != nil {
					return err
				}
				if command.WantsJSON(cmd) {
					return command.PrintJSON(cmd, s)
				}
				return printStatus(cmd.OutOrStdout(), s)
			})
		},
	}
}

// printStatus is the people's summary.
func printStatus(out io.Writer, s *api.Status) error {
	w := command.NewTable(out)
	fmt.Fprintf(w, "forsd\t%s, since %s\n", s.Version, clock(s.Started))
	fmt.Fprintf(w, "state\t%s\n", s.State)
	if s.Epoch == 0 {
		fmt.Fprintf(w, "epoch\tnone yet\n")
	} else {
		fmt.Fprintf(w, "epoch\t%d, published %s\n", s.Epoch, clock(s.PublishedAt))
		fmt.Fprintf(w, "plan\t%d phases (bound %d, gap %d), engine %s\n", s.Phases, s.LowerBound, s.Gap, s.Engine)
		if b := s.Base; b != nil {
			fmt.Fprintf(w, "base LIDs\t%d phases (bound %d), number %d\n", b.Phases, b.LowerBound, b.Epoch)
		}
		fmt.Fprintf(w, "fabric\t%d servers on %d leaves, %d spines, %d lanes, LMC %d%s\n", s.Servers, s.Leaves, s.Spines, s.Lanes, s.LMC, kindText(s.FabricKind))
	}
	fmt.Fprintf(w, "OpenSM\t%s\n", managerText(&s.OpenSM))
	fmt.Fprintf(w, "source\t%s\n", sourceText(&s.OpenSM))
	fmt.Fprintf(w, "tables\t%s\n", tablesText(&s.OpenSM))
	if e := s.LastEvent; e != nil {
		fmt.Fprintf(w, "last event\t%s\n", strings.Join(e.What, "\n\t"))
		fmt.Fprintf(w, "\t%s\n", eventTimes(e))
	}
	if len(s.Baseline) > 0 {
		fmt.Fprintf(w, "baseline\t%s\n", strings.Join(s.Baseline, "\n\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, x := range s.Warnings {
		if _, err := fmt.Fprintf(out, "%s: %s (%s, since %s)\n  %s\n", x.Severity, x.Title, x.Code, clock(x.Since), strings.ReplaceAll(x.Text, "\n", "\n  ")); err != nil {
			return err
		}
	}
	if len(s.Warnings) == 0 {
		_, err := fmt.Fprintln(out, "no warnings")
		return err
	}
	return nil
}

func managerText(o *api.OpenSM) string {
	if !o.Running {
		return "not running"
	}
	text := fmt.Sprintf("running, process %d", o.PID)
	if o.RoutingEngine != "" {
		text += ", routing engine " + o.RoutingEngine
	}
	if o.TablesFile != "" {
		text += ", reads " + o.TablesFile
	}
	if !o.DumpedAt.IsZero() {
		text += ", last seen " + clock(o.DumpedAt)
	}
	return text
}

// kindText says what a fabric is that is not simply a fat tree.
func kindText(kind string) string {
	if kind == "" || kind == "fat-tree" {
		return ""
	}
	return " (" + kind + ")"
}

// sourceText says what tells forsd of the fabric.
func sourceText(o *api.OpenSM) string {
	text := map[string]string{
		api.SourcePlugin:       "OpenSM's plugin",
		api.SourceSubscription: "OpenSM's files, traps by subscription",
		api.SourceFiles:        "OpenSM's files",
		api.SourceDiscovery:    "discovery from this host",
	}[o.Source]
	if p := o.Plugin; p != nil {
		text += fmt.Sprintf(", connected %s (%s, %s, waits %s for tables)", clock(p.Since), p.Version, p.State, command.MS(p.DeadlineMS))
	}
	if o.Standby {
		text += "; standby: nothing is published or written"
	}
	return text
}

func tablesText(o *api.OpenSM) string {
	switch {
	case o.ReadBackAt.IsZero():
		return "not read back yet"
	case o.TablesMatch:
		return "as planned, read back " + clock(o.ReadBackAt)
	}
	return "not as planned, read back " + clock(o.ReadBackAt)
}

// eventTimes lists what has happened since the event was seen.
func eventTimes(e *api.LastEvent) string {
	parts := []string{"seen " + clock(e.SeenAt)}
	for _, s := range []struct {
		what  string
		after float64
	}{{"plan", e.PlannedMS}, {"verify", e.VerifiedMS}, {"publish", e.PublishedMS}, {"program", e.ProgrammedMS}, {"read back", e.ReadBackMS}} {
		if s.after > 0 {
			parts = append(parts, s.what+" "+command.MS(s.after))
		}
	}
	return strings.Join(parts, ", ")
}
