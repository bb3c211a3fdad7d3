// Package figures has the figures of the documentation: what each shows, how its
// numbers are measured, and how it is drawn. "make figures" makes them all.
package figures

import (
	"context"
	"fmt"
	"slices"

	"github.com/forsd/forsd/lab/chart"
)

// sets are all sets, in the order in which they are made. A package with figures
// of its own adds a file with a set, and a line here.
var sets = []*chart.Set{
	&forsScenarios,
	&forsPhases,
	&gpuFrames,
	&gpuTable,
	&gpuStages,
	&photonicRatio,
	&photonicReconfig,
	&liquidSchedules,
	&ocsDelta,
	&ocsNoise,
	&ocsFlows,
	&ocsDegree,
	&ocsGantt,
	&testbed,
}

// Names lists the sets.
func Names() []string {
	list := make([]string, len(sets))
	for i, s := range sets {
		list[i] = s.Name
	}
	return list
}

// Make measures the sets with these names, all if there are none, and draws them
// into a directory. step may be nil.
func Make(ctx context.Context, dir string, step chart.Step, names ...string) error {
	if step == nil {
		step = func(int, int, string) {}
	}
	return each(names, func(s *chart.Set) error { return s.Make(ctx, dir, step) })
}

// Draw draws the sets with these names, all if there are none, from the numbers
// that are in the directory.
func Draw(dir string, names ...string) error {
	return each(names, func(s *chart.Set) error { return s.Draw(dir) })
}

// each does something with the sets with these names.
func each(names []string, do func(*chart.Set) error) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("unknown set %q: want some of %q", name, Names())
		}
	}
	for _, s := range sets {
		if len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}
