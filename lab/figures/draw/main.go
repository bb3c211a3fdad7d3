// Command draw measures what the pictures of the documentation show and draws
// them, as SVG and PNG, with the numbers beside them as CSV. The same numbers give
// the same bytes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/forsd/forsd/lab/figures"
)

func main() {
	out := flag.String("out", "docs/figures", "directory of the pictures and of their numbers")
	drawOnly := flag.Bool("draw", false, "measure nothing: draw the numbers that are there")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: draw [-out DIR] [-draw] [SET...]\nThe sets are %q; all of them by default.\n", figures.Names())
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
func run(ctx context.Context, out string, drawOnly bool, names []string) error {
	if drawOnly {
		return figures.Draw(out, names...)
	}
	return figures.Make(ctx, out, func(_, _ int, what string) { fmt.Fprintln(os.Stderr, what) }, names...)
}
