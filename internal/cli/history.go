package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/health"
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

func watchCommand() *cobra.Command {
	var count int
	var after string
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Follow what happens: epochs, cables, warnings",
		Long: `Watch prints one line an event, as it happens, until it is interrupted. It comes
back on its own when forsd restarts, and says so on standard error. With --json
every line is one JSON object, with id, kind (epoch, link, warning, missed) and data.`,
		Example: "  forsctl watch\n  forsctl watch --json --count 1",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				if _, err := c.Status(ctx); err != nil {
					return err
				}
				return watch(cmd, c.Watch(ctx, after), count)
			})
		},
	}
	cmd.Flags().IntVar(&count, "count", 0, "end after this many events (0: never)")
	cmd.Flags().StringVar(&after, "after", "", "begin with the events after the one with this id")
	return cmd
}

// watch prints events until the stream ends or the count is reached.
func watch(cmd *cobra.Command, events func(func(api.Event, error) bool), count int) error {
	seen := 0
	for e, err := range events {
		if _, refused := errors.AsType[*api.Error](err); refused {
			return err
		} else if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "forsctl: %v; trying again\n", err)
			continue
		}
		if command.WantsJSON(cmd) {
			err = command.PrintLine(cmd, e)
		} else {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), command.Clock(eventTime(e))+"  "+eventText(e))
		}
		if err != nil {
			return err
		}
		if seen++; seen == count {
			break
		}
	}
	return nil
}

// eventTime returns the time in an event's data, or else the current time.
func eventTime(e api.Event) time.Time {
	x := struct {
		DecidedAt   time.Time `json:"decided_at"`
		PublishedAt time.Time `json:"published_at"`
		RaisedAt    time.Time `json:"raised_at"`
		Raised      bool      `json:"raised"` // a warning that has ended began long ago
	}{Raised: e.Kind != api.KindWarning}
	// Data in another format have no time.
	_ = json.Unmarshal(e.Data, &x)
	if !x.Raised {
		x.RaisedAt = time.Time{}
	}
	for _, at := range []time.Time{x.DecidedAt, x.PublishedAt, x.RaisedAt} {
		if !at.IsZero() {
			return at
		}
	}
	return time.Now()
}

// eventText describes an event in words, without its time. For an unknown kind it returns the
// data.
func eventText(e api.Event) string {
	if say := eventTexts[e.Kind]; say != nil {
		if text := say(e.Data); text != "" {
			return text
		}
	}
	return e.Kind + "  " + string(e.Data)
}

// eventTexts has a function for each kind of event, which describes the event in words, or
// returns "" if the data are not of that kind.
var eventTexts = map[string]func(data json.RawMessage) string{
	api.KindEpoch: of(func(x *api.Epoch) string { return "epoch " + epochText(x) }),
	api.KindBase:  of(func(x *api.Epoch) string { return "base LIDs " + epochText(x) }),
	api.KindJob: of(func(x *struct {
		What string  `json:"what"`
		Job  api.Job `json:"job"`
	}) string {
		return fmt.Sprintf("%s %s: epoch %d, %d servers, %d phases (bound %d), engine %s", &x.Job, x.What, x.Job.Epoch, x.Job.Servers, x.Job.Phases, x.Job.LowerBound, x.Job.Engine)
	}),
	api.KindLink: of(func(x *topology.Change) string { return "link  " + x.Text }),
	api.KindWarning: of(func(x *struct {
		health.Warning
		Raised bool `json:"raised"`
	}) string {
		switch {
		case x.Raised:
			return fmt.Sprintf("warning %s: %s", x.Code, x.Text)
		case x.Code != "":
			return fmt.Sprintf("over  warning %s", x.Code)
		}
		return ""
	}),
	api.KindCable:  of(func(x *api.CableEvent) string { return "cable  " + x.Text }),
	api.KindDrain:  of(func(x *api.DrainEvent) string { return fmt.Sprintf("drain  %s: %s", x.Drain.Name, x.What) }),
	api.KindOrder:  of(func(x *api.Order) string { return fmt.Sprintf("order  %s, by %s: %s", x.What, x.By, x.Result) }),
	api.KindStart:  of(func(x *api.Start) string { return "start  forsd " + x.Version + " was started" }),
	api.KindLead:   of(takeoverText),
	api.KindMissed: func(json.RawMessage) string { return "missed  events were lost: ask for the status" },
}

// of decodes the data of an event.
func of[T any](say func(*T) string) func(json.RawMessage) string {
	return func(data json.RawMessage) string {
		var x T
		if json.Unmarshal(data, &x) != nil {
			return ""
		}
		return say(&x)
	}
}

// takeoverText describes which of the two forsd daemons leads.
func takeoverText(x *api.Takeover) string {
	text := "takeover  forsd follows the other one"
	if x.Leads {
		text = "takeover  forsd leads"
	}
	text += fmt.Sprintf(", epoch %d", x.Epoch)
	if x.Why != "" {
		text += ": " + x.Why
	}
	return text
}

// epochText summarizes an epoch in one line.
func epochText(x *api.Epoch) string {
	text := fmt.Sprintf("%d: %d phases (bound %d), engine %s", x.Epoch, x.Phases, x.LowerBound, x.Engine)
	if x.RollbackOf != 0 {
		return text + fmt.Sprintf(", the plan of epoch %d again", x.RollbackOf)
	}
	if len(x.What) > 0 {
		text += ": " + cause(x.What)
	}
	return text
}
