package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/report"
)

func reportCommand() *cobra.Command {
	var since, until, intended, out string
	cmd := &cobra.Command{
		Use:   "report --out FILE [--since TIME] [--intended FILE]",
		Short: "Write a report of a time: cabling, availability of cables, plans, with pictures",
		Long: `Report writes a page of HTML that needs nothing else: the fabric against its
baseline and, with --intended, against what it is meant to be; how long each cable
between switches was up; the plans, how far they are from their bounds, and the time
from a fault to a plan. With --json it prints the same as JSON.

The intended topology is a CSV of cables as UFM's NDT has it, with the columns
StartDevice, StartPort, EndDevice and EndPort, and if it has them LinkType, State,
Domain and Speed; or a dump that was kept, an opensm-subnet.lst or the output of
ibnetdiscover. Devices are named by their descriptions or GUIDs. A cable is missing,
extra, swapped (a port of it has another cable) or degraded (below its speed), a device
renamed (it has another name or GUID).

Exit code 1: the cabling is not as intended.`,
		Example: "  forsctl report --out report.html\n  forsctl report --since 168h --intended cables.csv --out week.html\n  forsctl report --intended cables.csv --json | jq .intended",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !command.WantsJSON(cmd) {
				if err := command.CheckOutput(cmd, command.Output{Flag: "out", Path: out, What: "the report"}); err != nil {
					return err
				}
			}
			var wanted []report.Wanted
			if intended != "" {
				var err error
				if wanted, err = command.Parse(intended, report.ReadIntended)(command.ReadPath(intended, command.MaxText)); err != nil {
					return err
				}
			}
			now := time.Now()
			from, err := moment(since, now)
			if err != nil {
				return fmt.Errorf("--since: %w", err)
			}
			to := now
			if until != "" {
				if to, err = moment(until, now); err != nil {
					return fmt.Errorf("--until: %w", err)
				}
			}
			if !to.After(from) {
				return fmt.Errorf("--since %s is not before --until: want an earlier time", since)
			}
			return with(cmd, func(ctx context.Context, c *api.Client) error {
				facts, err := report.Gather(ctx, c, report.Span{From: from, To: to})
				if err != nil {
					return err
				}
				facts.Intended = wanted
				r, err := report.Make(facts)
				if err != nil {
					return err
				}
				if command.WantsJSON(cmd) {
					err = command.PrintJSON(cmd, r)
				} else {
					err = command.WritePage(cmd, out, r.WriteHTML)
				}
				if err != nil {
					return err
				}
				if r.Intended != nil && len(r.Intended.Differences) > 0 {
					n := r.Intended.Counts
					return command.Violated{Err: fmt.Errorf("the cabling is not as intended: %d missing, %d swapped, %d degraded, %d extra, %d renamed", n[report.Missing], n[report.Swapped], n[report.Degraded], n[report.Extra], n[report.Renamed])}
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "720h", "from this time on, such as 2026-07-01, or 36h for that long ago")
	f.StringVar(&until, "until", "", "before this time (default now)")
	f.StringVar(&intended, "intended", "", "what the cabling is meant to be: a CSV of cables, or a dump")
	f.StringVar(&out, "out", "", "the page to write, - for standard output")
	_ = cmd.MarkFlagFilename("intended")
	return cmd
}
