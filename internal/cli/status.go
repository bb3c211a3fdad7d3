package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/health"
)

func statusCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of forsd: plan, warnings, OpenSM, the last event",
		Long: `Status shows on one screen what forsd is doing, the epoch in force and its plan,
the worst warnings, OpenSM as far as it is known, and how long the last change took.
With --all it shows everything: each warning in full, with what to do about it.
"man forsd-warnings" explains each warning by its code.

Exit code 1: a critical warning is in force; forsd cannot do its work.`,
		Example: "  forsctl status\n  forsctl status --all\n  forsctl status --json | jq .warnings[].code",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				s, err := c.Status(ctx)
				if err != nil {
					return err
				}
				err = command.Show(cmd, s, func(w io.Writer) { printStatus(w, s, all) })
				if n := critical(s.Warnings); err == nil && n > 0 {
					err = command.Violated{Err: fmt.Errorf("%s in force", command.Plural(n, "critical warning is", "critical warnings are"))}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "show everything, not one screen")
	return cmd
}

func critical(warnings []api.Warning) (n int) {
	for i := range warnings {
		if warnings[i].Severity == string(health.Critical) {
			n++
		}
	}
	return n
}

// Limits on the warnings in the output of status without --all, which has fewer than 24 lines.
const (
	mostWarnings = 3
	mostText     = 150
)

// printStatus prints the summary as text.
func printStatus(w io.Writer, s *api.Status, all bool) {
	fmt.Fprintf(w, "forsd      \t%s, since %s\n", s.Version, command.Clock(s.Started))
	fmt.Fprintf(w, "state      \t%s\n", s.State)
	switch {
	case s.Watches:
		printWatched(w, s.Watched)
	case s.Epoch == 0:
		fmt.Fprintf(w, "epoch      \tnone yet\n")
	default:
		changed := ""
		if n := s.PairsChanged; n > 0 {
			changed = "; " + changedPairs(n, s.Servers)
		}
		fmt.Fprintf(w, "epoch      \t%d, published %s%s\n", s.Epoch, command.Clock(s.PublishedAt), changed)
		fmt.Fprintf(w, "plan       \t%d phases (bound %d, gap %d), engine %s\n", s.Phases, s.LowerBound, s.Gap, s.Engine)
		if b := s.Base; b != nil {
			fmt.Fprintf(w, "base LIDs  \t%d phases (bound %d), number %d\n", b.Phases, b.LowerBound, b.Epoch)
		}
		if s.FairShare > 0 {
			fmt.Fprintf(w, "all at once\t%s\n", loadText(s.Load))
		}
		name, kind := "", ""
		if s.Fabric != "" {
			name = s.Fabric + ": "
		}
		if s.FabricKind != "fat-tree" {
			kind = command.InBrackets(s.FabricKind)
		}
		fmt.Fprintf(w, "fabric     \t%s%d servers on %d leaves, %d spines, %d lanes, LMC %d%s\n", name, s.Servers, s.Leaves, s.Spines, s.Lanes, s.LMC, kind)
	}
	printWarnings(w, s.Warnings, all)
	fmt.Fprintf(w, "OpenSM     \t%s\n", managerText(&s.OpenSM))
	fmt.Fprintf(w, "source     \t%s\n", sourceText(&s.OpenSM))
	if !s.Watches {
		fmt.Fprintf(w, "tables     \t%s\n", tablesText(&s.OpenSM))
	}
	if e := s.LastEvent; e != nil {
		fmt.Fprintf(w, "last event \t%s\n", some(e.What, all))
		fmt.Fprintf(w, "\t%s\n", eventTimes(e))
	}
	if len(s.Baseline) > 0 {
		fmt.Fprintf(w, "baseline   \t%s\n", some(s.Baseline, all))
	}
}

