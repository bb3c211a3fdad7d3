// Command forsd-rehearsal carries out forsctl rehearse. It contains the test bench, which
// forsctl does not.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/report"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/rehearsal"
	"github.com/forsd/forsd/topology"
)

var version = "development"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	root := command.NewRoot(&cobra.Command{Use: "forsctl", Version: version})
	root.AddCommand(command.Rehearse(carryOut))
	return command.Run(root, append([]string{"rehearse"}, args...), stdout, stderr)
}

func carryOut(cmd *cobra.Command, o *command.Rehearsal) error {
	options, r, err := prepare(o)
	if err != nil {
		return err
	}
	if o.Out != "-" {
		if err := command.WritePage(cmd, o.Out, r.WriteHTML); err != nil { // better now than after all events
			return err
		}
	}
	say := cmd.ErrOrStderr()
	printSettings(say, r.Settings) // the fabric may not come up by them
	fmt.Fprintf(say, "%d events on %s; the fabric comes up\n", o.Events, o.Dump)
	options.Played = func(p report.Played) { fmt.Fprintf(say, "%4d  %s\n", p.Number, p.Line()) }
	if err := rehearsal.Run(cmd.Context(), options, r); err != nil {
		return err
	}
	if cmd.Context().Err() != nil && len(r.Events) == 0 {
		return context.Canceled
	}
	if err := command.WritePage(cmd, o.Out, r.WriteHTML); err != nil {
		return err
	}
	if err := command.Show(cmd, r, func(w io.Writer) { printReport(w, r) }); err != nil {
		return err
	}
	if v := r.Violation(); v != "" {
		return command.Violated{Err: errors.New(v)}
	}
	return nil
}

// prepare reads the input, and finds the programs.
func prepare(o *command.Rehearsal) (options rehearsal.Options, r *report.Rehearsal, err error) {
	if o.Events < 1 {
		return options, nil, fmt.Errorf("--events %d: want 1 or more", o.Events)
	}
	data, err := command.ReadPath(o.Dump, command.MaxFile)
	if err != nil {
		return options, nil, err
	}
	f, _, err := topology.Read(data)
	if err != nil {
		return options, nil, fmt.Errorf("%s: %w", o.Dump, err)
	}
	options = rehearsal.Options{Fabric: f, Seed: o.Seed, Events: o.Events, Forsd: command.FindFile("forsd"), Plugin: command.FindFile(opensm.PluginFile)}
	r = &report.Rehearsal{File: o.Dump, Version: version, Seed: o.Seed, Asked: o.Events}
	conf := []byte{}
	if o.Conf != "" {
		if conf, err = command.ReadPath(o.Conf, command.MaxText); err != nil {
			return options, nil, err
		}
	}
	base, err := topology.Recognise(f)
	if err != nil {
		return options, nil, fmt.Errorf("%s: forsd makes no plan for this fabric: %w", o.Dump, err)
	}
	var settings *report.Settings
	settings, options.Conf, options.LMC = rehearsal.Settings(o.Conf, conf, f, base)
	if o.Conf != "" {
		r.Settings = settings
	}
	return options, r, available(options)
}

// available returns an error that names what is not installed, or nil.
func available(o rehearsal.Options) error {
	err := ibsim.Available()
	if o.Forsd == "" || o.Plugin == "" {
		err = errors.Join(err, fmt.Errorf("forsd or %s is missing: install the package forsd", opensm.PluginFile))
	}
	return err
}

// printReport prints the report as text.
func printReport(w io.Writer, r *report.Rehearsal) {
	fmt.Fprintf(w, "fabric\t%s: %s, %s, %s, %s, LMC %d\n", r.File, r.Kind, command.Plural(r.Leaves, "leaf", "leaves"), command.Plural(r.Servers, "server", "servers"), command.Plural(r.Lanes, "lane", "lanes"), r.LMC)
	fmt.Fprintf(w, "plan\t%d phases, bound %d\n", r.Phases, r.LowerBound)
	fmt.Fprintf(w, "events\t%d of %d, seed %d, in %.0f s\n", len(r.Events), r.Asked, r.Seed, r.Seconds)
	for _, t := range r.Times() {
		fmt.Fprintf(w, "%s\t%d: to the first plan median %s, most %s\n", t.What, t.Count, command.Seconds(t.Median), command.Seconds(t.Max))
	}
	for _, u := range r.Programs {
		fmt.Fprintf(w, "%s\tat most %.0f MiB of memory, %.1f s of processor time\n", u.Program, u.PeakMiB, u.CPUSeconds)
	}
	for _, x := range r.Warnings {
		fmt.Fprintf(w, "warning\t%s (%s) in %s: %s\n", x.Code, x.Severity, command.Plural(x.Events, "event", "events"), x.Title)
	}
	printSettings(w, r.Settings)
	if v := r.Violation(); v != "" {
		fmt.Fprintf(w, "violation\t%s\n", strings.ReplaceAll(v, "\n", "; "))
	} else {
		fmt.Fprintf(w, "violation\tnone\n")
	}
	fmt.Fprintf(w, "\nevent\tphases\tplan\tat rest\twarnings\twhat\n")
	for i := range r.Events {
		p := &r.Events[i]
		fmt.Fprintf(w, "%d\t%d to %d\t%s\t%s\t%s\t%s\n", p.Number, p.PhasesBefore, p.PhasesAfter, p.PlanTime(), command.Seconds(p.RestSeconds), strings.Join(p.Warnings, " "), p.What())
	}
}

// printSettings prints the settings that stand in forsd's way.
func printSettings(w io.Writer, s *report.Settings) {
	if s == nil {
		return
	}
	for _, text := range s.Misread {
		fmt.Fprintf(w, "setting\t%s %s\n", s.File, text)
	}
	for _, x := range s.Findings {
		fmt.Fprintf(w, "setting\t%s (%s): %s\n", x.Code, x.Severity, x.What())
	}
	if len(s.Findings) == 0 {
		fmt.Fprintf(w, "settings\tnothing in %s stands in forsd's way\n", s.File)
	}
}
