package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/topology"
)

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
		var refused *api.Error
		switch {
		case errors.As(err, &refused):
			return err
		case err != nil:
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
