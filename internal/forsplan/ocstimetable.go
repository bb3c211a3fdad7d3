package forsplan

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/optical/driver"
)

// slotJSON is a slot of a timetable in the output of --json. A peer of -1 means no peer.
type slotJSON struct {
	Switch       int        `json:"switch"`
	To           int        `json:"to"`
	From         int        `json:"from"`
	BeginSeconds float64    `json:"begin_seconds"`
	EndSeconds   float64    `json:"end_seconds"`
	Begin        *time.Time `json:"begin_at,omitempty"`
	End          *time.Time `json:"end_at,omitempty"`
}

func ocsTimetableCommand() *cobra.Command {
	var schedule, at string
	var rack int
	var unit time.Duration
	var whole bool
	cmd := &cobra.Command{
		Use:   "timetable --schedule FILE --rack N",
		Short: "Print when a rack has which circuits",
		Long: `Timetable prints what a rack does by a schedule: on which switch it has a circuit to and
from which rack, from when to when. With --at, the start that "forsplan ocs apply" is told,
the times are those of the clock, to the microsecond.`,
		Example: `  forsplan ocs timetable --schedule schedule.json --rack 3
  forsplan ocs timetable --schedule schedule.json --rack 3 --unit 10ms --at 02:00 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			start, err := startTime(at)
			if err != nil {
				return err
			}
			r, err := readSchedule(schedule)
			if err != nil {
				return err
			}
			if err := r.Check(); err != nil {
				return command.Violated{Err: fmt.Errorf("%s: %w", schedule, err)}
			}
			slots, err := driver.Timetable(r.Schedule(), rack, unit, whole)
			if err != nil {
				return err
			}
			return printTimetable(cmd, slots, rack, start)
		},
	}
	f := cmd.Flags()
	f.StringVar(&schedule, "schedule", "", "file of forsplan ocs schedule --out")
	f.IntVar(&rack, "rack", 0, "number of the rack, from 0")
	f.DurationVar(&unit, "unit", time.Second, "what 1 of the schedule's time takes")
	f.StringVar(&at, "at", "", "when the schedule's time 0 is: 02:00, 02:00:00.5, or a date and time")
	f.BoolVar(&whole, "whole", true, "circuits that stay through a change of their switch are one line: forsplan ocs apply does not interrupt them")
	return cmd
}

func printTimetable(cmd *cobra.Command, slots []driver.Slot, rack int, start time.Time) error {
	list := make([]slotJSON, len(slots))
	for i, x := range slots {
		list[i] = slotJSON{Switch: x.Switch, To: x.To, From: x.From, BeginSeconds: x.Begin.Seconds(), EndSeconds: x.End.Seconds()}
		if !start.IsZero() {
			begin, end := start.Add(x.Begin), start.Add(x.End)
			list[i].Begin, list[i].End = &begin, &end
		}
	}
	when := func(d time.Duration) string {
		if start.IsZero() {
			return d.Round(time.Microsecond).String()
		}
		return start.Add(d).Format("2006-01-02T15:04:05.000000Z07:00")
	}
	return command.Show(cmd, map[string]any{"rack": rack, "slots": list}, func(w io.Writer) {
		fmt.Fprintln(w, "begin\tend\tswitch\tsends to\treceives from")
		for _, x := range slots {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", when(x.Begin), when(x.End), x.Switch, x.To, x.From)
		}
	})
}
