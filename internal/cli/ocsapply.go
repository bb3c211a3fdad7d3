package cli

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

// appliedConfig is what --json prints of a configuration.
type appliedConfig struct {
	Switch         string        `json:"switch"`
	Number         int           `json:"configuration"`
	DueSeconds     float64       `json:"due_seconds"`
	ForSeconds     float64       `json:"for_seconds"`
	TookSeconds    float64       `json:"took_seconds,omitempty"`
	OverdueSeconds float64       `json:"overdue_seconds,omitempty"`
	Pairs          []driver.Pair `json:"pairs"`
}

func ocsApplyCommand() *cobra.Command {
	var schedule, config string
	var execute bool
	cmd := &cobra.Command{
		Use:   "apply --schedule FILE --config FILE [--execute]",
		Short: "Carry a schedule out on real switches; without --execute only tell what would be done",
		Long: `Apply connects the circuits of a schedule on the switches that a YAML file lists, each
configuration when it is due, and reads every change back. It moves circuits and no
data. Without --execute it changes nothing, and asks no switch: it tells which
cross-connects it would make, and when. Cross-connects of ports that no rack has stay
as they are, and the circuits of the last configurations stay in the end.

The file has the switches in the order of the schedule's, with the ports that rack 0,
1, … sends into and receives from. Driver polatis is for HUBER+SUHNER Polatis switches,
by RESTCONF:

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
		Example: `  forsctl ocs apply --schedule schedule.json --config switches.yaml
  forsctl ocs apply --schedule schedule.json --config switches.yaml --execute`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return applySchedule(cmd, schedule, config, execute) },
	}
	cmd.Flags().StringVar(&schedule, "schedule", "", "file of forsctl ocs schedule --out")
	cmd.Flags().StringVar(&config, "config", "", "YAML file that lists the switches")
	cmd.Flags().BoolVar(&execute, "execute", false, "change the switches")
	return cmd
}

// applySchedule tells what would be done, or does it.
func applySchedule(cmd *cobra.Command, schedule, config string, execute bool) error {
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
		return driver.Run(cmd.Context(), r.Schedule(), lines, unit, tell)
	})
	if perr := printEvents(cmd, done, true); perr != nil {
		return perr
	}
	if err != nil {
		return command.Violated{Err: fmt.Errorf("%d of %s made: %w", len(done), command.Plural(len(events), "configuration", "configurations"), err)}
	}
	return nil
}

// openSwitches makes the drivers of a site's switches. A dry run needs no password.
func openSwitches(site *driver.Site, execute bool) ([]driver.Line, error) {
	var lines []driver.Line
	for i := range site.Switches {
		e := &site.Switches[i]
		if e.Driver != "polatis" {
			return nil, fmt.Errorf("switch %s has driver %q: want polatis", e.Name, e.Driver)
		}
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

// carryOut runs a schedule with a bar, and collects what was done.
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
		list[i] = appliedConfig{e.Switch, e.Number, e.Due.Seconds(), e.For.Seconds(), e.Took.Seconds(), e.Overdue.Seconds(), e.Pairs}
	}
	return command.Show(cmd, map[string]any{"version": 1, "executed": executed, "configurations": list}, func(w io.Writer) {
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
