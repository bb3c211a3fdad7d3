package worker

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

// Task reads a request and returns the answer, in a separate process. Its context has a
// deadline. A task that has an answer at the deadline returns it, even if it is not the best.
type Task func(ctx context.Context, in *gob.Decoder) (any, error)

// The nice values of workers, from 0 to 19: orders run far behind the program itself, and
// questions behind everything else on the machine.
const (
	niceOrders    = 10
	niceQuestions = 19
)

// Main must be the first call in a program with a pool. It returns immediately, unless a pool
// has started the process: then it runs the task and ends the process.
func Main(tasks map[string]Task) {
	if len(os.Args) != 5 || os.Args[0] != title {
		return
	}
	if err := work(tasks[os.Args[1]]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work runs a task within the pool's limits.
func work(task Task) error {
	memory, err := strconv.ParseUint(os.Args[2], 10, 64)
	if err != nil || task == nil {
		return fmt.Errorf("%v: no such task", os.Args)
	}
	within, err := time.ParseDuration(os.Args[3])
	if err != nil {
		return fmt.Errorf("%v: no time", os.Args)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	nice, err := strconv.Atoi(os.Args[4])
	if err != nil {
		return fmt.Errorf("%v: no priority", os.Args)
	}
	if err := confine(memory, nice); err != nil {
		return err
	}
	go func() { // ends when the pool's process ends
		_, _ = io.Copy(io.Discard, os.NewFile(3, "parentPipe"))
		os.Exit(1)
	}()
	answer, failed := task(ctx, gob.NewDecoder(os.Stdin))
	var o outcome
	if failed != nil && !errors.As(failed, &o.Refusal) {
		o.Late, o.Text = errors.Is(failed, context.DeadlineExceeded), failed.Error()
	}
	out := gob.NewEncoder(os.Stdout)
	if err := out.Encode(&o); err != nil || failed != nil {
		return err
	}
	return out.Encode(answer)
}

// confine limits the process. All its threads are in its process group, and new threads
// inherit the priority. Limits that cannot be set are skipped.
func confine(memory uint64, nice int) error {
	_ = syscall.Setpriority(syscall.PRIO_PGRP, 0, nice)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o644)
	for resource, most := range map[int]uint64{syscall.RLIMIT_DATA: memory, syscall.RLIMIT_CORE: 0} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit the process: %w", err)
		}
	}
	debug.SetMemoryLimit(int64(memory / 4 * 3)) // leaves the rest for stacks and C
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1))
	return nil
}
