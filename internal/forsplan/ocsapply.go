package forsplan

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/optical/driver"
	"github.com/forsd/forsd/optical/polatis"
)

// appliedConfig is a configuration in the output of --json.
type appliedConfig struct {
	Switch         string        `json:"switch"`
	Number         int           `json:"configuration"`
	DueSeconds     float64       `json:"due_seconds"`
	ForSeconds     float64       `json:"for_seconds"`
	TookSeconds    float64       `json:"took_seconds,omitempty"`
	OverdueSeconds float64       `json:"overdue_seconds,omitempty"`
	Kept           int           `json:"kept,omitempty"`
	Pairs          []driver.Pair `json:"pairs"`
}

func ocsApplyCommand() *cobra.Command {
	var schedule, config, at string
	var execute bool
	var late time.Duration
	cmd := &cobra.Command{
		Use:   "apply --schedule FILE --config FILE [--execute]",
		Short: "Carry a schedule out on real switches; without --execute only tell what would be done",
		Long: `Apply connects the circuits of a schedule on the switches that a YAML file lists, each
configuration when it is due, and reads every change back. It moves circuits and no
data. Without --execute it changes nothing, and asks no switch: it tells which
cross-connects it would make, and when. Circuits that stay from one configuration to the
next are not touched, cross-connects of ports that no rack has never, and the circuits of
the last configurations stay in the end. Where somebody else changes a circuit of the
schedule, or takes a port of it, apply stops before its next change.

The exit status is 1 where something could not be done, and where a switch was slower
than planned: racks that send by the schedule have then sent into circuits that did not
stand, and the last line says how much of the traffic was carried.

The file has the switches in the order of the schedule's, with the ports that rack 0,
1, … sends into and receives from. Driver polatis is for HUBER+SUHNER Polatis switches,
by RESTCONF; polatis-netconf is for the same by NETCONF over SSH, with url
ssh://192.0.2.1:830, known_hosts (a file with the switch's host key), and key_file, a
password_file, or both:

  version: 1
  unit: 1s                # what 1 of the schedule's time takes
  switches:
    - name: ocs-1
      driver: polatis
      url: https://192.0.2.1:8008
      username: admin
      password_file: /etc/forsd/ocs-1.password
      ca_file: /etc/forsd/ocs-1.pem
      ingress: 1-16
      egress: 17-32`,
		Example: `  forsplan ocs apply --schedule schedule.json --config switches.yaml
  forsplan ocs apply --schedule schedule.json --config switches.yaml --execute --at 02:00`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if late < 0 {
				return fmt.Errorf("--late %v: want 0 or more", late)
			}
			start, err := startTime(at)
			if err != nil {
				return err
			}
			return applySchedule(cmd, schedule, config, execute, start, late)
		},
	}
	cmd.Flags().StringVar(&schedule, "schedule", "", "file of forsplan ocs schedule --out")
	cmd.Flags().StringVar(&config, "config", "", "YAML file that lists the switches")
	cmd.Flags().BoolVar(&execute, "execute", false, "change the switches")
	cmd.Flags().StringVar(&at, "at", "", "when the schedule's time 0 is: 02:00, 02:00:00.5, or a date and time (default: as soon as all switches have answered)")
	cmd.Flags().DurationVar(&late, "late", time.Millisecond, "circuits that stand later than planned by no more than this are in time")
	return cmd
}

// startTime parses --at. An empty value yields the zero time.
func startTime(at string) (time.Time, error) {
	now := time.Now()
	start, err := command.NextTime(at, now)
	if err != nil {
		return now, fmt.Errorf("--at: %w", err)
	}
	if at != "" && start.Before(now) {
		return now, fmt.Errorf("--at: %s has passed", start.Format(time.RFC3339Nano))
	}
	return start, nil
}

