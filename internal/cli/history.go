package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/topology"
)

func historyCommand() *cobra.Command {
	var q api.HistoryQuery
	var since, until string
	var asCSV bool
	most := 50
	kinds := []string{api.KindEpoch, api.KindBase, api.KindJob, api.KindLink, api.KindWarning, api.KindCable, api.KindDrain, api.KindOrder, api.KindLead, api.KindStart}
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show what has happened: epochs, cables, warnings, jobs, orders",
		Long: `History shows what forsd has kept of what has happened, over restarts, the newest
last: epochs, cables, warnings with their ends, jobs, takeovers, and what was ordered
by whom. Times are such as 2026-07-01, "2026-07-01 08:00", or 36h or 7d for that long ago.

A cable is named by either end, such as Leaf007/31. --about takes a switch too, by
name or GUID, and the code of a warning.`,
		Example: "  forsctl history\n  forsctl history --since 24h --kind order,epoch\n  forsctl history --about Leaf007/31 --csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, kind := range q.Kinds {
				if !slices.Contains(kinds, kind) {
					return fmt.Errorf("--kind %s: want one or more of %s", kind, strings.Join(kinds, ", "))
				}
			}
			q.About = topology.NodePort(q.About)
			if most < 0 {
				return fmt.Errorf("--limit %d: want 1 or more, or 0 for all", most)
			}
			for flag, x := range map[string]struct {
				text string
				into *time.Time
			}{"since": {since, &q.Since}, "until": {until, &q.Until}} {
				at, err := moment(x.text, time.Now())
				if err != nil {
					return fmt.Errorf("--%s: %w", flag, err)
				}
				*x.into = at
			}
			if asCSV && command.WantsJSON(cmd) {
				return fmt.Errorf("--json and --csv: want one of them")
			}
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				entries, err := readHistory(ctx, c, q, most)
				if err != nil {
					return err
				}
				if err := printHistory(cmd, entries, asCSV); err != nil || len(entries) > 0 || q.About == "" {
					return err
				}
				return command.Violated{Err: fmt.Errorf("nothing about %s is in the history: want a cable such as Leaf007/31, a switch by name or GUID, or the code of a warning", q.About)}
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&q.Kinds, "kind", nil, "kinds of events, such as epoch, link, warning, job, order, takeover, start (default all)")
	f.StringVar(&q.About, "about", "", "a cable by either end (Leaf007/31), a switch, or the code of a warning")
	f.StringVar(&q.By, "by", "", "who ordered it, by name")
	f.StringVar(&since, "since", "", "from this time on")
	f.StringVar(&until, "until", "", "before this time")
	f.IntVar(&most, "limit", most, "the newest so many (0: all, up to 100000)")
	f.BoolVar(&asCSV, "csv", false, "print CSV: time, kind, id, ended, text")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// moment parses a time: a day, a day with a time of day, RFC 3339, or a duration before now. It
// returns the zero time for "".
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := command.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: want such as 2026-07-01, \"2026-07-01 08:00\", or 36h or 7d for that long ago", text)
}

// readHistory returns the newest entries, oldest first. A limit of 0 means all entries.
func readHistory(ctx context.Context, c *api.Client, q api.HistoryQuery, most int) ([]api.HistoryEntry, error) {
	all, err := c.AllHistory(ctx, q, most)
	slices.Reverse(all)
	return all, err
}

// printHistory prints entries in one of three formats.
func printHistory(cmd *cobra.Command, entries []api.HistoryEntry, asCSV bool) error {
	switch {
	case command.WantsJSON(cmd):
		return command.PrintJSON(cmd, api.HistoryPage{Entries: entries})
	case asCSV:
		return historyCSV(cmd.OutOrStdout(), entries)
	}
	for i := range entries {
		e := &entries[i]
		line := command.Clock(e.At) + "  " + eventText(e.Event)
		if !e.Ended.IsZero() {
			line += " (until " + command.Clock(e.Ended) + ")"
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return nil
}

// historyCSV writes entries as CSV.
func historyCSV(out io.Writer, entries []api.HistoryEntry) error {
	w := csv.NewWriter(out)
	rows := [][]string{{"time", "kind", "id", "ended", "text"}}
	for i := range entries {
		e := &entries[i]
		ended := ""
		if !e.Ended.IsZero() {
			ended = e.Ended.Format(time.RFC3339Nano)
		}
		rows = append(rows, []string{e.At.Format(time.RFC3339Nano), e.Kind, e.ID, ended, strings.TrimSpace(eventText(e.Event))})
	}
	return w.WriteAll(rows)
}