// printWatched prints the observations of a forsd that only watches.
func printWatched(w io.Writer, x *api.Watched) {
	fmt.Fprintf(w, "mode       \twatch: forsd writes nothing and does not signal OpenSM\n")
	if x == nil {
		fmt.Fprintf(w, "plan       \tnone yet\n")
		return
	}
	if p := x.Plan; p != nil {
		fmt.Fprintf(w, "plan       \t%d phases (bound %d, gap %d), engine %s; not published\n", p.Phases, p.LowerBound, p.Gap, p.Engine)
		fmt.Fprintf(w, "fabric     \t%d servers on %d leaves, %d spines, %d lanes, LMC %d, planned %s\n", p.Servers, p.Leaves, p.Spines, p.Lanes, p.LMC, command.Clock(x.At))
	}
	if e := x.Shift; e != nil {
		fmt.Fprintf(w, "exchange   \tlinear shift on OpenSM's tables: %.2f transfers on the busiest link of a phase on average, relative throughput %.3f\n", e.Mean, e.Throughput)
	}
	if x.Error != "" {
		fmt.Fprintf(w, "missing    \t%s\n", short(x.Error))
	}
}

// some returns all lines, or the first line and the number of the others.
func some(lines []string, all bool) string {
	if all || len(lines) < 2 {
		return strings.Join(lines, "\n\t")
	}
	return fmt.Sprintf("%s, and %d more", short(lines[0]), len(lines)-1)
}

// short returns the first line of a text, truncated if it is long.
func short(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if r := []rune(line); len(r) > mostText {
		return string(r[:mostText]) + "…"
	}
	if more {
		line += " …"
	}
	return line
}

// printWarnings prints the most severe first: all in full, or the beginnings of a few.
func printWarnings(w io.Writer, warnings []api.Warning, all bool) {
	if len(warnings) == 0 {
		fmt.Fprintln(w, "no warnings")
		return
	}
	cut := false
	for i := range warnings {
		x := &warnings[i]
		text := strings.ReplaceAll(x.Text, "\n", "\n  ")
		if !all {
			if i == mostWarnings {
				break
			}
			text = short(x.Text)
			cut = cut || text != x.Text
		}
		fmt.Fprintf(w, "%s: %s (%s, since %s)\n  %s\n", x.Severity, x.Title, x.Code, command.Clock(x.Since), text)
		switch {
		case x.Advice == "":
		case all:
			fmt.Fprintf(w, "  what to do: %s\n  %s\n", strings.ReplaceAll(x.Advice, "\n", "\n    "), x.Runbook)
		default:
			fmt.Fprintf(w, "  what to do: %s\n", short(x.Advice))
			cut = cut || short(x.Advice) != x.Advice
		}
	}
	switch n := len(warnings) - mostWarnings; {
	case all:
	case n > 0:
		fmt.Fprintf(w, "and %s: forsctl status --all\n", command.Plural(n, "more warning", "more warnings"))
	case cut:
		fmt.Fprintln(w, "in full: forsctl status --all")
	}
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
		text += ", last seen " + command.Clock(o.DumpedAt)
	}
	return text
}

// sourceText describes forsd's source of information about the fabric.
func sourceText(o *api.OpenSM) string {
	text := map[string]string{
		api.SourcePlugin:       "OpenSM's plugin",
		api.SourceSubscription: "OpenSM's files, traps by subscription",
		api.SourceFiles:        "OpenSM's files",
		api.SourceDiscovery:    "discovery from this host",
	}[o.Source]
	if p := o.Plugin; p != nil {
		text += fmt.Sprintf(", connected %s (%s, %s, waits %s for tables)", command.Clock(p.Since), p.Version, p.State, command.Seconds(p.DeadlineSeconds))
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
		return "as planned, read back " + command.Clock(o.ReadBackAt)
	}
	return "not as planned, read back " + command.Clock(o.ReadBackAt)
}

// eventTimes lists the steps since the event was seen, with their times.
func eventTimes(e *api.LastEvent) string {
	parts := []string{"seen " + command.Clock(e.SeenAt)}
	for _, s := range []struct {
		what  string
		after float64
	}{{"plan", e.PlannedSeconds}, {"verify", e.VerifiedSeconds}, {"publish", e.PublishedSeconds}, {"program", e.ProgrammedSeconds}, {"read back", e.ReadBackSeconds}} {
		if s.after > 0 {
			parts = append(parts, s.what+" "+command.Seconds(s.after))
		}
	}
	return strings.Join(parts, ", ")
}
