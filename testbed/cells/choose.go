package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// compile makes the program that chooses by times that are given, with the shim's choose.c.
// root is the project's folder.
func compile(ctx context.Context, root, to string) error {
	shim := filepath.Join(root, "mpi", "libforsmpi")
	cmd := exec.CommandContext(ctx, "mpicc", "-O2", "-Wall", "-Werror", "-I"+filepath.Join(shim, "src"), "-I"+filepath.Join(root, "mpi", "libfors"), "-pthread", "-o", to,
		filepath.Join(shim, "testdata", "choice.c"), filepath.Join(shim, "src", "choose.c"), filepath.Join(root, "mpi", "libfors", "src", "pace.c"), "-lm")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mpicc: %w\n%s", err, out)
	}
	return nil
}

// repeats is how often the shim chooses in a cell, each time from the start.
const repeats = 20

// choose has the shim choose in each cell, over 2000 exchanges that take the times of their
// ways, and a plan that changes in their middle.
func choose(ctx context.Context, program string, all []*cell) error {
	var cases bytes.Buffer
	for _, c := range all {
		plan, once, mpi, clock := c.best()/c.shares[byPlan], c.best()/c.shares[atOnce], c.best()/c.shares[byMPI], 0.0
		if c.shares[byClock] > 0 {
			clock = c.best() / c.shares[byClock]
		}
		for range repeats {
			fmt.Fprintln(&cases, plan, once, mpi, plan, once, mpi, c.noise, 0, clock)
		}
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin = &cases
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("choose: %w", err)
	}
	lines := bytes.NewReader(out)
	for _, c := range all {
		sum := 0.0 // of times over that of the fastest way
		for range repeats {
			var unequal, equal, next float64
			if _, err := fmt.Fscan(lines, &unequal, &next, &equal, &next); err != nil {
				return fmt.Errorf("choose: %w", err)
			}
			if c.shares[byClock] > 0 {
				unequal = equal
			}
			sum += unequal
		}
		c.chosen = max(c.best(), c.shares[byClock]) / (sum / repeats)
	}
	return nil
}
