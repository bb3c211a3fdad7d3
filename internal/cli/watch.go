package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
every line is one JSON object: id, kind (epoch, link, warning, missed) and data.`,
		Example: "  forsctl watch\n  forsctl watch --json --count 1",
		Args:    cobra.NoArgs,
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

// watch prints events until the stream or the count ends.
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
		if err := printEvent(cmd, e); err != nil {
			return err
		}
		if seen++; seen == count {
			break
		}
	}
	return nil
}

func printEvent(cmd *cobra.Command, e api.Event) error {
	line := eventText(e)
	if command.WantsJSON(cmd) {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		line = string(data)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
	return err
}

// eventText is an event in words; of a kind that is not known, its data.
func eventText(e api.Event) string {
	switch e.Kind {
	case api.KindEpoch:
		var x api.Epoch
		if json.Unmarshal(e.Data, &x) == nil {
			return clock(x.PublishedAt) + "  epoch " + epochText(&x)
		}
	case api.KindBase:
		var x api.Epoch
		if json.Unmarshal(e.Data, &x) == nil {
			return clock(x.PublishedAt) + "  base LIDs " + epochText(&x)
		}
	case api.KindJob:
		var x struct {
			What string  `json:"what"`
			Job  api.Job `json:"job"`
		}
		if json.Unmarshal(e.Data, &x) == nil {
			return fmt.Sprintf("%s %s: epoch %d, %d servers, %d phases (bound %d), engine %s", &x.Job, x.What, x.Job.Epoch, x.Job.Servers, x.Job.Phases, x.Job.LowerBound, x.Job.Engine)
		}
	case api.KindLink:
		var x topology.Change
		if json.Unmarshal(e.Data, &x) == nil {
			return "link  " + x.Text
		}
	case api.KindWarning:
		var x struct {
			health.Warning
			Raised bool `json:"raised"`
		}
		if json.Unmarshal(e.Data, &x) == nil && x.Raised {
			return fmt.Sprintf("%s  warning %s: %s", clock(x.Since), x.Code, x.Text)
		} else if x.Code != "" {
			return fmt.Sprintf("over  warning %s", x.Code)
		}
	case api.KindCable:
		var x api.CableEvent
		if json.Unmarshal(e.Data, &x) == nil {
			return fmt.Sprintf("%s  cable  %s", clock(x.At), x.Text)
		}
	case api.KindDrain:
		var x api.DrainEvent
		if json.Unmarshal(e.Data, &x) == nil {
			return fmt.Sprintf("drain  %s: %s", x.Drain.Name, x.What)
		}
	case api.KindOrder:
		var x api.Order
		if json.Unmarshal(e.Data, &x) == nil {
			return fmt.Sprintf("order  %s, by %s: %s", x.What, x.By, x.Result)
		}
	case api.KindStart:
		var x api.Start
		if json.Unmarshal(e.Data, &x) == nil {
			return "start  forsd " + x.Version + " was started"
		}
	case api.KindLead:
		var x api.Takeover
		if json.Unmarshal(e.Data, &x) == nil {
			return takeoverText(&x)
		}
	case api.KindMissed:
		return "missed  events were lost: ask for the status"
	}
	return e.Kind + "  " + string(e.Data)
}

// takeoverText says which of two forsd leads.
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

// epochText sums an epoch up in a line.
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
