// Command figures measures what the pictures of the documentation show and draws
// them, as SVG and PNG, with the numbers beside them as CSV. The same numbers give
// the same bytes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

func main() {
	out := flag.String("out", "docs/figures", "directory of the pictures and of their numbers")
	drawOnly := flag.Bool("draw", false, "measure nothing: draw the numbers that are there")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: figures [-out DIR] [-draw] [SET...]\nThe sets are %q; all of them by default.\n", names())
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *out, *drawOnly, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "figures: %v\n", err)
		os.Exit(1)
	}
}

// run measures and draws the sets with these names, all if there are none.
func run(ctx context.Context, out string, drawOnly bool, wanted []string) error {
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no set %q: want some of %q", name, names())
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, s := range sets {
		if len(wanted) > 0 && !slices.Contains(wanted, s.name) {
			continue
		}
		if err := s.make(ctx, out, drawOnly); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// make measures the set, unless its numbers are to be used as they are, and draws
// its figures.
func (s *set) make(ctx context.Context, out string, drawOnly bool) error {
	file := filepath.Join(out, s.name+".csv")
	if !drawOnly {
		t, err := s.measure(ctx)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, t.encode(), 0o644); err != nil {
			return err
		}
	}
	t, err := readTable(file)
	if err != nil {
		return err
	}
	for _, f := range s.figures {
		for _, format := range formats {
			picture, err := f.render(t, format)
			if err != nil {
				return fmt.Errorf("draw %s: %w", f.name, err)
			}
			if err := os.WriteFile(filepath.Join(out, f.name+"."+format), picture, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
