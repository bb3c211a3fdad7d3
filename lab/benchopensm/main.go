// Command benchopensm times the reaction to a pulled cable, in OpenSM and in forsd, on the LHCb
// network FT(2;20,18) simulated by ibsim: under OpenSM's own min-hop engine, with forsd watching
// OpenSM's files, with forsd in OpenSM's sweep by the plugin, and the same while forsd is stopped.
// They run at the same time and take turns in having a cable pulled and put back, so that other
// load on the machine affects all of them. OpenSM's actions are seen in its events and in the
// datagrams that it sends; see tap.c. With -history it compares forsd in OpenSM's sweep with and
// without its history: each cable gives a pair of times, and the result is the ratio of Hodges and
// Lehmann with its confidence interval.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/forsd/forsd/internal/command"
)

// limit bounds the whole run.
const limit = 30 * time.Minute

func main() {
	failures := flag.Int("failures", 10, "how many cables are pulled in each way")
	forsd := flag.String("forsd", "bin/forsd", "the forsd to measure")
	plugin := flag.String("plugin", "bin/libforsosm.so", "the plugin to measure")
	history := flag.Bool("history", false, "compare the plugin with the history and without it, and nothing else")
	raw := flag.Bool("raw", false, "print every failure as well")
	flag.Parse()
	command.Main("bench-opensm", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the benchmark took longer than %v", limit))
		defer cancel()
		return run(ctx, *failures, *forsd, *plugin, *raw, *history)
	})
}

func run(ctx context.Context, failures int, forsd, plugin string, raw, history bool) (err error) {
	if failures < 1 {
		return fmt.Errorf("-failures %d: want at least 1", failures)
	}
	dir, err := os.MkdirTemp("", "bench-opensm-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	library, err := buildTap(ctx, dir)
	if err != nil {
		return err
	}
	ways, err := start(ctx, dir, library, kinds(forsd, plugin, history))
	defer func() { err = errors.Join(err, closeAll(ways)) }()
	if err != nil {
		return err
	}
	for n := range failures {
		if history {
			slices.Reverse(ways) // each comes first as often as the other
		}
		for _, w := range ways {
			if err := w.fail(ctx, n); err != nil {
				return fmt.Errorf("%s, failure %d: %w", w.name, n+1, err)
			}
			if raw {
				fmt.Printf("%s %d: %v; back: %v\n", w.name, n+1, w.pulled[n], w.back[n])
			}
		}
	}
	if history {
		return compare(os.Stdout, ways)
	}
	report(os.Stdout, ways)
	return nil
}
