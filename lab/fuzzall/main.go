// Command fuzzall runs every fuzz target of the module for a while, a few at a
// time, keeps the log of each, and exits with 1 if one of them found something.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func main() {
	length := flag.Duration("time", 10*time.Minute, "time for each target")
	jobs := flag.Int("jobs", 2, "targets at a time")
	logs := flag.String("logs", "fuzz-logs", "directory for the logs")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, packages, *length, max(*jobs, 1), *logs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
	}
	stop()
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run fuzzes every target of the packages and prints one line for each as it
// ends. It reports whether all of them passed.
func run(ctx context.Context, packages []string, length time.Duration, jobs int, logs string) (bool, error) {
	targets, err := list(ctx, packages)
	if err != nil {
		return false, err
	}
	if len(targets) == 0 {
		return false, fmt.Errorf("no fuzz target in %v", packages)
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return false, err
	}
	fmt.Printf("%d fuzz targets, %v each, %d at a time; logs in %s\n", len(targets), length, jobs, logs)

	f := fuzzer{length: length, logs: logs, workers: max(runtime.NumCPU()/jobs, 1)}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed []target
		slots  = make(chan struct{}, jobs)
	)
	for _, t := range targets {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			r := f.fuzz(ctx, t)
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(r)
			if r.err != nil {
				failed = append(failed, t)
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("stopped before the end: %w", err)
	}
	fmt.Printf("%d passed, %d failed\n", len(targets)-len(failed), len(failed))
	for _, t := range failed {
		fmt.Printf("failed: %s, see %s\n", t, f.logPath(t))
	}
	return len(failed) == 0, nil
}