// applySchedule carries out a schedule, or only prints the steps.
func applySchedule(cmd *cobra.Command, schedule, config string, execute bool, start time.Time, late time.Duration) error {
	r, err := readSchedule(schedule)
	if err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return command.Violated{Err: fmt.Errorf("%s: %w", schedule, err)}
	}
	if config == "" {
		return errors.New("--config is missing: name a YAML file that lists the switches")
	}
	site, err := driver.ReadSite(config)
	if err != nil {
		return err
	}
	lines, err := openSwitches(site, execute)
	if err != nil {
		return fmt.Errorf("%s: %w", config, err)
	}
	unit := site.UnitDuration()
	events, err := driver.DryRun(r.Schedule(), lines, unit)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", schedule, config, err)
	}
	if !execute {
		return printEvents(cmd, events, false)
	}
	done, err := carryOut(cmd, func(tell func(driver.Event)) error {
		return driver.Run(cmd.Context(), r.Schedule(), lines, unit, start, tell)
	})
	if perr := printEvents(cmd, done, true); perr != nil {
		return perr
	}
	if err != nil {
		if cmd.Context().Err() != nil {
			err = errors.New("interrupted: what was made stays")
		}
		return command.Violated{Err: fmt.Errorf("%d of %s made: %w", len(done), command.Plural(len(events), "configuration", "configurations"), err)}
	}
	return inTime(done, unit, late)
}

// inTime returns an error if circuits were ready later than late allows.
func inTime(done []driver.Event, unit, late time.Duration) error {
	var planned, missed time.Duration
	var worst driver.Event
	for _, e := range done {
		planned += time.Duration(len(e.Pairs)) * e.For
		if e.Missed() > 0 && e.Overdue > late {
			missed += e.Missed()
			if e.Overdue > worst.Overdue {
				worst = e
			}
		}
	}
	if missed == 0 {
		return nil
	}
	return command.Violated{Err: fmt.Errorf("%.6g of %.6g carried: circuits stood too late, most those of configuration %d of switch %s, by %v; plan with a larger --delta",
		float64(planned-missed)/float64(unit), float64(planned)/float64(unit), worst.Number, worst.Switch, worst.Overdue.Round(time.Microsecond))}
}

// openSwitches makes drivers for a site's switches. A dry run needs no password.
func openSwitches(site *driver.Site, execute bool) ([]driver.Line, error) {
	var lines []driver.Line
	for i := range site.Switches {
		e := &site.Switches[i]
		var s driver.Switch
		if execute {
			var err error
			if s, err = polatis.Open(e); err != nil {
				return nil, err
			}
		}
		lines = append(lines, e.Line(s))
	}
	return lines, nil
}

// carryOut runs a schedule with a progress bar, and collects the events.
func carryOut(cmd *cobra.Command, run func(func(driver.Event)) error) ([]driver.Event, error) {
	bar := command.Progress(cmd, -1)
	var mu sync.Mutex
	var done []driver.Event
	err := run(func(e driver.Event) {
		mu.Lock()
		defer mu.Unlock()
		done = append(done, e)
		bar.Describe(fmt.Sprintf("%s: configuration %d", e.Switch, e.Number))
		_ = bar.Add(1)
	})
	_ = bar.Finish()
	return done, err
}

func printEvents(cmd *cobra.Command, events []driver.Event, executed bool) error {
	list := make([]appliedConfig, len(events))
	for i, e := range events {
		list[i] = appliedConfig{e.Switch, e.Number, e.Due.Seconds(), e.For.Seconds(), e.Took.Seconds(), e.Overdue.Seconds(), e.Kept, e.Pairs}
	}
	return command.Show(cmd, map[string]any{"executed": executed, "configurations": list}, func(w io.Writer) {
		if executed {
			fmt.Fprintln(w, "due\tswitch\tconfiguration\tfor\ttook\toverdue\tcross-connects")
		} else {
			fmt.Fprintln(w, "due\tswitch\tconfiguration\tfor\tcross-connects")
		}
		for _, e := range events {
			fmt.Fprintf(w, "%v\t%s\t%d\t%v", e.Due.Round(time.Microsecond), e.Switch, e.Number, e.For.Round(time.Microsecond))
			if executed {
				fmt.Fprintf(w, "\t%v\t%v", e.Took.Round(time.Microsecond), e.Overdue.Round(time.Microsecond))
			}
			fmt.Fprintf(w, "\t%s\n", pairsText(e.Pairs))
		}
		if !executed {
			fmt.Fprintln(w, "\nNothing was changed: --execute does.")
		}
	})
}

// pairsText lists the first cross-connects.
func pairsText(pairs []driver.Pair) string {
	const most = 8
	var words []string
	for i, p := range pairs {
		if i == most {
			words = append(words, fmt.Sprintf("… (%d)", len(pairs)))
			break
		}
		words = append(words, fmt.Sprintf("%d→%d", p.Ingress, p.Egress))
	}
	return strings.Join(words, " ")
}

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
